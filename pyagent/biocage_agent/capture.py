"""What a cell writes to a standard stream: head and tail in memory, the whole on disk.

Memory is bounded by the most bytes kept; the spool file by its own bound. Only
the head goes to the host while the cell runs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LAST_LINE = 200
_CONTINUATION = 0x80
_LATE_BYTES = 4096


class SpoolFile:
    """A file that grows up to a bound and forgives a full disk."""

    def __init__(self, place: Callable[[], str], limit: int) -> None:
        """Nothing is made, and the place not asked for, before the first write."""
        self._place = place
        self.path = ""
        self._room = limit
        self._file: int | None = None

    @property
    def used(self) -> bool:
        """Tell whether a file exists."""
        return self._file is not None

    def write(self, data: bytes) -> None:
        """Append what still fits; a failing disk ends the spool, not the cell."""
        part = memoryview(data)[: self._room]
        if not part:
            return
        try:
            if self._file is None:
                self.path = self._place()
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._file = os.open(self.path, flags, 0o644)
            while part:
                written = os.write(self._file, part)
                self._room -= written
                part = part[written:]
        except OSError:
            self._room = 0

    def close(self) -> None:
        """Close the file; it stays on disk."""
        if self._file is not None:
            os.close(self._file)


class Capture:
    """One stream of one cell."""

    def __init__(self, keep: int, spool: SpoolFile) -> None:
        """Keep half of `keep` bytes from the head and half from the tail."""
        self._half = keep // 2
        self._spool = spool
        self._head = bytearray()
        self._sent = 0
        self._tail = bytearray()
        self.total = 0

    @property
    def truncated(self) -> bool:
        """Tell whether bytes between head and tail were dropped."""
        return self.total > 2 * self._half

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        before = self.total
        self.total += len(data)
        if self.truncated:
            if before <= 2 * self._half:
                self._spool.write(bytes(self._head + self._tail))
            self._spool.write(data)
        missing = self._half - len(self._head)
        if missing > 0:
            self._head += data[:missing]
            data = data[missing:]
        if not data:
            return
        self._tail += data[-self._half :] if self._half else b""
        if len(self._tail) > 2 * self._half:
            del self._tail[: len(self._tail) - self._half]

    def take_head(self) -> bytes:
        """Bytes of the head that the host has not seen yet."""
        part = bytes(self._head[self._sent :])
        self._sent = len(self._head)
        return part

    def tail(self) -> tuple[int, bytes]:
        """The offset of the tail and its bytes; a cut tail begins with a whole character."""
        data = bytes(self._tail[-self._half :]) if self._half else b""
        if self.truncated:
            skip = 0
            while skip < min(3, len(data)) and data[skip] & 0xC0 == _CONTINUATION:
                skip += 1
            data = data[skip:]
        return self.total - len(data), data

    def last_line(self) -> str:
        """The last line seen, cut to 200 characters."""
        data = bytes(self._tail[-4 * _LAST_LINE :] or self._head[-4 * _LAST_LINE :])
        lines = data.replace(b"\r", b"\n").rstrip(b"\n").rsplit(b"\n", 1)
        return lines[-1].decode("utf-8", "replace")[-_LAST_LINE:]

    def close(self) -> str | None:
        """End the capture; the spool's path when the stream was cut and kept on disk."""
        self._spool.close()
        return self._spool.path if self.truncated and self._spool.used else None


class Late:
    """What threads and children write while no cell runs, the first of it."""

    def __init__(self) -> None:
        """Nothing came yet."""
        self._kept: dict[str, bytes] = {}

    def add(self, name: str, data: bytes) -> None:
        """Take the next bytes of a stream."""
        kept = self._kept.get(name, b"")
        self._kept[name] = kept + data[: _LATE_BYTES - len(kept)]

    def take(self) -> list[tuple[str, bytes]]:
        """The parts for the next reply; they are told once."""
        parts = [("late_" + name, self._kept[name]) for name in sorted(self._kept, reverse=True)]
        self._kept.clear()
        return parts
