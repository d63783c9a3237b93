"""What is released: one small frozen dataclass for each mechanism."""

from recondite.mechanisms.base import (
    Mechanism,
    MetricPrivacy,
    Neighbouring,
    Setting,
    UndefinedNotionError,
)
from recondite.mechanisms.directional import Directional
from recondite.mechanisms.gaussian import Gaussian
from recondite.mechanisms.none import NoNoise
from recondite.mechanisms.parameter_channel import ParameterChannel
from recondite.mechanisms.partitioned import PartitionedVonMisesFisher
from recondite.mechanisms.registry import mechanisms
from recondite.mechanisms.units import Observed, Units
from recondite.mechanisms.vmf import VonMisesFisher

__all__ = [
    "Directional",
    "Gaussian",
    "Mechanism",
    "MetricPrivacy",
    "Neighbouring",
    "NoNoise",
    "Observed",
    "ParameterChannel",
    "PartitionedVonMisesFisher",
    "Setting",
    "UndefinedNotionError",
    "Units",
    "VonMisesFisher",
    "mechanisms",
]
