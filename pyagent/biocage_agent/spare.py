"""A worker that the zygote forks ahead of need, so that a reset need not wait for a fork.

Until it is taken it is as the zygote is: out of reach of the program's user,
asleep, nearly all of its memory shared. Whatever befalls it costs nothing but
the fork that it would have saved.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

Work = Callable[[list[int]], None]
Fork = Callable[[Callable[[], None]], int]

_DESCRIPTORS = 3
_SECONDS = 1.0


class Spare:
    """At most one process that waits for the descriptors of a worker."""

    def __init__(self, fork: Fork, work: Work) -> None:
        """fork(body) runs body in a new process; work(descriptors) is a worker's life."""
        self._fork = fork
        self._work = work
        self._link: socket.socket | None = None
        self.pid = 0

    def make(self) -> int:
        """Fork it; its pid, or 0 when it cannot be made now."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)

        def body() -> None:
            ours.close()
            message, descriptors, _, _ = socket.recv_fds(theirs, 1, _DESCRIPTORS)
            if message and len(descriptors) == _DESCRIPTORS:
                theirs.send(message)
                theirs.close()
                self._work(descriptors)

        pid = self._fork(body)
        theirs.close()
        if pid <= 0:
            ours.close()
            return 0
        self.pid, self._link = pid, ours
        ours.settimeout(_SECONDS)
        return pid

    def take(self, descriptors: list[int]) -> int:
        """Make it the worker; its pid, or 0 when there is none that answers."""
        link, pid = self._link, self.pid
        if link is None:
            return 0
        self._link, self.pid = None, 0
        try:
            os.kill(pid, signal.SIGCONT)
            socket.send_fds(link, [b"F"], descriptors)
            if link.recv(1):
                return pid
        except OSError:
            # Too late an answer would make a second worker of these descriptors.
            _end(pid)
        finally:
            link.close()
        return 0


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return
