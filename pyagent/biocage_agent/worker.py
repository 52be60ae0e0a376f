"""The worker: runs cells in its main thread, in the real ``__main__``.

User code runs in this very process and can do to it whatever it likes; nothing
that the host relies on is decided here. A worker that is broken is replaced.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import os
import select
import signal
import sys
from typing import TYPE_CHECKING

from biocage_agent import commands, display, hooks, installing, limits, system
from biocage_agent.frames import MAX_BODY_IN, Decoder, Frame, Header, encode
from biocage_agent.namespace import make_main
from biocage_agent.runner import Runner
from biocage_agent.streams import Streams
from biocage_agent.variables import describe

if TYPE_CHECKING:
    import socket

    from biocage_agent.zygote import WorkerSetup

_SIGINT = frozenset({signal.SIGINT})
_PRIVATE = 200


class Link:
    """The worker's end of its socket: frames, whatever user code did to the descriptor's flags."""

    def __init__(self, descriptor: int) -> None:
        """Take over the descriptor."""
        self._forked = False
        self._descriptor = descriptor
        self._decoder = Decoder(MAX_BODY_IN)

    def receive(self) -> Frame:
        """Wait for the next frame; EOFError when the supervisor is gone."""
        while (frame := self._decoder.next()) is None:
            try:
                data = os.read(self._descriptor, self._decoder.wanted())
            except BlockingIOError:
                self._wait(select.POLLIN)
                continue
            except OSError as error:
                raise EOFError from error
            if not data:
                raise EOFError
            self._decoder.feed(data)
        return frame

    def send(self, header: Header, body: bytes = b"") -> None:
        """Write one frame whole; a process that the program forked has nobody to tell."""
        if self._forked:
            return
        rest = memoryview(encode(header, body))
        while rest:
            try:
                written = os.write(self._descriptor, rest)
            except BlockingIOError:  # noqa: PERF203
                self._wait(select.POLLOUT)
            else:
                rest = rest[written:]

    def leave(self) -> None:
        """In a process that the program forked: the socket is its parent's."""
        self._forked = True
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._descriptor, event)
        poll.poll()


def prepare(setup: WorkerSetup) -> None:
    """In the zygote: what every worker needs, loaded and found out once."""
    if setup.memory_bytes:
        limits.data_limit_works()
    hooks.install()
    display.install()


def run(control: socket.socket, stdout: int, stderr: int, setup: WorkerSetup) -> None:
    """In the worker, just forked: become the user's process, then serve cells."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import fcntl  # noqa: PLC0415

    link = Link(fcntl.fcntl(control.fileno(), fcntl.F_DUPFD_CLOEXEC, _PRIVATE))
    control.close()
    os.register_at_fork(after_in_child=link.leave)
    streams = Streams(stdout, stderr)
    if setup.drop_uid is not None:
        limits.drop_user(setup.drop_uid)
    system.set_dumpable(value=True)
    limits.prefer_oom_kill()
    limits.give_way()
    limits.reseed()
    ceiling = limits.Ceiling(setup.memory_bytes)
    with contextlib.suppress(OSError):
        os.chdir(setup.workspace)
    sys.dont_write_bytecode = True
    sys.path.insert(0, "")
    installing.prepare(setup)
    faulthandler.enable(file=streams.error_descriptor, all_threads=False)
    module = make_main(setup.workspace)
    frame = link.receive()
    if frame.header["type"] != "go":
        return
    with contextlib.suppress(OSError):
        system.die_with_parent()
    ceiling.apply()
    runner = Runner(module, streams, setup, ceiling)
    builtins.display = runner.shown.display  # type: ignore[attr-defined]
    builtins.__biocage_magic__ = commands.make(runner.namespace)  # type: ignore[attr-defined]
    runner.tidy()
    link.send({"type": "ready"})
    _serve(link, runner)


def _serve(link: Link, runner: Runner) -> None:
    while True:
        try:
            frame = link.receive()
        except EOFError:
            return
        except KeyboardInterrupt:
            continue
        kind = frame.header["type"]
        if kind == "cell":
            runner.run(link.send, frame)
            runner.tidy()
        elif kind == "inspect":
            variables, more, cwd = describe(runner.namespace, frame.header["limit"])
            link.send(
                {
                    "type": "variables",
                    "nonce": frame.header["nonce"],
                    "variables": variables,
                    "more": more,
                    "cwd": cwd,
                }
            )
