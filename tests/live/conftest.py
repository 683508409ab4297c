"""Tests of live sessions speak with a local Live server over TLS, and import the helpers beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.importorskip("trustme", reason="the local Live server needs the testing extra")
