"""Makes ``served_app``, and what it borrows of other folders, importable under ``--import-mode=importlib``."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "runner"), str(HERE.parent / "encoders")]
