"""The zygote: imports the libraries once, then forks workers on demand.

It runs no user code. A worker is forked twice, so that it becomes a child of
the supervisor, which then learns its exact end.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import warnings
from typing import TYPE_CHECKING, NamedTuple

from biocage_agent import system
from biocage_agent.spare import Spare, Work

if TYPE_CHECKING:
    from collections.abc import Callable

ASK = b"F"
PID = struct.Struct(">i")
SPARE = PID.pack(0)
_DESCRIPTORS = 3
_QUIET_SECONDS = 0.1


class WorkerSetup(NamedTuple):
    """What a worker needs to know before it runs anything."""

    workspace: str
    temp: str
    memory_bytes: int
    drop_uid: int | None
    packages: tuple[str, ...]
    network: bool


def _preload(names: tuple[str, ...]) -> list[str]:
    """Import the modules; one that cannot be imported is told and does no harm."""
    failed = []
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: BLE001, PERF203
            failed.append(name)
    return failed


def run(link: socket.socket, setup: WorkerSetup, preload: tuple[str, ...]) -> None:
    """Serve fork requests until the supervisor is gone."""
    os.environ["MPLBACKEND"] = "Agg"
    os.chdir("/")
    from biocage_agent import worker  # noqa: PLC0415 - the supervisor itself never loads it

    worker.prepare(setup)
    failed = _preload(preload)
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
    gc.collect()
    gc.freeze()
    system.set_dumpable(value=False)
    text = "\n".join(failed).encode("utf-8")
    link.sendall(PID.pack(len(text)) + text)
    _serve(link, lambda given: worker.run(socket.socket(fileno=given[0]), given[1], given[2], setup))


def _serve(link: socket.socket, work: Work) -> None:
    """Answer each request with a worker's pid; in a quiet moment after it make a spare one and tell its pid."""
    spare = Spare(lambda body: _fork(link, body), work)
    wanted = True
    while True:
        if wanted and not select.select([link], [], [], _QUIET_SECONDS)[0]:
            wanted = False
            if spare.make():
                link.sendall(SPARE + PID.pack(spare.pid))
        message, descriptors, _, _ = socket.recv_fds(link, 1, _DESCRIPTORS)
        if not message:
            return
        pid = spare.take(descriptors) or _fork(link, lambda given=descriptors: work(given))  # type: ignore[misc]
        link.sendall(PID.pack(pid))
        for descriptor in descriptors:
            os.close(descriptor)
        wanted = True


def _fork(link: socket.socket, body: Callable[[], None]) -> int:
    """Fork twice and run body; the pid, or minus the error number."""
    told, tell = os.pipe()
    try:
        middle = os.fork()
    except OSError as error:
        os.close(told)
        os.close(tell)
        return -(error.errno or 1)
    if middle == 0:
        _middle(link, body, (told, tell))
    os.close(tell)
    answer = os.read(told, PID.size)
    os.close(told)
    os.waitpid(middle, 0)
    return int(PID.unpack(answer)[0]) if len(answer) == PID.size else -1


def _middle(link: socket.socket, body: Callable[[], None], pipe: tuple[int, int]) -> None:
    """In the child: fork the worker, tell its pid, end."""
    told, tell = pipe
    try:
        pid = os.fork()
    except OSError as error:
        pid = -(error.errno or 1)
    if pid != 0:
        os.write(tell, PID.pack(pid))
        os._exit(0)
    code = 70
    try:
        for descriptor in (link.detach(), told, tell):
            os.close(descriptor)
        body()
        code = 0
    finally:
        os._exit(code)


def start(link: socket.socket, setup: WorkerSetup, preload: tuple[str, ...], keep: tuple[int, ...]) -> int:
    """Fork the zygote from the supervisor; `keep` are the descriptors that it may keep."""
    pid = os.fork()
    if pid != 0:
        return pid
    code = 70
    try:
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _close_all_but(keep)
        os.setsid()
        system.die_with_parent()
        sys.argv = [""]
        run(link, setup, preload)
        code = 0
    finally:
        os._exit(code)


def _close_all_but(keep: tuple[int, ...]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    start_at = 3
    for descriptor in sorted(keep):
        os.closerange(start_at, descriptor)
        start_at = descriptor + 1
    os.closerange(start_at, 65_536)
