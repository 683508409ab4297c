"""Lets the tests of this folder import what stands beside them.

Each module skips itself without google-adk, which is an extra; the continuous integration has environments with it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

os.environ.setdefault("ADK_SUPPRESS_EXPERIMENTAL_FEATURE_WARNINGS", "true")
