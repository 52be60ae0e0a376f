"""Hints about values: keys, indexes, zeros, shapes, conversions."""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import re
from types import FrameType, FunctionType
from typing import Any

from biocage_agent import failing

_MOST_KEYS = 10
_KEY_TEXT = 40

FOR_MESSAGES: tuple[tuple[str, str], ...] = (
    (
        r"^%\S+ is a notebook command",
        (
            "Of the notebook commands only the common ones work: !command, %pip, %cd, %env, %ls, %time, %timeit, "
            "%%bash, %%writefile; leave others out."
        ),
    ),
    (
        (
            r"could not be broadcast|shapes? .* (not aligned|mismatch)|mismatch in its core dimension"
            r"|must match exactly"
            r"|All arrays must be of the same length|Length of values|dimensions? .* (must match|mismatch)"
        ),
        "The shapes do not fit: print .shape (or len()) of each operand; reshape, transpose or cut one of them.",
    ),
    (r"cannot reshape array", "The number of elements must stay the same: print .size and the wanted shape."),
    (
        r"truth value of an? (array|Series|DataFrame)",
        "Use .any(), .all() or .empty, and & | ~ with parentheses instead of and, or, not.",
    ),
    (
        r"could not convert string to float|invalid literal for int",
        "The text is no number: look at it with repr(), strip it, or use pandas.to_numeric(..., errors='coerce').",
    ),
    (
        r"not enough values to unpack|too many values to unpack",
        "The number of names on the left must be the number of values; print the value first.",
    ),
    (r"I/O operation on closed file", "The file is closed: open it again, or do the work inside the with block."),
    (r"list\.remove|is not in list|substring not found", "The item is not there: test with `in` first."),
    (
        r"asyncio\.run\(\) cannot be called|event loop is already running",
        "The cell uses await at its top level, so a loop runs: write `await f()` instead of asyncio.run(f()).",
    ),
    (
        r"can only concatenate str|unsupported operand type|must be str, not",
        "The operands have different types: convert one, for example with str(), int() or float().",
    ),
    (r"object is not subscriptable", "The value is no list, dict or string: print type() of it."),
    (r"object is not iterable", "The value cannot be looped over: print type() of it."),
    (r"is not JSON serializable", "Convert the value first (list(), str(), float(), .tolist()), or pass default=str."),
    (r"unhashable type", "Lists, dicts and sets cannot be keys or set members: use a tuple or frozenset."),
    (r"NoneType", "A value is None: look at what the call before it returned."),
    (r"time data .* does not match format", "Compare the text with the format, or use pandas.to_datetime(text)."),
    (
        r"cannot convert .*NaN|cannot convert non-finite|Input .*contains NaN",
        "The data hold NaN: use dropna() or fillna() first.",
    ),
    (r"singular matrix|Singular matrix", "The matrix cannot be inverted: use numpy.linalg.pinv or lstsq."),
)


def _short(value: object) -> str:
    if type(value) not in (str, int, float, bool, bytes, type(None)):
        return f"<{type(value).__name__}>"
    text = repr(value)
    return text if len(text) <= _KEY_TEXT else text[:_KEY_TEXT] + "…"


def _container_hint(container: Any, key: object) -> str:
    """What is in the container that was asked for a wrong key."""
    kind = type(container)
    if kind in (list, tuple, str, bytes):
        size = len(container)
        what = f"{kind.__name__} has {size} items"
        return f"The {what}: indexes go from 0 to {size - 1}." if size else f"The {kind.__name__} is empty."
    names: list[Any] = []
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
        return f"The array's shape is {container.shape}; indexes begin at 0."
    if kind is dict or dict in kind.__mro__:
        names = list(dict.keys(container))
    elif kind.__name__ == "DataFrame" and kind.__module__.startswith("pandas"):
        names = list(container.columns)
    else:
        return ""
    if not names:
        return "It is empty."
    texts = [name for name in names if type(name) is str]
    near = difflib.get_close_matches(key, texts, 1) if type(key) is str else []
    start = f"Did you mean {near[0]!r}? " if near else ""
    shown = ", ".join(_short(name) for name in names[:_MOST_KEYS])
    more = f" and {len(names) - _MOST_KEYS} more" if len(names) > _MOST_KEYS else ""
    return f"{start}There is: {shown}{more}."


def key_hint(error: BaseException, frame: FrameType | None) -> str:
    """For KeyError and IndexError: what the container holds."""
    key = error.args[0] if error.args else None
    for node in failing.nodes(frame):
        if not isinstance(node, ast.Subscript) or frame is None:
            continue
        container = failing.value_of(node.value, frame)
        if failing.is_known(container):
            text = _container_hint(container, key)
            if text:
                return text
    if isinstance(error, IndexError):
        return "The index is outside: print len() of the value; indexes begin at 0."
    return "The key is not there: print the keys, or use .get(key)."


def zero_hint(frame: FrameType | None) -> str:
    """For ZeroDivisionError: which name is zero."""
    for node in failing.nodes(frame):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)) and frame is not None:
            value = failing.value_of(node.right, frame)
            if isinstance(node.right, ast.Name) and type(value) in (int, float) and value == 0:
                return f"{node.right.id} is 0 here: test it before dividing."
    return "The divisor is 0 here: test it before dividing."


def ambiguous_name(error: TypeError, frame: FrameType | None, namespace: dict[str, Any]) -> str:
    """For TypeError: a built-in that was overwritten, or a function's real parameters."""
    message = str(error)
    if "not callable" in message:
        for node in failing.nodes(frame):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                name = node.func.id
                if name in namespace and hasattr(builtins, name):
                    return f"{name} is a variable of yours that hides the built-in: `del {name}` brings it back."
        return "The value is no function: look for a missing comma or operator, or a name used twice."
    match = re.match(r"(?:[\w.<>]+\.)?(\w+)\(\) (?:missing|takes|got)", message)
    if match is not None:
        function = namespace.get(match.group(1))
        if type(function) is FunctionType:
            return f"It is defined as {match.group(1)}{inspect.signature(function)}."
    return ""
