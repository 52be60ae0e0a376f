"""Notebook spellings, translated line by line where Python cannot parse them."""

from __future__ import annotations

import re

_SHELL = re.compile(r"^(\s*)!(.+)$")
_ASSIGN = re.compile(r"^(\s*)([A-Za-z_][\w, ]*?)\s*=\s*!(.+)$")
_MAGIC = re.compile(r"^(\s*)%{1,2}([A-Za-z_]\w*)[ \t]*(.*)$")
_HELP = re.compile(r"^(\s*)(?:\?{1,2}\s*([\w.]+)|([\w.]+)\s*\?{1,2})\s*;?\s*$")


def translate(text: str) -> str | None:
    """The text with its magics as calls of one built-in, or None when there are none."""
    lines = text.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[first].lstrip().startswith("%%"):
        return _cell_magic(lines, first)
    changed = [_line(line) for line in lines]
    return "\n".join(changed) if changed != lines else None


def _cell_magic(lines: list[str], first: int) -> str | None:
    match = _MAGIC.match(lines[first])
    if match is None:
        return None
    _, name, rest = match.groups()
    body = "\n".join(lines[first + 1 :])
    if name in ("time", "capture", "timeit"):
        inner = translate(body)
        lines[first] = ""
        return "\n".join(lines[: first + 1]) + "\n" + (body if inner is None else inner)
    if name in ("bash", "sh", "writefile"):
        return "\n" * first + f"__biocage_magic__({name!r}, {rest!r}, {body!r});"
    return "\n" * first + f"__biocage_magic__({'%' + name!r}, {rest!r});"


def _line(line: str) -> str:
    if (match := _ASSIGN.match(line)) is not None:
        indent, names, command = match.groups()
        return f"{indent}{names} = __biocage_magic__('!=', {command!r})"
    if (match := _SHELL.match(line)) is not None:
        indent, command = match.groups()
        return f"{indent}__biocage_magic__('!', {command!r});"
    if (match := _MAGIC.match(line)) is not None:
        indent, name, rest = match.groups()
        if name == "time" and rest:
            return indent + rest
        return f"{indent}__biocage_magic__({name!r}, {rest!r});"
    if (match := _HELP.match(line)) is not None:
        indent, before, after = match.groups()
        return f"{indent}__biocage_magic__('?', {before or after!r});"
    return line
