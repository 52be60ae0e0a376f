"""The user's variables, described without running any of the user's code."""

from __future__ import annotations

import json
import os
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

_MAX_BYTES = 40_000
_MAX_TEXT = 200
_MAX_NAME = 100
_SIZED = (list, tuple, dict, set, frozenset)
_HIDDEN = frozenset({"display", "exit", "quit"})


def _exact(value: object, module: str, name: str) -> bool:
    """Tell whether value's class is exactly the named one, by the class's own records."""
    kind = type(value)
    return (type.__getattribute__(kind, "__module__"), type.__getattribute__(kind, "__name__")) == (module, name)


def _cut(text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _summary(value: object) -> str:  # noqa: PLR0911
    kind = type(value)
    if value is None or kind in (bool, float, complex):
        return repr(value)
    if kind is int:
        bits = int.bit_length(value)  # type: ignore[arg-type]
        return repr(value) if bits < 256 else f"integer of {bits} bits"  # noqa: PLR2004
    if kind in (str, bytes):
        text: Any = value
        head = repr(text[:80])
        return head if len(text) <= 80 else f"{head}… ({len(text)} long)"  # noqa: PLR2004
    if kind in _SIZED:
        sized: Any = value
        return f"{len(sized)} items"
    if kind is ModuleType:
        return "module"
    if kind in (FunctionType, BuiltinFunctionType):
        return "function"
    if isinstance(value, type):
        return "class"
    return _library_summary(value)


def _library_summary(value: Any) -> str:
    """Shapes of arrays and frames, by exact class."""
    if _exact(value, "numpy", "ndarray"):
        return f"shape {value.shape}, {value.dtype}"
    if _exact(value, "pandas.core.frame", "DataFrame") or _exact(value, "pandas", "DataFrame"):
        names = [str(name) for name in value.columns[:8] if type(name) in (str, int)]
        return f"{value.shape[0]} rows x {value.shape[1]} columns: {', '.join(names)}"
    if _exact(value, "pandas.core.series", "Series") or _exact(value, "pandas", "Series"):
        return f"{value.shape[0]} values, {value.dtype}"
    return ""


def describe(namespace: dict[str, Any], limit: int) -> tuple[list[dict[str, str]], int, str]:
    """Name, type and summary of the variables; how many more there are; the working directory."""
    found: list[dict[str, str]] = []
    more = size = 0
    for name, value in list(namespace.items()):
        if type(name) is not str or name.startswith("_") or name in _HIDDEN:
            continue
        kind = type.__getattribute__(type(value), "__name__")
        entry = {"name": _cut(name)[:_MAX_NAME], "type": _cut(kind)[:_MAX_NAME], "summary": _cut(_safe(value))}
        size += len(json.dumps(entry)) + 1
        if len(found) >= limit or size > _MAX_BYTES:
            more += 1
        else:
            found.append(entry)
    try:
        cwd = os.fsencode(os.getcwd()).decode("utf-8", "replace")
    except OSError:
        cwd = ""
    return found, more, cwd


def _safe(value: object) -> str:
    try:
        return _summary(value)
    except Exception:  # noqa: BLE001 - a library in a state of its own
        return ""
