"""The supervisor's side of the zygote: start it, ask it for workers, start it again."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, NamedTuple

from biocage_agent import zygote
from biocage_agent.channel import FrameStream
from biocage_agent.frames import MAX_BODY_IN, MAX_BODY_OUT
from biocage_agent.zygote import ASK, PID, WorkerSetup

if TYPE_CHECKING:
    from biocage_agent.processes import Reaper

_PIPE_BYTES = 1 << 18
_F_SETPIPE_SZ = 1031


class Worker(NamedTuple):
    """A forked interpreter and the ends that the supervisor holds."""

    stream: FrameStream
    stdout: int
    stderr: int

    def close(self) -> None:
        """Close the supervisor's ends."""
        self.stream.close()
        os.close(self.stdout)
        os.close(self.stderr)


class Spawner:
    """Owns the zygote and one outstanding request for a worker."""

    def __init__(self, reaper: Reaper, setup: WorkerSetup, preload: tuple[str, ...]) -> None:
        """Nothing is forked before start()."""
        self._reaper = reaper
        self._setup = setup
        self._preload = preload
        self._link: socket.socket | None = None
        self._buffer = bytearray()
        self._abandoned = 0
        self.loaded = False
        self.pid = 0
        self.failed: list[str] = []
        self.crashes = 0
        self._spare = 0
        self._told_spare = False

    def start(self) -> int:
        """Fork the zygote; the descriptor that becomes readable when it answers."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pid = zygote.start(theirs, self._setup, self._preload, (theirs.fileno(),))
        theirs.close()
        ours.setblocking(False)  # noqa: FBT003
        self._reaper.watch(self.pid)
        self._link = ours
        self._buffer.clear()
        self._abandoned = 0
        self._told_spare = False
        self.loaded = False
        return ours.fileno()

    @property
    def alive(self) -> bool:
        """Tell whether the zygote has not been seen to end."""
        return self._link is not None and self._reaper.status(self.pid) is None

    def stop(self) -> int:
        """Kill what is left of the zygote; the descriptor that is no longer valid."""
        descriptor = -1
        if self._link is not None:
            descriptor = self._link.fileno()
            self._link.close()
            self._link = None
        if self._reaper.status(self.pid) is None and self.pid > 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self._reaper.forget(self.pid)
        self._note_spare(0)
        if not self.loaded:
            self.crashes += 1
            self.failed = list(self._preload)
            self._preload = ()
        self.pid = 0
        return descriptor

    def request(self) -> Worker:
        """Ask for a worker; answers() later gives its pid."""
        if self._link is None:
            raise OSError("the zygote is not there")
        os.kill(self.pid, signal.SIGCONT)
        control, control_theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        for end in (out_read, err_read):
            os.set_blocking(end, False)
            _widen(end)
        try:
            socket.send_fds(self._link, [ASK], [control_theirs.fileno(), out_write, err_write])
        finally:
            control_theirs.close()
            os.close(out_write)
            os.close(err_write)
        descriptor = control.detach()
        stream = FrameStream(descriptor, descriptor, MAX_BODY_OUT, MAX_BODY_IN)
        return Worker(stream, out_read, err_read)

    @property
    def kept(self) -> tuple[int, ...]:
        """Processes that are not the program's: the zygote, and the spare worker while it lives."""
        if self._spare and self._reaper.status(self._spare) is not None:
            self._note_spare(0)
        return self.pid, self._spare

    def _note_spare(self, pid: int) -> None:
        """A spare worker was made, or the last one is none any more: it was taken, or it has ended."""
        if self._spare:
            self._reaper.forget(self._spare)
        self._spare = pid
        if pid:
            self._reaper.watch(pid)

    def abandon(self) -> None:
        """Nobody waits for the outstanding worker any more; it ends with its socket."""
        self._abandoned += 1

    def answers(self) -> list[int]:
        """Pids of workers (or minus an error number) that the zygote told; EOFError at its end."""
        if self._link is None:
            return []
        try:
            data = self._link.recv(65_536)
        except BlockingIOError:
            return []
        except OSError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        self._buffer += data
        found = []
        while len(self._buffer) >= PID.size:
            (value,) = PID.unpack_from(self._buffer)
            if not self.loaded:
                if len(self._buffer) < PID.size + value:
                    break
                text = self._buffer[PID.size : PID.size + value].decode("utf-8")
                self.failed = text.split("\n") if text else self.failed
                del self._buffer[: PID.size + value]
                self.loaded = True
                continue
            del self._buffer[: PID.size]
            if value == 0:
                self._told_spare = True
            elif self._told_spare:
                self._told_spare = False
                self._note_spare(value)
            else:
                self._note_spare(0)
                found += self._answered(value)
        return found

    def _answered(self, pid: int) -> list[int]:
        """The pid of a worker, unless nobody waits for it any more."""
        if not self._abandoned:
            return [pid]
        self._abandoned -= 1
        return []


def _widen(pipe: int) -> None:
    """A larger pipe means fewer wake-ups; where it is refused the default does."""
    from fcntl import fcntl  # noqa: PLC0415

    try:
        fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        return
