"""The user's variables, described without running any of the user's code."""

from __future__ import annotations

import json
import os
from inspect import CO_COROUTINE, CO_VARARGS, CO_VARKEYWORDS
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
    names = _plain(type.__getattribute__(kind, "__module__")), _plain(type.__getattribute__(kind, "__name__"))
    return names == (module, name)


def _plain(text: object) -> str:
    """The text itself, since names may be of classes that derive from str; "" for anything else."""
    return str.__str__(text) if issubclass(type(text), str) else ""


def _cut(text: str) -> str:
    text = _plain(text).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _summary(value: Any) -> str:  # noqa: PLR0911
    kind = type(value)
    if value is None or kind in (bool, float, complex):
        return repr(value)
    if kind is int:
        bits = int.bit_length(value)
        return repr(value) if bits < 256 else f"integer of {bits} bits"  # noqa: PLR2004
    if kind in (str, bytes):
        text = value
        head = repr(text[:80])
        return head if len(text) <= 80 else f"{head}… ({len(text)} long)"  # noqa: PLR2004
    if kind in _SIZED:
        sized = value
        return f"{len(sized)} items"
    if kind is ModuleType:
        return _own(value, "__name__") or "without a name"
    if kind is FunctionType:
        return _signature(value)
    if kind is BuiltinFunctionType:
        return f"{value.__name__}(…)"
    if issubclass(kind, type):
        return _class_name(value)
    return _library_summary(value) or f"object of class {_class_name(kind)}"


def _own(value: object, name: str) -> str:
    """A text in a module's dictionary; modules may have functions that make attributes."""
    return _plain(object.__getattribute__(value, "__dict__").get(name))


def _class_name(kind: type) -> str:
    """A class's name, with its module when that is not the user's own."""
    name = _plain(type.__getattribute__(kind, "__qualname__"))
    module = _plain(type.__getattribute__(kind, "__module__"))
    return name if module in ("", "__main__", "builtins") else f"{module}.{name}"


def _signature(function: FunctionType) -> str:
    """The head of a function from its code object: names only, since defaults and annotations may be anything."""
    code = function.__code__
    names = list(code.co_varnames)
    plain, only = code.co_argcount, code.co_kwonlyargcount
    optional = set(names[plain - len(function.__defaults__ or ()) : plain]) | set(function.__kwdefaults__ or ())
    shown = [name + "=…" if name in optional else name for name in names[: plain + only]]
    keywords = shown[plain:]
    shown = shown[:plain]
    if code.co_posonlyargcount:
        shown.insert(code.co_posonlyargcount, "/")
    place = plain + only
    if code.co_flags & CO_VARARGS:
        shown.append("*" + names[place])
        place += 1
    elif keywords:
        shown.append("*")
    shown += keywords
    if code.co_flags & CO_VARKEYWORDS:
        shown.append("**" + names[place])
    word = "async " if code.co_flags & CO_COROUTINE else ""
    return f"{word}{_plain(function.__name__)}({', '.join(shown)})"


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
