import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """What the command sees: a data folder of the test's own, no keys, no colours forced."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "ADK_STREAM_SESSION_DB", "NO_COLOR", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TERM", "xterm")
    return os.environ
