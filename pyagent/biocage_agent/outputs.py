"""The pipes that a worker's standard streams lead into, read at a pace.

A program that prints line by line would wake the supervisor for each line.
While small pieces come fast the pipe, which holds far more, is left alone for
a moment, so that one read takes many lines.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from biocage_agent import system

if TYPE_CHECKING:
    from collections.abc import Callable

    from biocage_agent.loop import Loop

_READ = 1 << 18
_SMALL = 1 << 14
_FAST_SECONDS = 0.001
_REST_SECONDS = 0.004


class Outputs:
    """Both pipes of one worker, by the names of their streams."""

    def __init__(self, loop: Loop, pipes: dict[str, int], take: Callable[[str, bytes], None]) -> None:
        """take(name, data) gets what is read."""
        self._loop = loop
        self._pipes = pipes
        self._take = take
        self._buffer = memoryview(bytearray(_READ))  # so much memory anew would cost more than the read
        self._last = dict.fromkeys(pipes, 0.0)
        self._resting: set[str] = set()

    def watch(self) -> None:
        """Read whenever there is something."""
        for name in self._pipes:
            self._resume(name)

    def _resume(self, name: str) -> None:
        self._resting.discard(name)
        self._loop.watch(self._pipes[name], lambda: self._read(name))

    def _read(self, name: str) -> None:
        try:
            size = os.readv(self._pipes[name], [self._buffer])
        except BlockingIOError:
            return
        if not size:
            self._loop.unwatch(self._pipes[name])
            return
        self._take(name, self._buffer[:size].tobytes())
        now = time.monotonic()
        if size < _SMALL and now - self._last[name] < _FAST_SECONDS:
            self._resting.add(name)
            self._loop.unwatch(self._pipes[name])
            self._loop.at("rest " + name, now + _REST_SECONDS, lambda: self._resume(name))
        self._last[name] = now

    def settle(self) -> None:
        """Before a cell: what a pipe that rests holds came before it."""
        if self._resting:
            self.drain()

    def drain(self) -> None:
        """Take what the pipes hold now, and not what is written from now on."""
        for name, descriptor in self._pipes.items():
            for data in system.unread(descriptor, _READ):
                self._take(name, data)

    def close(self) -> None:
        """Forget the pipes, before they are closed."""
        for name, descriptor in self._pipes.items():
            self._loop.cancel("rest " + name)
            self._loop.unwatch(descriptor)
