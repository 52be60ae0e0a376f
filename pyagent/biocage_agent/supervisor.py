"""The supervisor: the sandbox's first process, owner of the protocol's descriptors.

One thread, one epoll, no polling: it sleeps until the host, the worker, an
ended child or a deadline has something for it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time

from biocage_agent import PROTOCOL, __version__, processes, system
from biocage_agent.channel import ChannelClosedError, FrameStream, open_channel
from biocage_agent.files import FileService
from biocage_agent.frames import MAX_BODY_IN, Frame, FrameError, Header
from biocage_agent.kernel import Kernel
from biocage_agent.loop import Loop
from biocage_agent.requests import RequestError, flag, number, text
from biocage_agent.settings import parse_settings

_HIGH_WATER = 8 << 20
_LIFE = frozenset({"start_request", "ping_request", "shutdown_request"})


class Supervisor:
    """Answers the host; everything that belongs to interpreters is in the Kernel."""

    def __init__(self, stream: FrameStream, lifeline: int | None, drop_uid: int | None) -> None:
        """Take over the host's stream."""
        self._stream = stream
        self._drop_uid = drop_uid
        self._loop = Loop()
        self._reaper = processes.Reaper()
        self._kernel: Kernel | None = None
        self._files: FileService | None = None
        self._lease = 0.0
        self._ending = False
        self._reading = False
        self._wake = self._catch_signals()
        self._loop.watch(self._wake, self._on_signal)
        if lifeline is not None:
            self._loop.watch(lifeline, lambda: self._on_lifeline(lifeline))

    def _catch_signals(self) -> int:
        """Ignore all that could end us; hear of children through a descriptor."""
        for number_ in range(1, signal.NSIG):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number_, signal.SIG_IGN)
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        return read_end

    def run(self) -> int:
        """Serve until the host is gone or the lease ran out, then end everything."""
        self._stream.send(
            {
                "type": "kernel_info",
                "protocol": PROTOCOL,
                "agent": __version__,
                "python": ".".join(str(part) for part in sys.version_info[:3]),
                "pid": os.getpid(),
            }
        )
        try:
            while not self._ending:
                self._flush()
                self._loop.run_once()
            self._flush_last()
        except ChannelClosedError:
            pass
        finally:
            processes.kill_everything(self._reaper)
        return 0

    def _flush(self) -> None:
        self._stream.flush()
        backlog = self._stream.backlog
        self._loop.want_write(self._stream.write_fd, backlog > 0, self._stream.flush)
        if (backlog < _HIGH_WATER) is not self._reading:
            self._reading = not self._reading
            if self._reading:
                self._loop.watch(self._stream.read_fd, self._on_host)
            else:
                self._loop.unwatch(self._stream.read_fd)
            if self._kernel is not None:
                self._kernel.pause(not self._reading)

    def _flush_last(self) -> None:
        """Give the last reply a second to leave."""
        os.set_blocking(self._stream.write_fd, True)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(1)
        self._stream.flush()
        signal.alarm(0)

    def _on_signal(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 65_536)
        self._reaper.collect()
        if self._kernel is not None:
            self._kernel.on_children()

    def _on_lifeline(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, 65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._ending = True

    def _on_host(self) -> None:
        try:
            for frame in self._stream.receive():
                self._renew_lease()
                self._dispatch(frame)
        except FrameError as error:
            sys.stderr.write(f"the host broke the protocol: {error}\n")
            raise ChannelClosedError from error

    def _renew_lease(self) -> None:
        if self._lease:
            self._loop.at("lease", time.monotonic() + self._lease, self._on_lease)

    def _on_lease(self) -> None:
        self._ending = True

    def _dispatch(self, frame: Frame) -> None:
        kind = frame.header["type"]
        request = frame.header.get("id")
        if type(request) is not int or request <= 0 or not kind.endswith("_request"):
            raise FrameError(f"a frame of type {kind[:40]!r} without an id")
        try:
            self._answer(kind, request, frame)
        except RequestError as error:
            self._stream.send(error.reply(kind, request))
        except OSError as error:
            self._stream.send(RequestError.of(error).reply(kind, request))

    def _answer(self, kind: str, request: int, frame: Frame) -> None:
        if kind == "start_request":
            self._start(request, frame.header)
        elif kind == "ping_request":
            self._reply(kind, request, self._ping(memory=flag(frame.header, "memory")))
        elif kind == "shutdown_request":
            processes.kill_everything(self._reaper)
            self._reply(kind, request, {})
            self._ending = True
        elif self._kernel is None or self._files is None:
            raise RequestError("not_ready", "start_request has to come first")
        elif kind in Kernel.REQUESTS:
            self._kernel.handle(kind, request, frame)
        elif kind in FileService.REQUESTS:
            header, body = self._files.handle(kind, frame)
            self._reply(kind, request, header, body)
        else:
            raise RequestError("bad_request", f"there is no {kind[:40]!r}")

    def _reply(self, kind: str, request: int, fields: Header, body: bytes = b"") -> None:
        reply = kind.removesuffix("_request") + "_reply"
        self._stream.send({"type": reply, "id": request, "status": "ok", **fields}, body)

    def _start(self, request: int, header: Header) -> None:
        if self._kernel is not None:
            raise RequestError("bad_request", "start_request came twice")
        workspace = text(header, "workspace", "/work")
        temp = text(header, "temp", "/tmp")  # noqa: S108 - the sandbox's own
        self._lease = number(header, "lease_ms", 0, 1 << 40, 0) / 1000
        files = FileService(workspace, temp, self._drop_uid)
        settings = parse_settings(header, files, self._drop_uid)
        self._files = files
        self._kernel = Kernel(self._stream.send, self._loop, self._reaper, files, settings)
        self._renew_lease()
        self._kernel.start(request)

    def _ping(self, *, memory: bool) -> Header:
        """How we are doing; what costs a walk through /proc only when it is asked for."""
        kernel = self._kernel
        fields: Header = {"busy": kernel.busy if kernel else 0, "worker_pid": kernel.worker_pid if kernel else 0}
        if memory:
            fields["memory_bytes"] = processes.resident_bytes()
            fields["oom_kills"] = processes.oom_kills()
        return fields


def main(arguments: list[str]) -> int:
    """Run the supervisor; the exit code."""
    parser = argparse.ArgumentParser(prog="biocage_agent")
    parser.add_argument("--channel", required=True)
    parser.add_argument("--drop-uid", type=int)
    options = parser.parse_args(arguments)
    os.umask(0o022)
    system.set_dumpable(value=False)
    if os.getpid() != 1:
        system.become_subreaper()
    stream, lifeline = open_channel(options.channel, MAX_BODY_IN)
    return Supervisor(stream, lifeline, options.drop_uid).run()
