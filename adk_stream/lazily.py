"""Public names of a package, each loaded on first use (PEP 562): nothing pays for an import that it does not need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package.

    Args:
        package: Its ``__name__``.
        homes: For each public name the module that holds it, named from the package.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        known = vars(sys.modules[package])
        return sorted({*known, *known["__all__"]})

    return load, names
