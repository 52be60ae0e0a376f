"""What a worker may use, and who it is."""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import random
import resource
import sys

_MIB = 1 << 20
_LEAST = 64 * _MIB
_ROOM = 24 * _MIB
_PROBE = 64 * _MIB
_BALLAST = 4 * _MIB
_LOWEST = 19


def drop_user(uid: int) -> None:
    """Become the sandbox's ordinary user for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def prefer_oom_kill() -> None:
    """Ask the kernel to take this process first when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        return


def give_way() -> None:
    """Let the supervisor go first, however many processes the program starts.

    It is the sandbox's own affair: how much the sandbox gets, others decide.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _LOWEST)


def reseed() -> None:
    """Give this worker random numbers of its own."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _status() -> dict[str, int]:
    """The sizes in /proc/self/status, in bytes."""
    found: dict[str, int] = {}
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                words = value.split()
                if len(words) == 2 and words[1] == "kB":  # noqa: PLR2004
                    found[name] = int(words[0]) * 1024
    except OSError:
        return {}
    return found


@functools.cache
def data_limit_works() -> bool:
    """Try in a child, once, whether RLIMIT_DATA is enforced (gVisor does not)."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (_MIB, _MIB))
            mmap.mmap(-1, _PROBE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError):
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


class Ceiling:
    """A soft bound on memory that turns most bombs into MemoryError.

    The bound counts address space, so what the fork inherited but never
    touched is added to it.
    """

    def __init__(self, memory_bytes: int) -> None:
        """0 bytes mean no bound."""
        self._memory = memory_bytes
        self._kind = resource.RLIMIT_DATA
        self._size = "VmData"
        self._limit = 0
        self._tight = False
        self._ballast: mmap.mmap | None = None

    def apply(self) -> None:
        """Set the bound for this process and its children."""
        if self._memory <= 0:
            return
        if not data_limit_works():
            self._kind, self._size = resource.RLIMIT_AS, "VmSize"
        sizes = _status()
        touched = sizes.get("RssAnon", sizes.get("VmRSS", 0))
        untouched = max(0, sizes.get(self._size, 0) - touched)
        reserve = 32 * _MIB + self._memory // 16
        self._limit = max(_LEAST, self._memory - reserve) + untouched
        self._set(self._limit)
        self._fill_ballast()

    def _fill_ballast(self) -> None:
        """Hold some memory that can be let go where not even a number can be made."""
        try:
            self._ballast = mmap.mmap(-1, _BALLAST, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError):
            self._ballast = None

    def _set(self, size: int) -> None:
        _, hard = resource.getrlimit(self._kind)
        if hard != resource.RLIM_INFINITY:
            size = min(size, hard)
        resource.setrlimit(self._kind, (size, hard))

    def give_room(self) -> None:
        """After a MemoryError: a little above what can be used so far, so that it can be told."""
        if not self._limit:
            return
        if self._ballast is not None:
            self._ballast.close()
            self._ballast = None
        soft, _ = resource.getrlimit(self._kind)
        self._set(soft + _ROOM)
        self._tight = True

    def before_cell(self) -> None:
        """Keep room to work where an earlier cell has filled the memory; else the plain bound."""
        if not self._tight:
            return
        used = _status().get(self._size, 0)
        self._tight = used + _ROOM > self._limit
        self._set(max(self._limit, used + _ROOM))
        if self._ballast is None:
            self._fill_ballast()
