"""The networks of the papers by name, and a person's own; weights as safetensors only."""

from recondite.models.registry import NETWORKS, Network, build, names, resolve
from recondite.models.weights import count_parameters, load_weights, save_weights

__all__ = [
    "NETWORKS",
    "Network",
    "build",
    "count_parameters",
    "load_weights",
    "names",
    "resolve",
    "save_weights",
]
