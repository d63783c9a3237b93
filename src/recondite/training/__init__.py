"""Private training on PyTorch: bound, aggregate, perturb, step."""

from recondite.training.engine import BudgetSpentError, OtherProcessError, PrivacyEngine
from recondite.training.sampling import PrivateLoader

__all__ = ["BudgetSpentError", "OtherProcessError", "PrivacyEngine", "PrivateLoader"]
