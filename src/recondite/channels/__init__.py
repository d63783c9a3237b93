"""Channels: noise on records, before training, sized by the information that may pass."""

from recondite.channels.base import Channel
from recondite.channels.ledger import BudgetSpentError, RecordLedger
from recondite.channels.parameter import ControlledParameterChannel, ParameterStep
from recondite.channels.personalized import PersonalizedChannel
from recondite.channels.protected import Protected, ProtectedDataset
from recondite.channels.spectral import MinimumPowerChannel, NaturalChannel, WhiteChannel
from recondite.channels.spectrum import Spectrum

__all__ = [
    "BudgetSpentError",
    "Channel",
    "ControlledParameterChannel",
    "MinimumPowerChannel",
    "NaturalChannel",
    "ParameterStep",
    "PersonalizedChannel",
    "Protected",
    "ProtectedDataset",
    "RecordLedger",
    "Spectrum",
    "WhiteChannel",
]
