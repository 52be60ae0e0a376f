"""The few system calls that Python's library does not offer."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import termios
from fcntl import ioctl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_tgkill = getattr(_libc, "tgkill", None)
_fflush = _libc.fflush


def _control(option: int, value: int) -> None:
    if _prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"prctl {option}")


def set_dumpable(*, value: bool) -> None:
    """Open or close this process's memory and descriptors to others of its user."""
    _control(_PR_SET_DUMPABLE, int(value))


def become_subreaper() -> None:
    """Make orphans below this process its children."""
    _control(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)


def interrupt_main_thread(pid: int) -> None:
    """Send SIGINT to the main thread of pid and to no other thread."""
    if _tgkill is None:
        os.kill(pid, signal.SIGINT)
        return
    if _tgkill(pid, pid, signal.SIGINT) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def flush_c_streams() -> None:
    """Write out what C code left in the buffers of stdio."""
    _fflush(None)


def unread_bytes(descriptor: int) -> int:
    """How many bytes wait in a pipe."""
    answer = ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0")
    return int(struct.unpack("i", answer)[0])


def unread(descriptor: int, piece: int) -> Iterator[bytes]:
    """What waits in a pipe now, and not what is written from now on."""
    left = unread_bytes(descriptor)
    while left > 0:
        try:
            data = os.read(descriptor, min(left, piece))
        except BlockingIOError:
            return
        if not data:
            return
        left -= len(data)
        yield data


def cpu_clock(pid: int) -> int:
    """The id of another process's CPU clock, for time.clock_gettime_ns."""
    return (~pid << 3) | 2
