"""For tests that start a script of this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
