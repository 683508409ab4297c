"""README says what is so: its programs run and print what it shows, and its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

# a python block directly followed (but for a line of prose) by the text it prints
SHOWN = re.findall(r"```python\n((?:(?!```).)*)```\n+(?:prints\n+)?```text\n(.*?)```", README, re.S)


def test_readme_shows_programs_with_their_output() -> None:
    assert len(SHOWN) >= 2


@pytest.mark.parametrize(("program", "output"), SHOWN, ids=lambda text: text.strip().splitlines()[-1][:30])
def test_program_prints_what_readme_shows(program: str, output: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == output.strip()


def test_the_test_command_is_there_for_continuous_integration() -> None:
    assert "pip install -e '.[test]' && python -m pytest -n auto" in README
    assert "python -m pytest -n auto" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"samples/[\w./-]+\.\w+|tests/[\w./-]+\.py", README))))
def test_files_that_readme_names_exist(path: str) -> None:
    assert (ROOT / path).is_file()
