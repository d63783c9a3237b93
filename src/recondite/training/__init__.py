"""Private training on PyTorch: bound, aggregate, perturb, step."""

from recondite.training.engine import BudgetSpentError, PrivacyEngine
from recondite.training.sampling import PrivateLoader

__all__ = ["BudgetSpentError", "PrivacyEngine", "PrivateLoader"]
