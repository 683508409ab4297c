"""Makes ``wire_streams`` importable under ``--import-mode=importlib``, and the plugin's fixtures known."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
