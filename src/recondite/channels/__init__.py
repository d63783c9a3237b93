"""Channels: noise on records, before training, sized by the information that may pass."""

from recondite.channels.base import Channel
from recondite.channels.ledger import BudgetSpent, Ledger
from recondite.channels.minimum_power import MinimumPowerChannel
from recondite.channels.natural import NaturalChannel
from recondite.channels.parameter import ControlledParameterChannel, ParameterStep
from recondite.channels.personalized import PersonalizedChannel
from recondite.channels.protected import Protected, ProtectedDataset
from recondite.channels.spectrum import Spectrum
from recondite.channels.white import WhiteChannel

__all__ = [
    "BudgetSpent",
    "Channel",
    "ControlledParameterChannel",
    "Ledger",
    "MinimumPowerChannel",
    "NaturalChannel",
    "ParameterStep",
    "PersonalizedChannel",
    "Protected",
    "ProtectedDataset",
    "Spectrum",
    "WhiteChannel",
]
