"""The house keeps its layers: imports point down, and nothing heavy is loaded before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import adk_stream

ROOT = Path(adk_stream.__file__).parent

LAYERS = [
    {"wire", "parts", "arguments", "metadata", "checkpoint", "lazily", "response", "errors"},
    {"providers", "indexer"},
    {"aggregator"},
    {"execution", "encoders"},
    {"models", "sessions", "relay", "recording"},
    {"runner", "live"},
    {"server", "batch", "integrations", "testing"},
    {"cli", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
CORE = {*LAYERS[0], *LAYERS[1], *LAYERS[2]}
WAITING = {
    "asyncio", "concurrent", "multiprocessing", "select", "selectors", "socket", "ssl", "subprocess", "threading",
    "time", "aiohttp", "anyio", "httpx", "httpx2", "requests", "trio", "urllib3", "websockets",
}  # fmt: skip
ONLY_IN = {
    "openai": {"models"},
    "anthropic": {"models"},
    "sqlalchemy": {"sessions"},
    "redis": {"relay"},
    "starlette": {"server", "testing"},
    "uvicorn": {"server", "testing"},
    "pytest": {"testing"},
    "typer": {"cli"},
    "rich": {"cli"},
}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """Dotted names that a module imports anywhere, imports for the type checker aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unseen = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ["adk_stream", *path.relative_to(ROOT).parent.parts][: -node.level + 1 or None] if node.level else []
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        pytest.skip("the package's face names every room, each loaded on first use")
    assert room in LEVEL, f"{room} is not in the house"
    for name in imports_of(path):
        top, *rest = name.split(".")
        if top == "adk_stream" and rest and rest[0] != "__version__":
            # a public name of the package's face counts as the room it comes from
            other = rest[0] if rest[0] in LEVEL else adk_stream._HOMES[rest[0]].split(".")[0]
            assert LEVEL[other] <= LEVEL[room], f"{path} imports {name} from above"
        assert room in ONLY_IN.get(top, {room}), f"{path} imports {top}"
        assert not (room in CORE and top in WAITING), f"the sans-IO core imports {top} in {path}"
        if name.startswith("google.adk"):
            place = path.relative_to(ROOT).with_suffix("").parts
            assert place[:2] == ("integrations", "google_adk"), f"{path} imports google.adk"


def test_the_rules_see_something() -> None:
    assert len(MODULES) > 40
    assert "adk_stream.parts.PartDelta" in set(imports_of(ROOT / "indexer.py"))
    assert "adk_stream.metadata.as_wire" not in set(imports_of(ROOT / "indexer.py"))
    assert not any(name.startswith("google") for name in imports_of(ROOT / "indexer.py")), "for the type checker alone"
    assert {room_of(path) for path in MODULES} - {"__init__"} <= LEVEL.keys()


@pytest.mark.parametrize(
    ("place", "source", "broken"),
    [
        ("parts.py", "from adk_stream.aggregator import aggregate", True),
        ("parts.py", "from adk_stream import aggregate", True),
        ("parts.py", "def late():\n    import adk_stream.cli.app", True),
        ("parts.py", "import time", True),
        ("providers/gemini.py", "from ..execution import read_messages_stream", True),
        ("providers/gemini.py", "from ..errors import StreamError", False),
        ("providers/gemini.py", "import openai", True),
        ("models/openai_chat.py", "import openai", False),
        ("runner.py", "from google.adk.models import LlmResponse", True),
        ("integrations/google_adk.py", "from google.adk.models import LlmResponse", False),
        ("integrations/google_adk/session.py", "from google import adk", False),
        ("integrations/google_adk_no.py", "from google import adk", True),
        ("parts.py", "if TYPE_CHECKING:\n    from adk_stream.cli import app", False),
        ("nowhere.py", "import json", True),
    ],
)
def test_the_rules_catch_what_breaks_them(
    place: str, source: str, broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    if not broken:
        test_imports_point_down(path)
        return
    with pytest.raises(AssertionError):
        test_imports_point_down(path)


def loaded_after(statement: str) -> set[str]:
    program = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import adk_stream")
    assert not loaded & {"google.genai", "pydantic", "pydantic_core", "msgspec", "asyncio", "sqlalchemy"}


def test_reading_a_stream_down_to_chunks_needs_no_google_genai() -> None:
    loaded = loaded_after(
        "from adk_stream.providers.line import Line; "
        "line = Line('openai-chat'); "
        'list(line.feed(b\'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\\n\\n\'))'
    )
    assert not loaded & {"google.genai", "pydantic", "asyncio", "threading"}


def test_every_public_name_resolves() -> None:
    for name in adk_stream.__all__:
        assert getattr(adk_stream, name) is not None
        assert name in dir(adk_stream)
    with pytest.raises(AttributeError, match="nothing"):
        _ = adk_stream.nothing


def test_the_package_is_typed() -> None:
    assert (ROOT / "py.typed").is_file()
