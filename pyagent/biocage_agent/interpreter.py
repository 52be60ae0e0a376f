"""The worker's life seen from the supervisor: fork, watch, drain, bury, fork again."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

from biocage_agent import processes
from biocage_agent.channel import ChannelClosedError
from biocage_agent.frames import Frame, FrameError, Header
from biocage_agent.outputs import Outputs
from biocage_agent.spawner import Spawner, Worker

if TYPE_CHECKING:
    from biocage_agent.loop import Loop
    from biocage_agent.zygote import WorkerSetup

_FORK_SECONDS = 20.0
_LOAD_SECONDS = 300.0
_GONE_SECONDS = 0.25
_ENDING_SECONDS = 10.0
_MOST_FAILURES = 4
_ZYGOTE_PAUSE = 0.5


class Listener(Protocol):
    """Who hears about the worker."""

    def on_ready(self) -> None:
        """A worker waits for work."""

    def on_unable(self, reason: str) -> None:
        """No worker can be made."""

    def on_output(self, name: str, data: bytes) -> None:
        """Bytes from a standard stream."""

    def on_frame(self, frame: Frame) -> None:
        """A message; may raise FrameError."""

    def on_worker_end(self, cause: str) -> None:
        """The worker has ended or must end."""

    def kill_worker(self, cause: str) -> None:
        """Kill the worker, then hear of its end."""


class Interpreter:
    """At most one worker at a time, and the zygote that makes them."""

    def __init__(
        self,
        listener: Listener,
        loop: Loop,
        reaper: processes.Reaper,
        setup: WorkerSetup,
        preload: tuple[str, ...],
    ) -> None:
        """Nothing is forked before start()."""
        self._listener = listener
        self._loop = loop
        self._reaper = reaper
        self._spawner = Spawner(reaper, setup, preload)
        self._worker: Worker | None = None
        self._zygote_fd = -1
        self._zygote_started = 0.0
        self._failures = 0
        self._paused = False
        self._outputs: Outputs | None = None
        self.pid = 0
        self.ready = False

    @property
    def failed(self) -> list[str]:
        """Modules that could not be loaded ahead."""
        return self._spawner.failed

    @property
    def kept(self) -> tuple[int, ...]:
        """The processes that workers are made from."""
        return self._spawner.kept

    def start(self) -> None:
        """Start the zygote and ask for the first worker."""
        self._start_zygote()
        self.ensure()

    def _start_zygote(self) -> None:
        self._zygote_started = time.monotonic()
        self._zygote_fd = self._spawner.start()
        self._loop.watch(self._zygote_fd, self._on_zygote)

    def ensure(self) -> None:
        """Make a worker unless there is one or one is on its way."""
        if self._worker is not None:
            return
        if not self._spawner.alive:
            self._restart_zygote()
            return
        self._worker = self._spawner.request()
        seconds = _FORK_SECONDS if self._spawner.loaded else _LOAD_SECONDS
        self._loop.at("spawn", time.monotonic() + seconds, lambda: self._fail("it did not start in time"))

    def send(self, header: Header, body: bytes = b"") -> None:
        """Give the worker a message."""
        if self._worker is None:
            return
        self._worker.stream.send(header, body)
        self._flush()

    def _flush(self) -> None:
        if self._worker is None:
            return
        stream = self._worker.stream
        try:
            stream.flush()
        except ChannelClosedError:
            return
        self._loop.want_write(stream.write_fd, stream.backlog > 0, self._flush)

    def pause(self, paused: bool) -> None:  # noqa: FBT001 - a state, not a mode
        """Stop or go on reading the worker's messages."""
        self._paused = paused
        if self._worker is None or not self.pid:
            return
        if paused:
            self._loop.unwatch(self._worker.stream.read_fd)
        else:
            self._loop.watch(self._worker.stream.read_fd, self._on_message)

    # The zygote

    def _on_zygote(self) -> None:
        try:
            pids = self._spawner.answers()
        except EOFError:
            self._loop.unwatch(self._zygote_fd)
            self._zygote_fd = -1
            self.on_children()
            return
        for pid in pids:
            if pid <= 0:
                self._fail(f"fork: {os.strerror(-pid)}")
            else:
                self._adopt(pid)

    def _adopt(self, pid: int) -> None:
        worker = self._worker
        if worker is None or self.pid:
            os.kill(pid, 9)
            return
        self.pid = pid
        self._reaper.watch(pid)
        if not self._paused:
            self._loop.watch(worker.stream.read_fd, self._on_message)
        pipes = {"stdout": worker.stdout, "stderr": worker.stderr}
        self._outputs = Outputs(self._loop, pipes, self._listener.on_output)
        self._outputs.watch()
        self.send({"type": "go"})

    def _restart_zygote(self) -> None:
        """Start it again, not faster than it can be killed."""
        if self._zygote_fd >= 0:
            self._loop.unwatch(self._zygote_fd)
            self._zygote_fd = -1
        if self._spawner.pid:
            self._spawner.stop()
        when = self._zygote_started + _ZYGOTE_PAUSE
        if time.monotonic() < when:
            self._loop.at("zygote", when, self._revive)
        else:
            self._revive()

    def _revive(self) -> None:
        if self._spawner.alive:
            return
        self._start_zygote()
        self.ensure()

    # The worker

    def on_children(self) -> None:
        """Look whether worker or zygote have ended."""
        if self.pid and self._reaper.status(self.pid) is not None:
            if self.ready:
                self._listener.on_worker_end("self")
            else:
                self._fail("it ended at once")
        if self._spawner.pid and not self._spawner.alive:
            if self._worker is not None and not self.pid:
                self._drop_worker()
            self._restart_zygote()

    def _fail(self, reason: str) -> None:
        """A worker could not be made; try again a few times."""
        self._failures += 1
        self.kill()
        self._drop_worker()
        if self._failures < _MOST_FAILURES:
            self.ensure()
        else:
            self._failures = 0
            self._listener.on_unable(reason)

    def _on_message(self) -> None:
        worker = self._worker
        if worker is None:
            return
        try:
            for frame in worker.stream.receive():
                if not self.ready and frame.header["type"] == "ready":
                    self.ready = True
                    self._failures = 0
                    self._loop.cancel("spawn")
                    self._listener.on_ready()
                else:
                    self._listener.on_frame(frame)
        except ChannelClosedError:
            self._loop.unwatch(worker.stream.read_fd)
            self._await_end(time.monotonic() + _ENDING_SECONDS)
        except FrameError:
            self._listener.kill_worker("protocol")

    def _await_end(self, until: float) -> None:
        """The worker closed its socket: see that it ends, however long the kernel needs for that."""

        def on_gone() -> None:
            if time.monotonic() < until and processes.is_ending(self.pid):
                self._await_end(until)
            else:
                self._listener.kill_worker("protocol")

        self._loop.at("gone", time.monotonic() + _GONE_SECONDS, on_gone)

    def drain(self) -> None:
        """Take what the pipes hold now, and not what is written from now on."""
        if self._outputs is not None:
            self._outputs.drain()

    def settle(self) -> None:
        """Before a cell: take what came before it."""
        if self._outputs is not None:
            self._outputs.settle()

    def kill(self) -> None:
        """Kill the worker and everything else that is not the zygote."""
        if not processes.kill_others(self._reaper, self.kept):
            processes.kill_everything(self._reaper)

    def wind_up(self, *, trusted: bool) -> int:
        """Read what a dead worker left, end its processes, close; its wait status.

        Messages that it had sent count, unless it broke the protocol.
        """
        status = self._reaper.status(self.pid) if self.pid else None
        if self._worker is not None and self.ready and trusted:
            self._last_messages(self._worker)
        self.kill()
        self.drain()
        self._drop_worker()
        return 9 if status is None else status

    def _last_messages(self, worker: Worker) -> None:
        """A reply that was sent before the end counts."""
        try:
            while True:
                before = worker.stream.unread()
                if not before:
                    return
                for frame in worker.stream.receive():
                    self._listener.on_frame(frame)
        except (ChannelClosedError, FrameError):
            return

    def _drop_worker(self) -> None:
        for name in ("spawn", "gone"):
            self._loop.cancel(name)
        worker = self._worker
        self._worker = None
        self.ready = False
        if self.pid:
            self._reaper.forget(self.pid)
        elif worker is not None:
            self._spawner.abandon()
        self.pid = 0
        if worker is None:
            return
        self._loop.want_write(worker.stream.write_fd, False, self._flush)  # noqa: FBT003
        self._loop.unwatch(worker.stream.read_fd)
        if self._outputs is not None:
            self._outputs.close()
            self._outputs = None
        worker.close()
