"""Transcripts of connections: read, compare, write. The form is in testdata/wire/README.md."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_SECTION = re.compile(r"^-- (.+) --$")


@dataclass
class Step:
    """One frame of a transcript."""

    side: str
    header: dict[str, Any]
    body: bytes


@dataclass
class Transcript:
    """One connection."""

    comment: str
    volatile: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def _decode_body(text: str) -> bytes:
    if not text:
        return b""
    text = text.removesuffix("\n")
    if text.startswith("base64:"):
        try:
            return base64.b64decode(text.removeprefix("base64:"), validate=True)
        except binascii.Error as error:
            raise ValueError("a body that is no base64") from error
    return text.encode("utf-8")


def _encode_body(body: bytes) -> str:
    if not body:
        return ""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    plain = bool(text) and "\r" not in text and not text.startswith("base64:") and "\n-- " not in "\n" + text
    return (text if plain else "base64:" + base64.b64encode(body).decode("ascii")) + "\n"


def read(path: Path) -> Transcript:
    """Parse a transcript."""
    name = ""
    sections: list[tuple[str, str]] = [("", "")]
    for line in path.read_text("utf-8").splitlines(keepends=True):
        match = _SECTION.match(line.rstrip("\n"))
        if match:
            sections.append((match.group(1), ""))
        else:
            name, text = sections[-1]
            sections[-1] = (name, text + line)
    found = Transcript(sections[0][1])
    for name, text in sections[1:]:
        if name == "volatile":
            found.volatile = text.split()
            continue
        number, _, side = name.partition(" ")
        if side not in ("host", "agent") or int(number) != len(found.steps) + 1:
            raise ValueError(f"{path.name}: a section named {name!r}")
        head, _, body = text.partition("\n")
        found.steps.append(Step(side, json.loads(head), _decode_body(body)))
    return found


def write(path: Path, transcript: Transcript) -> None:
    """Write a transcript."""
    parts = [transcript.comment]
    if transcript.volatile:
        parts.append("-- volatile --\n" + "".join(name + "\n" for name in transcript.volatile))
    for number, step in enumerate(transcript.steps, start=1):
        head = json.dumps(step.header, ensure_ascii=False)
        parts.append(f"-- {number:02} {step.side} --\n{head}\n{_encode_body(step.body)}")
    path.write_text("".join(parts), "utf-8")


def _blur(value: Any, names: list[str]) -> Any:  # noqa: ANN401
    """Replace the named field by its type."""
    if isinstance(value, list):
        return [_blur(item, names) for item in value]
    if not isinstance(value, dict) or names[0] not in value:
        return value
    if len(names) == 1:
        return {**value, names[0]: f"<{type(value[names[0]]).__name__}>"}
    return {**value, names[0]: _blur(value[names[0]], names[1:])}


def comparable(step: Step, volatile: list[str]) -> tuple[dict[str, Any], bytes | dict[str, bytes]]:
    """A frame with what differs from run to run taken out."""
    header: dict[str, Any] = step.header
    parts: dict[str, bytes] = {}
    body: bytes | dict[str, bytes] = step.body
    if header.get("type") == "execute_reply" and header.get("parts"):
        offset = 0
        sizes = []
        for part in header["parts"]:
            name = part["name"]
            parts[name] = step.body[offset : offset + part["size"]]
            offset += part["size"]
            if f"part:{name}" in volatile:
                parts[name] = b"<bytes>"
            sizes.append({"name": name, "size": len(parts[name])})
        header = {**header, "parts": sizes}
        body = parts
    for name in volatile:
        if not name.startswith("part:"):
            header = _blur(header, name.split("."))
    return header, body
