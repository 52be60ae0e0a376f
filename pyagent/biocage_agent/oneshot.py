"""One script in a container that was started by hand: no server, no session.

``docker run --rm -i biocage:latest`` runs this as the container's first
process. It starts the supervisor as a server would, gives it one cell, and
prints the same result object as ``biocage run --json``, or passes output and
exit code through (``--plain``).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from biocage_agent import oneresult
from biocage_agent.frames import MAX_BODY_IN, MAX_BODY_OUT, Decoder, Frame, FrameError, Header, encode

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_CODE = 16 << 20
_START_WITHIN = 60.0
_GRACE_MS = 2000
_PATIENCE = 5.0
_SPOOL_BYTES = 64 << 20
_DEFAULT_TIMEOUT = 30.0
_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_MARKER = "/etc/biocage-environment.json"
_USAGE_ERROR = 2


class UsageError(Exception):
    """The command line or the environment cannot be understood."""


class LostError(Exception):
    """The supervisor is gone, or does not answer."""


class Peer:
    """The supervisor, as a child, and the frames that it sends."""

    def __init__(self, max_output: int) -> None:
        """Start it."""
        self._max_output = max_output
        self._decoder = Decoder(MAX_BODY_OUT)
        self._next = 0
        self._socket, theirs = socket.socketpair()
        number = theirs.fileno()
        program = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "biocage_agent_main.py")
        self._process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-I", program, f"--channel=fd:{number},{number}"],
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()

    def send(self, kind: str, fields: Header, body: bytes = b"") -> int:
        """Send a request; its id."""
        self._next += 1
        self._socket.settimeout(_PATIENCE)
        try:
            self._socket.sendall(encode({"type": kind, "id": self._next, **fields}, body, MAX_BODY_IN))
        except OSError as error:
            raise LostError from error
        return self._next

    def receive(self, until: float) -> Frame | None:
        """The next frame, or None when the time is there."""
        try:
            while (frame := self._decoder.next()) is None:
                self._socket.settimeout(max(0.001, until - time.monotonic()))
                data = self._socket.recv(1 << 20)
                if not data:
                    raise LostError
                self._decoder.feed(data)
        except TimeoutError:
            return None
        except (OSError, FrameError) as error:
            raise LostError from error
        return frame

    def reply(self, request: int, within: float, see: Callable[[Frame], None]) -> Frame | None:
        """The reply to a request, or None when it takes too long; see gets what comes before."""
        until = time.monotonic() + within
        while (frame := self.receive(until)) is not None:
            if frame.header.get("id") == request and frame.header["type"].endswith("_reply"):
                return frame
            see(frame)
        return None

    def close(self) -> None:
        """End the supervisor, and with it everything that the program left."""
        self._socket.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _memory_limit() -> int:
    """The container's memory limit, or 0."""
    for name in _LIMIT_FILES:
        with contextlib.suppress(OSError, ValueError), open(name, encoding="ascii") as file:
            size = int(file.read())
            return size if size < 1 << 50 else 0
    return 0


def _packages() -> list[str]:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(_MARKER, encoding="utf-8") as file:
        return [str(package["name"]) for package in json.load(file)["packages"]]
    return []


def _has_network() -> bool:
    try:
        return any(name != "lo" for name in os.listdir("/sys/class/net"))
    except OSError:
        return False


def _start(peer: Peer) -> None:
    fields = {
        "memory_bytes": _memory_limit(),
        "workspace": os.getcwd(),
        "temp": tempfile.gettempdir(),
        "spool_bytes": _SPOOL_BYTES,
        "packages": _packages(),
        "network": _has_network(),
    }
    reply = peer.reply(peer.send("start_request", fields), _START_WITHIN, lambda _frame: None)
    if reply is None or reply.header["status"] != "ok":
        raise LostError(reply.header.get("message", "") if reply else "")


def execute(code: bytes, timeout: float, max_output: int) -> tuple[dict[str, Any], oneresult.Collected]:
    """Run the code; its result object and what was collected for it."""
    collected = oneresult.Collected()
    peer = Peer(max_output)
    cause, reply, begun = "", None, time.monotonic()
    try:
        _start(peer)
        begun = time.monotonic()
        request = peer.send("execute_request", {"max_output": max_output, "execution_count": 1}, code)
        try:
            reply = peer.reply(request, timeout, collected.see)
            cause = "" if reply else "timeout"
        except KeyboardInterrupt:
            cause = "cancelled"
        if reply is None:
            with contextlib.suppress(KeyboardInterrupt):
                peer.send("interrupt_request", {"cell": request, "grace_ms": _GRACE_MS})
                reply = peer.reply(request, _GRACE_MS / 1000 + _PATIENCE, collected.see)
    except LostError as error:
        collected.lost = str(error) or "the sandbox's supervisor ended"
    except KeyboardInterrupt:
        cause = "cancelled"
    finally:
        took = time.monotonic() - begun
        with contextlib.suppress(KeyboardInterrupt):
            peer.close()
    ended = oneresult.Ended(reply, cause, timeout, took)
    return oneresult.make(ended, collected), collected


def _read_code(name: str | None) -> bytes:
    """The script: from a file, from PYTHON_CODE, or from standard input."""
    given = os.environ.pop("PYTHON_CODE", "")
    if name is None and given:
        return given.encode("utf-8", "surrogateescape")
    try:
        if name is None or name == "-":
            code = sys.stdin.buffer.read(_MAX_CODE + 1)
        else:
            with open(name, "rb") as file:
                code = file.read(_MAX_CODE + 1)
    except OSError as error:
        raise UsageError(f"the script cannot be read: {error}") from error
    if len(code) > _MAX_CODE:
        raise UsageError(f"the script is larger than {_MAX_CODE} bytes")
    if not code.strip():
        raise UsageError(
            "there is no script: pass a file, set PYTHON_CODE, or write it to standard input (docker run -i)"
        )
    return code


def _seconds(option: float | None) -> float:
    text = os.environ.get("EXECUTION_TIMEOUT", "")
    try:
        seconds = option if option is not None else float(text) if text else _DEFAULT_TIMEOUT
    except ValueError as error:
        raise UsageError(f"EXECUTION_TIMEOUT is {text!r}, not a number of seconds") from error
    if not 0 < seconds <= 7 * 86_400:
        raise UsageError("the time limit must be above 0 and at most 604800 seconds")
    return seconds


def _interrupted(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="docker run --rm -i biocage:latest", description=__doc__)
    parser.add_argument("file", nargs="?", metavar="FILE|-", help="the script, as the container sees it")
    parser.add_argument("--plain", action="store_true", help="pass output and exit code through")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="time limit (EXECUTION_TIMEOUT, else 30)")
    parser.add_argument("--max-output", type=int, default=32_768, metavar="BYTES", help="kept of each text")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run one script; the exit code."""
    options = _options(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    try:
        code, timeout = _read_code(options.file), _seconds(options.timeout)
    except UsageError as error:
        sys.stderr.write(f"biocage: {error}\n")
        return _USAGE_ERROR
    except KeyboardInterrupt:
        return oneresult.CANCELLED
    result, collected = execute(code, timeout, options.max_output)
    if options.plain:
        oneresult.pass_through(result, collected)
    else:
        sys.stdout.write(json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n")
        sys.stdout.flush()
    return int(result["exit_code"])
