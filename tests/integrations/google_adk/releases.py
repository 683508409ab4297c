"""Which google-adk is installed: where its own behaviour is the measure, that of the release it was observed in."""

from __future__ import annotations

from importlib.metadata import version

import pytest

INSTALLED = tuple(map(int, version("google-adk").split(".")[:2]))

#: For tests that compare with what google-adk itself does.
as_observed = pytest.mark.skipif(INSTALLED < (2, 13), reason="earlier releases of google-adk do this differently")
