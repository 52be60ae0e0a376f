"""One epoll and a handful of named deadlines."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

Callback = Callable[[], None]
_READ = select.EPOLLIN
_GONE = select.EPOLLHUP | select.EPOLLERR


class Loop:
    """Calls back when a descriptor is readable or writable, or when a deadline passed."""

    def __init__(self) -> None:
        """Watch nothing."""
        self._epoll = select.epoll()
        self._readers: dict[int, Callback] = {}
        self._writers: dict[int, Callback] = {}
        self._masks: dict[int, int] = {}
        self._deadlines: dict[str, tuple[float, Callback]] = {}

    def _apply(self, descriptor: int) -> None:
        mask = (_READ if descriptor in self._readers else 0) | (select.EPOLLOUT if descriptor in self._writers else 0)
        before = self._masks.get(descriptor, 0)
        if mask == before:
            return
        if not before:
            self._epoll.register(descriptor, mask)
        elif mask:
            self._epoll.modify(descriptor, mask)
        else:
            self._epoll.unregister(descriptor)
        if mask:
            self._masks[descriptor] = mask
        else:
            del self._masks[descriptor]

    def watch(self, descriptor: int, callback: Callback) -> None:
        """Call back whenever there is something to read."""
        self._readers[descriptor] = callback
        self._apply(descriptor)

    def unwatch(self, descriptor: int) -> None:
        """Stop reading; must come before the descriptor is closed."""
        self._readers.pop(descriptor, None)
        self._apply(descriptor)

    def want_write(self, descriptor: int, wanted: bool, callback: Callback) -> None:  # noqa: FBT001 - a state, not a mode
        """Call back when the descriptor takes bytes, or no longer."""
        if wanted:
            self._writers[descriptor] = callback
        elif descriptor not in self._writers:
            return
        else:
            del self._writers[descriptor]
        self._apply(descriptor)

    def at(self, name: str, when: float, callback: Callback) -> None:
        """Call back once at `when` (monotonic); a new deadline of the name replaces the old."""
        self._deadlines[name] = (when, callback)

    def cancel(self, name: str) -> None:
        """Forget a deadline."""
        self._deadlines.pop(name, None)

    def run_once(self) -> None:
        """Sleep until something happens, then do it. What came counts before what is due."""
        timeout: float | None = None
        if self._deadlines:
            due = min(when for when, _ in self._deadlines.values())
            timeout = max(0.0, due - time.monotonic())
        for descriptor, events in self._epoll.poll(timeout):
            if events & (_READ | _GONE) and descriptor in self._readers:
                self._readers[descriptor]()
            elif events & (select.EPOLLOUT | _GONE) and descriptor in self._writers:
                self._writers[descriptor]()
        if not self._deadlines:
            return
        now = time.monotonic()
        for name in [name for name, (when, _) in self._deadlines.items() if when <= now]:
            entry = self._deadlines.pop(name, None)
            if entry is not None:
                entry[1]()
