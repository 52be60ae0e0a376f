"""Tracebacks as the user needs them: own frames with their lines, the rest in a word."""

from __future__ import annotations

import builtins
import os
import sys
import sysconfig
import traceback
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_AGENT = os.path.dirname(os.path.abspath(__file__)) + os.sep
_HEAD = 12
_TAIL = 16
_MAX_CHAIN = 6
_MAX_GROUP = 4
_MAX_DEPTH = 3
_MAX_NOTES = 20
_LIBRARIES = tuple(
    {
        os.path.normpath(path) + os.sep
        for path in (*sysconfig.get_paths().values(), sys.prefix + "/lib", sys.base_prefix + "/lib")
        if path not in ("/", "/usr")
    }
)
_GENERATED = ("<frozen ", "<__array_function__ ", "<decorator-gen-", "<attrs generated ")
_COMPILED = (".pyx", ".pxi", ".pxd", ".pyx.in", ".pxi.in", ".c", ".cc", ".cpp", ".h", ".rs")
_TracebackException = traceback.TracebackException
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
_BASE_GROUP: type | None = getattr(builtins, "BaseExceptionGroup", None)

_Step = tuple[FrameType, int, int]


class Told(NamedTuple):
    """An exception in the reply's fields."""

    name: str
    message: str
    text: str
    line: int


def message_of(error: BaseException) -> str:
    """The exception's text, also when it cannot make one."""
    if isinstance(error, SyntaxError) and error.msg:
        return str(error.msg)
    try:
        text = str(error)
    except BaseException as failure:  # noqa: BLE001 - the user's own __str__
        return f"<the text of this exception cannot be made: {type(failure).__name__}>"
    return text if type(text) is str else str.__str__(text)


def _steps(trace: TracebackType | None) -> Iterator[_Step]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lasti, trace.tb_lineno
        trace = trace.tb_next


def is_user_file(name: str) -> bool:
    """Tell whether a frame's file belongs to the user, not to Python, a library or us."""
    if name.startswith(_GENERATED) or name.startswith((_AGENT, *_LIBRARIES)):
        return False
    # Compiled extensions name their sources as they lay when they were built: pandas/_libs/index.pyx.
    return os.path.isabs(name) or not name.endswith(_COMPILED)


def _is_ours(name: str) -> bool:
    return name.startswith(_AGENT)


def cell_line(error: BaseException, cell: str) -> int:
    """The line of this cell where the exception came through last, 0 when it did not."""
    if isinstance(error, SyntaxError) and error.filename == cell and error.lineno:
        return int(error.lineno)
    line = 0
    for frame, _, number in _steps(error.__traceback__):
        if frame.f_code.co_filename == cell and number:
            line = number
    return line


def _rebuilt(steps: list[_Step]) -> TracebackType | None:
    trace: TracebackType | None = None
    for frame, last, line in reversed(steps):
        trace = TracebackType(trace, frame, last, max(line, 1))
    return trace


def _stack(error: BaseException) -> str:
    """The frames: the user's in full, runs of others as one line, the middle of many left out."""
    steps = [step for step in _steps(error.__traceback__) if not _is_ours(step[0].f_code.co_filename)]
    left_out = 0
    if len(steps) > _HEAD + _TAIL and not _repeats(steps):
        left_out = len(steps) - _HEAD - _TAIL
        return _render(steps[:_HEAD]) + f"  [... {left_out} frames left out ...]\n" + _render(steps[-_TAIL:])
    return _render(steps)


def _repeats(steps: list[_Step]) -> bool:
    """Tell whether most frames are one function calling itself at one line."""
    return len({(frame.f_code, line) for frame, _, line in steps}) <= _HEAD


def _render(steps: list[_Step]) -> str:
    parts: list[str] = []
    run: list[_Step] = []
    library: list[_Step] = []
    for step in steps:
        if is_user_file(step[0].f_code.co_filename):
            if library:
                parts.append(_library_note(library))
                library = []
            run.append(step)
        else:
            if run:
                parts.append(_format(run))
                run = []
            library.append(step)
    if run:
        parts.append(_format(run))
    if library:
        parts.append(_library_note(library))
    return "".join(parts)


def _format(steps: list[_Step]) -> str:
    shown = _TracebackException(Exception, Exception(), _rebuilt(steps), compact=True)
    return "".join(shown.stack.format())


def _library_note(steps: list[_Step]) -> str:
    frame, _, line = steps[-1]
    name = frame.f_code.co_filename
    for library in sorted(_LIBRARIES, key=len, reverse=True):
        if name.startswith(library):
            name = name[len(library) :]
            break
    count = "1 frame" if len(steps) == 1 else f"{len(steps)} frames"
    return f"  [{count} of libraries, the last in {name}, line {line}, in {frame.f_code.co_name}]\n"


def _last_lines(error: BaseException) -> str:
    """The lines after the frames: type and message, notes, a syntax error's place."""
    kind = type(error)
    module = kind.__module__
    name = kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
    if isinstance(error, SyntaxError):
        lines = _syntax_lines(error)
    else:
        message = message_of(error)
        lines = f"{name}: {message}\n" if message else f"{name}\n"
    notes = error.__dict__.get("__notes__")
    if isinstance(notes, list):
        lines += "".join(f"{note}\n" for note in notes[:_MAX_NOTES] if type(note) is str)
    return lines


def _syntax_lines(error: SyntaxError) -> str:
    """A syntax error with its place, formatted from a copy that has no past."""
    kind: type[SyntaxError] = SyntaxError
    if isinstance(error, IndentationError):
        kind = TabError if isinstance(error, TabError) else IndentationError
    copy = kind(message_of(error))
    for name in ("filename", "lineno", "offset", "text", "end_lineno", "end_offset"):
        setattr(copy, name, getattr(error, name, None))
    return "".join(_TracebackException(kind, copy, None).format_exception_only())


def _chain(error: BaseException) -> list[tuple[BaseException, str]]:
    """The exception and those before it, the oldest first, each with the words that follow it."""
    found: list[tuple[BaseException, str]] = []
    seen: set[int] = set()
    words = ""
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(found) < _MAX_CHAIN:
        seen.add(id(current))
        found.append((current, words))
        if current.__cause__ is not None:
            current, words = current.__cause__, _CAUSE
        elif current.__context__ is not None and not current.__suppress_context__:
            current, words = current.__context__, _CONTEXT
        else:
            current = None
    return found[::-1]


def format_error(error: BaseException, depth: int = 0) -> str:
    """The whole text: chain, frames, groups."""
    parts: list[str] = []
    for item, words in _chain(error):
        stack = _stack(item)
        if stack:
            parts.append("Traceback (most recent call last):\n" + stack)
        parts.append(_last_lines(item))
        if _BASE_GROUP is not None and isinstance(item, _BASE_GROUP):
            parts.append(_format_group(item, depth))
        parts.append(words)
    return "".join(parts)


def _format_group(group: BaseException, depth: int) -> str:
    inner = getattr(group, "exceptions", ())
    if depth >= _MAX_DEPTH:
        return f"  [{len(inner)} exceptions inside]\n"
    parts: list[str] = []
    for number, item in enumerate(inner[:_MAX_GROUP], start=1):
        parts.append(f"  +---------------- {number} ----------------\n")
        text = format_error(item, depth + 1)
        parts.extend(f"  | {line}\n" for line in text.rstrip("\n").split("\n"))
    if len(inner) > _MAX_GROUP:
        parts.append(f"  [{len(inner) - _MAX_GROUP} more]\n")
    return "".join(parts)


def describe(error: BaseException, cell: str) -> Told:
    """Everything that the reply tells of an exception."""
    name = type(error).__name__
    try:
        text = format_error(error)
    except Exception as failure:  # noqa: BLE001 - user code may have broken what formatting needs
        text = f"{name}: {message_of(error)}\n[the traceback cannot be made: {type(failure).__name__}]\n"
    return Told(name[:200], message_of(error), text, cell_line(error, cell))
