"""The worker's standard streams: made once, mended before each cell.

User code may close, redirect or replace them. What it did on purpose stays as
long as it works; what would leave later cells unheard is undone.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import sys

from biocage_agent import system

_NAMES = ("stdin", "stdout", "stderr")
_PRIVATE = 200


def _private(descriptor: int) -> int:
    """Duplicate to a high number, where a program hardly looks."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _PRIVATE)


def _same_file(descriptor: int, facts: tuple[int, int]) -> bool:
    try:
        info = os.fstat(descriptor)
    except OSError:
        return False
    return (info.st_dev, info.st_ino) == facts


def _facts(descriptor: int) -> tuple[int, int]:
    info = os.fstat(descriptor)
    return info.st_dev, info.st_ino


def _open_text(descriptor: int) -> io.TextIOWrapper:
    """A text stream that survives being dropped: closing it leaves the descriptor open."""
    raw = io.FileIO(descriptor, "w" if descriptor else "r", closefd=False)
    binary: io.BufferedReader | io.BufferedWriter
    binary = io.BufferedWriter(raw) if descriptor else io.BufferedReader(raw)
    errors = "backslashreplace" if descriptor else "replace"
    stream = io.TextIOWrapper(binary, encoding="utf-8", errors=errors, line_buffering=bool(descriptor))
    stream.mode = "w" if descriptor else "r"  # type: ignore[misc]
    return stream


class Streams:
    """Descriptors 0, 1, 2 and the objects in sys."""

    def __init__(self, stdout: int, stderr: int) -> None:
        """Install the pipes as descriptors 1 and 2; keep duplicates."""
        null = os.open(os.devnull, os.O_RDWR)
        self._kept = [_private(null), _private(stdout), _private(stderr)]
        for descriptor in (null, stdout, stderr):
            os.close(descriptor)
        self._facts = [_facts(descriptor) for descriptor in self._kept]
        for number, descriptor in enumerate(self._kept):
            os.dup2(descriptor, number)
        self._own = [_open_text(number) for number in range(3)]
        for name, stream in zip(_NAMES, self._own, strict=True):
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)

    @property
    def error_descriptor(self) -> int:
        """A duplicate of descriptor 2 that user code hardly meets."""
        return self._kept[2]

    def mend(self) -> None:
        """Before a cell: make sure that what it writes is heard."""
        for number, name in enumerate(_NAMES):
            if not _same_file(number, self._facts[number]):
                os.dup2(self._kept[number], number)
            elif number and not os.get_blocking(number):
                os.set_blocking(number, True)
            if self._own[number].closed:
                self._own[number] = _open_text(number)
                setattr(sys, f"__{name}__", self._own[number])
            current = getattr(sys, name, None)
            if current is not self._own[number] and self._is_dead_end(current):
                setattr(sys, name, self._own[number])

    def _is_dead_end(self, stream: object) -> bool:
        """Tell whether later output to the stream would be lost: closed, or a buffer left behind."""
        if stream is None or type(stream) in (io.StringIO, io.TextIOWrapper, io.BytesIO):
            return True
        try:
            return bool(getattr(stream, "closed", False))
        except Exception:  # noqa: BLE001 - the object is the user's
            return True

    def flush(self) -> None:
        """After a cell: everything written by Python or C code into the pipes."""
        for number, name in ((1, "stdout"), (2, "stderr")):
            current = getattr(sys, name, None)
            if current is not self._own[number] and current is not None:
                with contextlib.suppress(Exception):
                    current.flush()
            with contextlib.suppress(ValueError, OSError):
                self._own[number].flush()
        system.flush_c_streams()
