"""The interpreter as the host sees it: cells, interrupts, resets, whatever dies.

Owns the zygote, the worker and the running cell. A worker that breaks a rule
is killed; a worker that is gone is replaced by a fork.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from biocage_agent import processes, system
from biocage_agent.capture import Late, SpoolFile
from biocage_agent.cell import Cell, Death, new_nonce, parse_outcome
from biocage_agent.frames import Frame, FrameError, Header
from biocage_agent.inspection import Inspection
from biocage_agent.interpreter import Interpreter
from biocage_agent.requests import RequestError, flag, number
from biocage_agent.workspace import Emptier

if TYPE_CHECKING:
    from biocage_agent.files import FileService
    from biocage_agent.loop import Loop
    from biocage_agent.settings import Settings

Send = Callable[..., None]

_CHILD_SLACK = 0.02


class Kernel:
    """One interpreter for its whole life, over every worker that it has."""

    REQUESTS = frozenset({"execute_request", "interrupt_request", "reset_request", "inspect_request"})

    def __init__(
        self, send: Send, loop: Loop, reaper: processes.Reaper, files: FileService, settings: Settings
    ) -> None:
        """Nothing runs before start()."""
        self._send = send
        self._loop = loop
        self._files = files
        self._reaper = reaper
        self._settings = settings
        self._interpreter = Interpreter(self, loop, reaper, settings.setup, settings.preload)
        self._cell: Cell | None = None
        self._code = b""
        self._waiting: list[tuple[str, int]] = []
        self._inspection = Inspection(send, loop)
        self._late = Late()
        self._emptier: Emptier | None = None
        self._oom_seen = processes.oom_kills()
        self._untold: Death | None = None
        self._signalled = False
        self._nonce = new_nonce()

    @property
    def busy(self) -> int:
        """The id of the running cell, or 0."""
        return self._cell.id if self._cell else 0

    @property
    def worker_pid(self) -> int:
        """The worker, or 0 while there is none."""
        return self._interpreter.pid

    def start(self, request: int) -> None:
        """Load the libraries and make the first worker; the answer comes when it is ready."""
        self._waiting.append(("start_reply", request))
        self._files.changes.baseline()
        self._interpreter.start()

    def pause(self, paused: bool) -> None:  # noqa: FBT001 - a state, not a mode
        """Stop or go on reading what the worker shows, while the host is slow."""
        self._interpreter.pause(paused)

    def on_children(self) -> None:
        """Children have ended; see whether one of them matters."""
        self._interpreter.on_children()

    # Requests of the host

    def handle(self, kind: str, request: int, frame: Frame) -> None:
        """Answer a request, now or later."""
        if kind == "execute_request":
            self._execute(request, frame)
        elif kind == "interrupt_request":
            self._interrupt(request, frame.header)
        elif kind == "reset_request":
            self._reset(request, keep_files=flag(frame.header, "keep_files"))
        else:
            self._inspect(request, number(frame.header, "limit", 1, 1000, 100))

    def _execute(self, request: int, frame: Frame) -> None:
        if self._cell is not None:
            raise RequestError("busy", f"execute_request {self._cell.id} still runs")
        keep = number(frame.header, "max_output", 0, 1 << 40, 32_768)
        self._cell = Cell(request, keep, self._spool_file)
        self._cell.number = number(frame.header, "execution_count", 0, 1 << 31, 0)
        self._code = frame.body
        self._interpreter.ensure()
        self._begin()

    def _spool_file(self, cell: int, name: str) -> SpoolFile:
        return SpoolFile(lambda: self._files.spool.path(cell, name), self._settings.spool_bytes)

    def _begin(self) -> None:
        """Hand the waiting cell to the worker when both are there."""
        cell = self._cell
        if cell is None or cell.sent or not self._interpreter.ready or self._emptier is not None:
            return
        self._interpreter.settle()
        cell.nonce = self._nonce
        cell.sent = True
        self._interpreter.send(
            {
                "type": "cell",
                "late_interrupt": self._signalled,
                "nonce": cell.nonce,
                "number": cell.number,
                "max_output": cell.max_output,
                "spool_bytes": self._settings.spool_bytes,
            },
            self._code,
        )
        cell.watch(self._interpreter.pid)
        self._code, self._signalled = b"", False
        self._nonce = new_nonce()  # made ahead, while the worker is at work

    def _interrupt(self, request: int, header: Header) -> None:
        wanted = number(header, "cell", 1, 1 << 53)
        grace = number(header, "grace_ms", 0, 3_600_000, 2000) / 1000
        cell = self._cell
        delivered = cell is not None and cell.id == wanted
        if cell is not None and delivered:
            again = cell.interrupted
            cell.interrupted = True
            self._signal_cell()
            now = time.monotonic()
            if not again:
                self._loop.at("interrupt", now + grace / 2, self._signal_cell)
                self._loop.at("kill", now + grace, lambda: self.kill_worker("interrupt"))
        self._send({"type": "interrupt_reply", "id": request, "status": "ok", "delivered": delivered})

    def _signal_cell(self) -> None:
        if self._cell is not None and self._cell.sent:
            self._signalled = True
            try:
                system.interrupt_main_thread(self._interpreter.pid)
            except OSError:
                return

    def _reset(self, request: int, *, keep_files: bool) -> None:
        self.kill_worker("reset", respawn=False)
        self._untold = None
        self._waiting.append(("reset_reply", request))
        places = list(self._settings.wipe)
        if not keep_files:
            places += [self._files.workspace, self._files.temp]
            self._files.forget()
        self._emptier = Emptier(places, self._files.identity, None if keep_files else self._files.changes.baseline)
        self._step_emptier()
        self._interpreter.ensure()

    def _step_emptier(self) -> None:
        if self._emptier is None:
            return
        if self._emptier.step():
            self._emptier = None
            self.on_ready()
        else:
            self._loop.at("empty", 0.0, self._step_emptier)

    def _inspect(self, request: int, limit: int) -> None:
        if self._cell is not None:
            raise RequestError("busy", f"execute_request {self._cell.id} runs")
        if not self._interpreter.ready:
            raise RequestError("not_ready", "the interpreter is not ready to be looked at; ask again")
        self._interpreter.send(self._inspection.begin(request, limit))

    # What the interpreter tells

    def on_ready(self) -> None:
        """A worker waits for work (or the workspace has been emptied)."""
        if not self._interpreter.ready or self._emptier is not None:
            return
        for kind, request in self._waiting:
            fields: Header = {"worker_pid": self._interpreter.pid}
            if kind == "start_reply":
                fields["failed"] = self._interpreter.failed
            self._send({"type": kind, "id": request, "status": "ok", **fields})
        self._waiting.clear()
        self._begin()

    def on_unable(self, reason: str) -> None:
        """No worker can be made; everyone who waits is told."""
        message = "the interpreter cannot be started: " + reason
        for kind, request in self._waiting:
            self._send(RequestError("internal", message).reply(kind.replace("_reply", "_request"), request))
        self._waiting.clear()
        if self._cell is not None:
            self._send(RequestError("internal", message).reply("execute_request", self._cell.id))
            self._clear_cell()

    def on_output(self, name: str, data: bytes) -> None:
        """The worker or a child of it wrote to a standard stream."""
        cell = self._cell
        if cell is None or not cell.sent:
            self._late.add(name, data)
            return
        cell.output(name, data)
        if cell.stream_due is not None:
            self._loop.at("stream", cell.stream_due, self._send_streams)

    def _send_streams(self) -> None:
        cell = self._cell
        if cell is None:
            return
        for header, body in cell.stream_frames():
            self._send(header, body)
        progress = cell.progress(time.monotonic())
        if progress is not None:
            self._send(progress)

    def on_frame(self, frame: Frame) -> None:
        """A message of the worker; a FrameError when it is not what was asked for."""
        header, kind, nonce = frame.header, frame.header["type"], frame.header.get("nonce")
        if kind == "variables":
            self._inspection.finish(header, nonce)
            return
        cell = self._cell
        if cell is None or not cell.sent or nonce != cell.nonce:
            raise FrameError("a message for no running cell")
        if kind == "display":
            shown = cell.displays.chunk(header.get("mime"), header.get("last"), len(frame.body))
            if shown is not None:
                self._send({**shown, "id": cell.id}, frame.body)
        elif kind == "spool":
            cell.add_result_spool(frame.body)
        elif kind == "reply":
            outcome, parts = parse_outcome(header, frame.body, cell.max_output)
            self._interpreter.drain()
            self._finish(cell, outcome, parts)
        else:
            raise FrameError("a message of an unknown type")

    # Ends

    def kill_worker(self, cause: str, *, respawn: bool = True) -> None:
        """Kill the worker and every process that it left."""
        self._interpreter.kill()
        self.on_worker_end(cause, respawn=respawn)

    def on_worker_end(self, cause: str, *, respawn: bool = True) -> None:
        """The worker is gone: tell its cell's end, clear up, make the next one."""
        status = self._interpreter.wind_up(trusted=cause != "protocol")
        self._inspection.abandon("the interpreter ended")
        cell = self._cell
        if cell is not None and cell.sent:
            kills = processes.oom_kills()
            oom = cause == "self" and os.WIFSIGNALED(status) and kills > self._oom_seen >= 0
            self._oom_seen = kills
            death = Death(status, cause, oom)
            self._finish(cell, {"status": "died", "death": death.header(), "restarted": True}, [])
        elif cell is not None and cause in ("reset", "interrupt"):
            self._finish(cell, {"status": "died", "death": Death(9, cause, oom=False).header(), "restarted": True}, [])
        elif cause != "reset":
            self._untold = Death(status, cause, oom=False)
        if respawn:
            self._interpreter.ensure()

    def _clear_cell(self) -> None:
        for name in ("interrupt", "kill", "stream"):
            self._loop.cancel(name)
        self._cell = None
        self._code = b""

    def _finish(self, cell: Cell, outcome: Header, parts: list[tuple[str, bytes]]) -> None:
        """Send what is left of the streams and the reply."""
        for header, body in cell.stream_frames():
            self._send(header, body)
        parts += self._late.take()
        cpu = cell.cpu_ms()
        self._clear_cell()
        if cell.interrupted and outcome["status"] != "died":
            spare = (self._interpreter.pid, *self._interpreter.kept)
            processes.kill_others(self._reaper, spare, since=cell.boot_started - _CHILD_SLACK)
        changed, more = self._files.changes.changed()
        header, body = cell.reply(outcome, parts)
        header["cpu_ms"] = cpu
        header["files"] = changed
        header["files_more"] = more
        if self._untold is not None and cell.sent:
            header.setdefault("death", self._untold.header())
            header["restarted"] = True
            self._untold = None
        header.setdefault("restarted", False)
        self._send(header, body)
