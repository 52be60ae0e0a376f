"""One cell as the supervisor sees it: its streams, its displays, its reply."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from biocage_agent import processes, system
from biocage_agent.capture import Capture, SpoolFile
from biocage_agent.frames import FrameError, Header

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DISPLAYS = 20
MAX_DISPLAY_BYTES = 8 << 20
MAX_OUTPUT = 196_608
MIN_OUTPUT = 256
_PROGRESS_EVERY = 0.25
_STREAM_DELAY = 0.02
_MIMES = frozenset(
    {
        "image/png",
        "image/jpeg",
        "image/svg+xml",
        "text/plain",
        "text/markdown",
        "text/html",
        "text/latex",
        "application/json",
    }
)
_NAMES = ("stdout", "stderr")
_PARTS = ("result", "traceback", "message")


class Death(NamedTuple):
    """How a worker ended."""

    status: int
    cause: str
    oom: bool

    def header(self) -> Header:
        """The reply's `death`."""
        signal_number = os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0
        exit_code = os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else 0
        return {"signal": signal_number, "exit_code": exit_code, "oom": self.oom, "cause": self.cause}


class Displays:
    """Checks what the worker shows; whole objects only, so many, so large."""

    def __init__(self) -> None:
        """Nothing shown yet."""
        self.dropped = 0
        self._index = 0
        self._size = 0
        self._mime = ""

    def chunk(self, mime: object, last: object, size: int) -> Header | None:
        """The header to send a chunk under, or None when the object is left out."""
        if not isinstance(mime, str) or mime not in _MIMES or not isinstance(last, bool):
            raise FrameError("a display of an unknown kind")
        if self._size and mime != self._mime:
            raise FrameError("a display changed its kind")
        self._size += max(size, 1)
        self._mime = mime
        if self._size > MAX_DISPLAY_BYTES:
            raise FrameError("a display above its bound")
        index = self._index
        if last:
            self._size = 0
            self._index += 1
        if index >= MAX_DISPLAYS:
            self.dropped += int(last)
            return None
        return {"type": "display_data", "mime": mime, "index": index, "last": last}


def new_nonce() -> str:
    """What a worker must name to answer for a cell."""
    return os.urandom(16).hex()


class Cell:
    """A running cell."""

    def __init__(self, request: int, max_output: int, spool: Callable[[int, str], SpoolFile]) -> None:
        """`spool` makes the file for the whole of a named text."""
        self.id = request
        self.number = 0
        self.nonce = ""
        self.max_output = max(MIN_OUTPUT, min(max_output, MAX_OUTPUT))
        self.started = time.monotonic()
        self.boot_started = processes.boot_time()
        self.displays = Displays()
        self.interrupted = False
        self.sent = False
        self.stream_due: float | None = None
        self._progress_next = self.started + _PROGRESS_EVERY
        self._progress_bytes = 0
        self._cpu_clock = -1
        self._cpu_start = -1
        self._captures = {name: Capture(self.max_output, spool(request, name)) for name in _NAMES}
        self._result_spool = spool(request, "result")

    def watch(self, pid: int) -> None:
        """The worker of this pid has the cell: its CPU time counts from now on."""
        self._cpu_clock = system.cpu_clock(pid)
        self._cpu_start = self._cpu()

    def _cpu(self) -> int:
        try:
            return time.clock_gettime_ns(self._cpu_clock) // 1_000_000
        except OSError:
            return -1

    def cpu_ms(self) -> int:
        """CPU time of the worker so far, -1 when unknown."""
        now = self._cpu() if self._cpu_start >= 0 else -1
        return now - self._cpu_start if now >= 0 else -1

    def output(self, name: str, data: bytes) -> None:
        """Take output; the head goes out soon, in one frame with what follows at once."""
        capture = self._captures[name]
        capture.add(data)
        if self.stream_due is None:
            self.stream_due = time.monotonic() + _STREAM_DELAY

    def stream_frames(self) -> list[tuple[Header, bytes]]:
        """What the host has not seen of the heads."""
        self.stream_due = None
        frames: list[tuple[Header, bytes]] = []
        for name, capture in self._captures.items():
            data = capture.take_head()
            if data:
                frames.append(({"type": "stream", "id": self.id, "name": name}, data))
        return frames

    def progress(self, now: float) -> Header | None:
        """A progress frame when one is due and more output came."""
        if now < self._progress_next:
            return None
        total = sum(capture.total for capture in self._captures.values())
        if total == self._progress_bytes:
            return None
        newest = max(self._captures.values(), key=lambda capture: capture.total)
        self._progress_bytes = total
        self._progress_next = now + _PROGRESS_EVERY
        return {"type": "progress", "id": self.id, "bytes": total, "last": newest.last_line()}

    def add_result_spool(self, data: bytes) -> None:
        """A piece of a result that is too long for the reply."""
        self._result_spool.write(data)

    def reply(self, outcome: Header, parts: list[tuple[str, bytes]]) -> tuple[Header, bytes]:
        """The execute_reply: the worker's outcome with the facts that only we know."""
        truncated = list(outcome.pop("truncated", ()))
        spool: dict[str, str] = {}
        streams: dict[str, Any] = {}
        for name, capture in self._captures.items():
            offset, tail = capture.tail()
            streams[name] = {"total": capture.total, "tail_from": offset}
            if tail:
                parts.append((name + "_tail", tail))
            path = capture.close()
            if capture.truncated:
                truncated.append(name)
            if path is not None:
                spool[name] = path
        self._result_spool.close()
        if self._result_spool.used:
            spool["result"] = self._result_spool.path
        header = {
            "type": "execute_reply",
            "id": self.id,
            **outcome,
            "parts": [{"name": name, "size": len(data)} for name, data in parts],
            "streams": streams,
            "truncated": truncated,
            "spool": spool,
            "interrupted": self.interrupted,
            "display_dropped": self.displays.dropped + int(outcome.get("display_dropped", 0)),
        }
        return header, b"".join(data for _, data in parts)


def _text(value: object, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise FrameError("a text of the worker is missing or too long")
    return value


def _number(value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise FrameError("a number of the worker is missing or out of bounds")
    return value


def parse_outcome(header: Header, body: bytes, max_output: int) -> tuple[Header, list[tuple[str, bytes]]]:
    """Check a worker's reply; anything irregular is a FrameError."""
    status = header.get("status")
    if status not in ("ok", "error"):
        raise FrameError("a status that a worker cannot have")
    named = header.get("parts")
    cut = header.get("truncated")
    if not isinstance(named, list) or len(named) > len(_PARTS) or not isinstance(cut, list):
        raise FrameError("a reply without parts")
    if len(cut) > len(_PARTS) or not all(name in _PARTS for name in cut):
        raise FrameError("a reply that cuts what is not there")
    parts: list[tuple[str, bytes]] = []
    offset = 0
    for item in named:
        if not isinstance(item, list) or len(item) != 2 or item[0] not in _PARTS:  # noqa: PLR2004
            raise FrameError("a part of an unknown name")
        size = _number(item[1], 0, max_output + 4)
        parts.append((item[0], body[offset : offset + size]))
        offset += size
    if offset != len(body) or len({name for name, _ in parts}) != len(parts):
        raise FrameError("parts that do not fill the body")
    outcome: Header = {"status": status, "truncated": cut}
    if status == "error":
        outcome["error"] = _parse_error(header.get("error"))
    outcome["display_dropped"] = _number(header.get("dropped", 0), 0, 1 << 30)
    return outcome, parts


def _parse_error(error: object) -> Header:
    if not isinstance(error, dict):
        raise FrameError("an error that is no object")
    checked: Header = {
        "ename": _text(error.get("ename"), 500),
        "line": _number(error.get("line"), 0, 1 << 31),
        "hint": _text(error.get("hint"), 4000),
    }
    if "exit_code" in error:
        checked["exit_code"] = _number(error["exit_code"], 0, 255)
    return checked
