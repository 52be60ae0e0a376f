"""The texts of a reply: ordinary strings, and cheap to cut even when they are huge."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 128 << 10  # characters


def plain(text: str) -> str:
    """The text as an ordinary string: a class of the user's may lie about itself."""
    return text if type(text) is str else str.__str__(text)


def pieces(text: str, most: int) -> Iterator[bytes]:
    """The beginning of a text, `most` bytes or less, without encoding more than a piece at a time."""
    for start in range(0, len(text), _PIECE):
        if most <= 0:
            return
        data = text[start : start + _PIECE].encode("utf-8", "replace")[:most]
        most -= len(data)
        yield data


def bounded(text: str, most: int) -> tuple[bytes, bool]:
    """The text in at most `most` bytes, and whether its middle was left out.

    A text that is too long is never encoded whole: where it has filled the
    memory, there is no room for a copy.
    """
    size = sum(len(piece) for piece in pieces(text, sys.maxsize))
    if size <= most:
        return text.encode("utf-8", "replace"), False
    mark = f"\n… {size - most} bytes left out …\n".encode()
    half = max(0, (most - len(mark)) // 2)
    head = text[:half].encode("utf-8", "replace")[:half]
    tail = text[max(0, len(text) - half) :].encode("utf-8", "replace")
    tail = tail[max(0, len(tail) - half) :]
    return _whole_characters(head) + mark + _whole_characters(tail), True


def _whole_characters(data: bytes) -> bytes:
    return data.decode("utf-8", "ignore").encode("utf-8")
