"""Frames: two lengths, a JSON header, raw bytes. Bounds are enforced here.

The same form is used towards the host and between supervisor and worker. A
decoder takes bytes as they come and never holds more than one frame's bound.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple, NoReturn

MAX_HEADER = 65_536
MAX_BODY_OUT = 1_048_576
MAX_BODY_IN = 16_777_216
MAX_DEPTH = 32

_LENGTHS = struct.Struct(">II")
_READ = 65_536
_QUOTE, _ESCAPE = b'"\\'

Header = dict[str, Any]


class FrameError(Exception):
    """The peer broke a rule of the framing; nothing after it can be trusted."""


class Frame(NamedTuple):
    """One message: its header and the bytes that belong to it."""

    header: Header
    body: bytes


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError("not JSON: " + word)


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def encode(header: Header, body: bytes = b"", max_body: int = MAX_BODY_OUT) -> bytes:
    """One frame as bytes, so that a small frame is one write."""
    head = _encode(header).encode("ascii")
    if len(head) > MAX_HEADER:
        raise FrameError(f"a header of {len(head)} bytes is above {MAX_HEADER}")
    if len(body) > max_body:
        raise FrameError(f"a body of {len(body)} bytes is above {max_body}")
    return b"".join((_LENGTHS.pack(len(head), len(body)), head, body))


def _depth(raw: bytes) -> int:
    """How deep arrays and objects nest; brackets inside strings do not count."""
    depth = deepest = 0
    in_string = escaped = False
    for byte in raw:
        if in_string:
            if escaped:
                escaped = False
            elif byte == _ESCAPE:
                escaped = True
            elif byte == _QUOTE:
                in_string = False
        elif byte == _QUOTE:
            in_string = True
        elif byte in (0x5B, 0x7B):
            depth += 1
            deepest = max(deepest, depth)
        elif byte in (0x5D, 0x7D):
            depth -= 1
    return deepest


def parse_header(raw: bytes) -> Header:
    """The header's object, or FrameError."""
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        raise FrameError(f"a header nests deeper than {MAX_DEPTH}")
    try:
        header = _decode(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FrameError("a header is not JSON") from error
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise FrameError("a header is not an object with a type")
    return header


class Decoder:
    """Cuts a byte stream into frames."""

    def __init__(self, max_body: int) -> None:
        """Frames whose body is longer than max_body are refused."""
        self._max_body = max_body
        self._buffer = bytearray()
        self._lengths: tuple[int, int] | None = None

    def feed(self, data: bytes) -> None:
        """Take bytes; next() then gives what is complete."""
        self._buffer += data

    def pending(self) -> bool:
        """Tell whether a part of a frame waits for its rest."""
        return bool(self._buffer) or self._lengths is not None

    def wanted(self) -> int:
        """How many bytes the next read should ask for."""
        if self._lengths is None:
            return _READ
        missing = sum(self._lengths) - len(self._buffer)
        return min(max(missing, _READ), MAX_BODY_OUT)

    def next(self) -> Frame | None:
        """The next whole frame, or None when more bytes are needed."""
        if self._lengths is None:
            if len(self._buffer) < _LENGTHS.size:
                return None
            head, body = _LENGTHS.unpack_from(self._buffer)
            if head > MAX_HEADER:
                raise FrameError(f"a header of {head} bytes is above {MAX_HEADER}")
            if body > self._max_body:
                raise FrameError(f"a body of {body} bytes is above {self._max_body}")
            del self._buffer[: _LENGTHS.size]
            self._lengths = (head, body)
        head, body = self._lengths
        if len(self._buffer) < head + body:
            return None
        header = parse_header(bytes(self._buffer[:head]))
        data = bytes(self._buffer[head : head + body])
        del self._buffer[: head + body]
        self._lengths = None
        return Frame(header, data)
