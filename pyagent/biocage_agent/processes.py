"""Which processes there are, what they use, and how to end them.

As the sandbox's first process everything else belongs to us. As an ordinary
process on a host (tests do that) only our own descendants are ever touched.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

_ROUNDS = 60
_PLAIN_ROUNDS = 3
_PF_EXITING = 0x4
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_OOM_FILES = (
    ("/sys/fs/cgroup/memory.events", "oom_kill"),
    ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
)


class Process(NamedTuple):
    """One process as /proc tells it."""

    pid: int
    parent: int
    state: str
    started: float
    resident: int


def _read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        state=fields[0].decode("ascii"),
        started=int(fields[19]) / _TICKS,
        resident=int(fields[21]) * _PAGE,
    )


def is_ending(pid: int) -> bool:
    """Tell whether the kernel is taking a process apart, which lasts when it held much."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return False
    return bool(int(text[text.rindex(b")") + 2 :].split()[6]) & _PF_EXITING)


def everything() -> dict[int, Process]:
    """Every process in sight."""
    found = (_read(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def ours() -> dict[int, Process]:
    """Every process that the supervisor answers for, without itself and without zombies."""
    me = os.getpid()
    table = everything()
    if me == 1:
        return {pid: item for pid, item in table.items() if pid != me and item.state != "Z"}
    children: dict[int, list[Process]] = {}
    for item in table.values():
        children.setdefault(item.parent, []).append(item)
    found: dict[int, Process] = {}
    waiting = [me]
    while waiting:
        for item in children.get(waiting.pop(), ()):
            if item.pid not in found:
                found[item.pid] = item
                waiting.append(item.pid)
    return {pid: item for pid, item in found.items() if item.state != "Z"}


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


class Reaper:
    """Collects ended children and remembers how those ended that someone asks for."""

    def __init__(self) -> None:
        """Nobody is watched yet."""
        self._watched: dict[int, int | None] = {}

    def watch(self, pid: int) -> None:
        """Keep the wait status of pid."""
        self._watched[pid] = None

    def forget(self, pid: int) -> None:
        """Drop what is kept about pid."""
        self._watched.pop(pid, None)

    def status(self, pid: int) -> int | None:
        """The wait status of a watched process, None while it lives."""
        return self._watched.get(pid)

    def collect(self) -> None:
        """Reap every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._watched:
                self._watched[pid] = status


def kill_others(reaper: Reaper, spare: Collection[int] = (), since: float | None = None) -> bool:
    """Kill every process of ours but `spare`; with `since` only those that began after it.

    Where killing alone does not do, all are stopped before any is killed, so
    that a fork bomb cannot refill the places that the dead leave. Not at once:
    gVisor hangs up on the group of a stopped process that loses its parent,
    and that may be the worker's. Tells whether none is left.
    """
    for turn in range(_ROUNDS):
        left = [pid for pid, item in ours().items() if _is_target(item, spare, since)]
        if not left:
            reaper.collect()
            return True
        for number in (signal.SIGKILL,) if turn < _PLAIN_ROUNDS else (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                _signal(pid, number)
        time.sleep(0.001)
        reaper.collect()
    return False


def _is_target(item: Process, spare: Collection[int], since: float | None) -> bool:
    return item.pid not in spare and (since is None or item.started >= since)


def kill_everything(reaper: Reaper) -> None:
    """End all others for good; as process 1 in one step that nothing escapes."""
    if os.getpid() == 1:
        _signal(-1, signal.SIGKILL)
    kill_others(reaper)


def resident_bytes() -> int:
    """Memory of all processes but this one."""
    return sum(item.resident for item in ours().values())


def boot_time() -> float:
    """Now, on the clock that process start times are told by."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def oom_kills() -> int:
    """How many processes the sandbox's memory limit has killed, -1 when unknown."""
    for path, key in _OOM_FILES:
        try:
            with open(path, encoding="ascii") as file:
                text = file.read()
        except (OSError, ValueError):
            continue
        for line in text.splitlines():
            name, _, value = line.partition(" ")
            if name == key and value.isdigit():
                return int(value)
    return -1
