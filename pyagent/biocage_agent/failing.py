"""The place where an exception came from: its frame, its source, plain values in it."""

from __future__ import annotations

import ast
import linecache
import os
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from biocage_agent.tracebacks import is_user_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_MISSING = object()


def user_frame(error: BaseException) -> FrameType | None:
    """The deepest frame of the user's."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        if is_user_file(trace.tb_frame.f_code.co_filename):
            found = trace.tb_frame
        trace = trace.tb_next
    return found


def is_command(error: BaseException) -> bool:
    """Tell whether a program was to be started."""
    trace = error.__traceback__
    while trace is not None:
        if os.path.basename(trace.tb_frame.f_code.co_filename) == "subprocess.py":
            return True
        trace = trace.tb_next
    return False


def nodes(frame: FrameType | None) -> Iterator[ast.AST]:
    """The syntax of the failing line, as far as the line stands alone."""
    if frame is None:
        return
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    for text in (line, line.rstrip(":") if line.endswith(":") else "", line + "\n    pass"):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        yield from ast.walk(tree)
        return


def value_of(node: ast.AST, frame: FrameType) -> Any:
    """The value of a plain name or constant, without running anything; _MISSING when unknown."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in frame.f_locals:
            return frame.f_locals[node.id]
        return frame.f_globals.get(node.id, _MISSING)
    return _MISSING


def is_known(value: object) -> bool:
    """Tell whether value_of found something."""
    return value is not _MISSING


def attribute_names(owner: object) -> list[str]:
    """Names that owner has, read from dictionaries only."""
    names: list[str] = []
    try:
        if type(owner) is ModuleType:
            names.extend(owner.__dict__)
        else:
            own = object.__getattribute__(owner, "__dict__")
            if type(own) is dict:
                names.extend(own)
    except AttributeError:
        pass
    kind: Any = owner if issubclass(type(owner), type) else type(owner)
    for base in type.__getattribute__(kind, "__mro__"):
        names.extend(type.__getattribute__(base, "__dict__"))
    return names
