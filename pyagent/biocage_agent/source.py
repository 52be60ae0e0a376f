"""From the text of a cell to code objects.

The text is forgiven what people paste: line ends of other systems, a byte
order mark, common indentation, a Markdown fence, notebook magics. Whatever
Python itself understands is never touched.
"""

from __future__ import annotations
import __future__ as _features

import ast
import re
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from biocage_agent import magics

if TYPE_CHECKING:
    from types import CodeType

_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FUTURE = _features.annotations.compiler_flag  # the only feature that is not the rule yet
_FENCE = re.compile(r"\A\s*(?:```|~~~)[^\n`]*\n(.*?)\n?[ \t]*(?:```|~~~)\s*\Z", re.DOTALL)


class Cell(NamedTuple):
    """A compiled cell: what runs, and the expression whose value is shown."""

    text: str
    body: CodeType | None
    last: CodeType | None
    future: int  # compiler flags of `from __future__` imports, which hold for later cells too


def decode(data: bytes) -> str:
    """The text of the code; bytes that are not UTF-8 are shown as such."""
    return data.decode("utf-8", "replace")


def normalise(text: str) -> str:
    """Drop byte order marks and carriage returns at line ends; unwrap a fence."""
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if text.lstrip()[:3] in ("```", "~~~"):
        fenced = _FENCE.match(text)
        if fenced is not None:
            lines_before = text[: fenced.start(1)].count("\n")
            text = "\n" * lines_before + fenced.group(1)
    return text


def parse(text: str, name: str, future: int = 0) -> Cell:
    """Compile a cell; a SyntaxError is about the text as it was given."""
    try:
        return _compile(text, name, future)
    except SyntaxError as error:
        first = error
    dedented = _dedented(text)
    for attempt, shown in (
        (dedented, dedented),
        (magics.translate(text), text),
        (magics.translate(dedented), dedented),
    ):
        if attempt is None or attempt == text:
            continue
        try:
            return _compile(attempt, name, future)._replace(text=shown)
        except SyntaxError:
            continue
    raise first


def _dedented(text: str) -> str:
    return textwrap.dedent(text) if text[:1].isspace() else text


def _compile(text: str, name: str, future: int) -> Cell:
    flags = _FLAGS | future
    try:
        tree = compile(text, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    except (RecursionError, MemoryError):
        # Too deep for a syntax tree in Python objects; the compiler alone may manage.
        return _cell(text, compile(text, name, "exec", flags, dont_inherit=True), None, future)
    last: CodeType | None = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not _is_silenced(text, tree.body[-1]):
        expression = tree.body.pop()
        assert isinstance(expression, ast.Expr)  # noqa: S101 - for the type checker
        wrapped = ast.Expression(expression.value)
        last = compile(wrapped, name, "eval", flags, dont_inherit=True)
    body = compile(tree, name, "exec", flags, dont_inherit=True) if tree.body else None
    return _cell(text, body, last, future)


def _cell(text: str, body: CodeType | None, last: CodeType | None, future: int) -> Cell:
    return Cell(text, body, last, future | (body.co_flags & _FUTURE if body is not None else 0))


def _is_silenced(text: str, node: ast.Expr) -> bool:
    """Tell whether a semicolon follows the last expression."""
    if ";" not in text or node.end_lineno is None or node.end_col_offset is None:
        return False
    lines = text.split("\n")[node.end_lineno - 1 :]
    rest = lines[0].encode("utf-8", "surrogatepass")[node.end_col_offset :]
    return rest.lstrip().startswith(b";")
