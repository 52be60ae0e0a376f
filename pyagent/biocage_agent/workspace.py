"""The workspace over cells: what changed in it, and how to empty it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Any, Protocol

from biocage_agent.paths import show

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_MOST_ENTRIES = 4000
_MOST_SECONDS = 0.1
_MOST_TOLD = 50
_MOST_TOLD_BYTES = 24_000
_SKIP = frozenset({"__pycache__", "node_modules"})
_STEP_SECONDS = 0.05
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT_SPOOLS = 8


class Actor(Protocol):
    """Who touches the files."""

    def assumed(self) -> AbstractContextManager[None]:
        """Be that user within the block."""


class Changes:
    """Compares the regular files of the workspace with what they were before.

    Hidden names and caches are left out. The scan is bounded; in a workspace
    above the bound only what was seen is told, and only when it is new by its time.
    """

    def __init__(self, root: str, actor: Actor) -> None:
        """Nothing is known before baseline()."""
        self._root = root
        self._actor = actor
        self._known: dict[str, tuple[int, int, int]] = {}
        self._partial = False
        self._asked = 0

    def baseline(self) -> None:
        """Take what is there now as unchanged."""
        self._asked = time.time_ns()
        self._known = self._scan()

    def note(self, path: str) -> None:
        """The host wrote this file itself."""
        if not path.startswith(self._root + "/"):
            return
        try:
            info = os.stat(path, follow_symlinks=False)
        except OSError:
            return
        self._known[path] = (info.st_mtime_ns, info.st_size, info.st_ino)

    def changed(self) -> tuple[list[dict[str, Any]], int]:
        """What was made or changed since last asked, and how many more."""
        since, self._asked = self._asked, time.time_ns()
        before, partial = self._known, self._partial
        self._known = self._scan()
        partial = partial or self._partial
        told: list[dict[str, Any]] = []
        more = size = 0
        for path, facts in sorted(self._known.items()):
            if before.get(path) == facts or (partial and facts[0] < since):
                continue
            entry = {"path": show(path[len(self._root) + 1 :]), "size": facts[1], "mtime_ns": facts[0]}
            size += len(json.dumps(entry))
            if len(told) < _MOST_TOLD and size < _MOST_TOLD_BYTES:
                told.append(entry)
            else:
                more += 1
        return told, more

    def _scan(self) -> dict[str, tuple[int, int, int]]:
        found: dict[str, tuple[int, int, int]] = {}
        deadline = time.monotonic() + _MOST_SECONDS
        waiting: list[str] = []
        left = _MOST_ENTRIES
        try:
            # No program can put a link in the root's place, and most often there is nothing below.
            left -= self._look(self._root, waiting, found, left)
        except OSError:
            waiting = [self._root]
        if not waiting:
            self._partial = left <= 0
            return found
        with self._actor.assumed():
            while waiting and left > 0 and time.monotonic() < deadline:
                left -= self._scan_folder(waiting.pop(), waiting, found, left)
        self._partial = bool(waiting) or left <= 0
        return found

    def _scan_folder(self, place: str, waiting: list[str], found: dict[str, tuple[int, int, int]], left: int) -> int:
        try:
            return self._look(place, waiting, found, left)
        except OSError:
            return 1

    def _look(self, place: str, waiting: list[str], found: dict[str, tuple[int, int, int]], left: int) -> int:
        """Note what one folder holds; how many entries that were."""
        seen = 0
        with os.scandir(place) as entries:
            for entry in entries:
                seen += 1
                if seen > left:
                    break
                if entry.name.startswith(".") or entry.name in _SKIP:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        info = entry.stat(follow_symlinks=False)
                        found[entry.path] = (info.st_mtime_ns, info.st_size, info.st_ino)
        return seen + 1


class Spool:
    """The directory of whole texts; those of the last few cells are kept."""

    def __init__(self, temp: str) -> None:
        """Nothing is made before it is needed."""
        self._temp = temp
        self._directory = ""
        self._cells: list[int] = []

    def forget(self) -> None:
        """The directory was deleted."""
        self._directory = ""

    def path(self, cell: int, name: str) -> str:
        """Where a text of a cell goes; makes the directory, drops what is old."""
        if not self._directory or not os.path.isdir(self._directory):
            self._directory = os.path.join(self._temp, f".biocage-{os.urandom(6).hex()}")
            os.mkdir(self._directory, 0o755)
            self._cells.clear()
        if cell not in self._cells:
            self._cells.append(cell)
            self._trim()
        return os.path.join(self._directory, f"cell-{cell}.{name}")

    def _trim(self) -> None:
        while len(self._cells) > _KEPT_SPOOLS:
            old = self._cells.pop(0)
            for name in ("stdout", "stderr", "result"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._directory, f"cell-{old}.{name}"))


class Emptier:
    """Deletes what directories hold, for a bounded time at a time, and nothing that is mounted in them.

    It walks with one descriptor, down by name and up by "..", so that depth
    costs nothing, however deep a program made it. No program runs meanwhile.
    """

    def __init__(self, roots: list[str], actor: Actor, then: Callable[[], None] | None = None) -> None:
        """The roots themselves stay; `then` is called when all is done."""
        self._roots = roots
        self._then = then
        self._actor = actor
        self._place = -1
        self._device = -1
        self._names: list[str] = []
        self._stuck: set[tuple[int, str]] = set()

    def step(self) -> bool:
        """Delete some; tells whether all is done."""
        deadline = time.monotonic() + _STEP_SECONDS
        with self._actor.assumed():
            while self._roots or self._place >= 0:
                if self._place < 0:
                    self._enter_root(self._roots.pop())
                elif not self._clear(deadline):
                    return False
        if self._then is not None:
            self._then()
        return True

    def _enter_root(self, path: str) -> None:
        """Begin with a root; the program may have closed it to itself, but only one of its own."""
        with contextlib.suppress(OSError):
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRWXU)
        try:
            self._place = os.open(path, _FOLDER)
            self._device = os.fstat(self._place).st_dev
        except OSError:
            self._place = -1

    def _clear(self, deadline: float) -> bool:
        """Delete the files of this place, go down into a folder or up; False when time is up."""
        depth = len(self._names)
        with os.scandir(self._place) as entries:
            for entry in entries:
                if (depth, entry.name) in self._stuck:
                    continue
                if time.monotonic() > deadline:
                    return False
                try:
                    if entry.is_dir(follow_symlinks=False):
                        self._go_down(entry.name)
                        return True
                    os.unlink(entry.name, dir_fd=self._place)
                except OSError:
                    self._stuck.add((depth, entry.name))
        self._go_up()
        return True

    def _go_down(self, name: str) -> None:
        if os.stat(name, dir_fd=self._place, follow_symlinks=False).st_dev != self._device:
            raise OSError(errno.EXDEV, "a mount")
        os.chmod(name, 0o700, dir_fd=self._place)
        below = os.open(name, _FOLDER, dir_fd=self._place)
        os.close(self._place)
        self._place = below
        self._names.append(name)

    def _go_up(self) -> None:
        if not self._names:
            os.close(self._place)
            self._place = -1
            self._stuck.clear()
            return
        above = os.open("..", _FOLDER & ~os.O_NOFOLLOW, dir_fd=self._place)
        os.close(self._place)
        self._place = above
        name = self._names.pop()
        depth = len(self._names)
        self._stuck = {item for item in self._stuck if item[0] <= depth}
        try:
            os.rmdir(name, dir_fd=above)
        except OSError:
            self._stuck.add((depth, name))


__all__ = ["Actor", "Changes", "Emptier", "Spool"]
