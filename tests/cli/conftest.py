import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


PROVIDERS = ("GEMINI_", "GOOGLE_", "OPENAI_", "ANTHROPIC_")


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """What the command sees: a data folder of the test's own, no keys, no colours forced."""
    for name in ("ADK_STREAM_SESSION_DB", "NO_COLOR", *(n for n in os.environ if n.startswith(PROVIDERS))):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TERM", "xterm")
    return os.environ
