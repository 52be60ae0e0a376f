"""The result object of a one-shot run, made of the supervisor's frames.

Its fields are those of ``biocage run --json``. Which way a run ended is told
by the supervisor and never by the program.
"""

from __future__ import annotations

import contextlib
import mimetypes
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from biocage_agent.frames import Frame

FAILED, TIMED_OUT, CANCELLED, KILLED = 1, 124, 130, 137
_GONE = "the run's variables and processes are gone"


class Ended(NamedTuple):
    """How the cell ended."""

    reply: Frame | None
    cause: str  # timeout or cancelled, when it was interrupted
    limit: float
    seconds: float


class Collected:
    """What came before the reply."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.heads = {"stdout": b"", "stderr": b""}
        self.images = 0
        self.spool: dict[str, str] = {}
        self.tails: dict[str, bytes] = {}
        self.lost = ""

    def see(self, frame: Frame) -> None:
        """Take a frame of the running cell."""
        header = frame.header
        if header["type"] == "stream" and header.get("name") in self.heads:
            self.heads[header["name"]] += frame.body
        elif header["type"] == "display_data" and header.get("last"):
            mime = str(header.get("mime"))
            self.images += mime.startswith("image/") and mime != "image/svg+xml"


def _parts(reply: Frame) -> dict[str, bytes]:
    found, offset = {}, 0
    for part in reply.header.get("parts", []):
        found[part["name"]] = reply.body[offset : offset + part["size"]]
        offset += part["size"]
    return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _whole_start(data: bytes) -> bytes:
    """Without the rest of a character that was cut."""
    while data and data[0] & 0xC0 == 0x80:  # noqa: PLR2004
        data = data[1:]
    return data


def _whole_end(data: bytes) -> bytes:
    """Without the beginning of a character that was cut."""
    for length in range(1, min(4, len(data) + 1)):
        start = data[-length]
        if start & 0xC0 == 0xC0:  # noqa: PLR2004
            size = 2 + (start >= 0xE0) + (start >= 0xF0)  # noqa: PLR2004
            return data if size <= length else data[:-length]
    return data


def _joined(name: str, head: bytes, tail: bytes, reply: Frame) -> str:
    """A stream's head and tail, and how much is left out between them."""
    place = reply.header.get("streams", {}).get(name, {})
    gap = place.get("tail_from", len(head)) - len(head)
    if gap <= 0 or (not tail and place.get("total", 0) <= len(head)):
        return _text(head + tail)
    spool = reply.header.get("spool", {}).get(name)
    where = f"; the whole is in {spool}" if spool else ""
    return f"{_text(_whole_end(head))}\n[... {gap} bytes left out{where} ...]\n{_text(_whole_start(tail))}"


def _files(reply: Frame) -> list[dict[str, Any]]:
    return [
        {
            "path": file["path"],
            "size": file["size"],
            "mime_type": mimetypes.guess_type(file["path"])[0] or "application/octet-stream",
            "uri": "file://" + os.path.abspath(file["path"]),
        }
        for file in reply.header.get("files", [])
    ]


def _error(kind: str, message: str, **fields: str | int) -> dict[str, Any]:
    wanted = {"kind": kind, "type": fields.pop("type", ""), "message": message, **fields}
    return {name: value for name, value in wanted.items() if value or name in ("kind", "message")}


def _stopped(ended: Ended) -> tuple[int, dict[str, Any]]:
    if ended.cause == "timeout":
        message = f"The code was stopped at its limit of {ended.limit:g} s."
        hint = "Set EXECUTION_TIMEOUT to more seconds if it needs longer."
        return TIMED_OUT, _error("timeout", message, type="TimeoutError", hint=hint)
    return CANCELLED, _error("cancelled", "The run was interrupted by a signal.", type="KeyboardInterrupt")


def _dead(death: dict[str, Any], ended: Ended) -> tuple[int, dict[str, Any], str]:
    """Exit code, error and what happened, when the interpreter is gone."""
    number, code = int(death.get("signal", 0)), int(death.get("exit_code", 0))
    if ended.cause:
        return (*_stopped(ended), "the code could not be interrupted and was killed")
    if death.get("oom"):
        hint = "Work on less data at once, or give docker run a larger --memory."
        reason = "the interpreter was killed by the memory limit"
        return (
            KILLED,
            _error("memory", "The interpreter was killed by the memory limit.", type="MemoryError", hint=hint),
            reason,
        )
    if death.get("cause") == "protocol":
        return KILLED, _error("died", "The Python process broke the protocol and was killed."), "it broke the protocol"
    if number:
        with contextlib.suppress(ValueError):
            what = f"was ended by signal {signal.Signals(number).name}"
            return 128 + number, _error("died", f"The Python process {what}."), f"the interpreter {what}"
        return (
            128 + number,
            _error("died", f"The Python process was ended by signal {number}."),
            "it was ended by a signal",
        )
    return (
        code,
        _error("died", f"The Python process exited with code {code}."),
        f"the interpreter exited with code {code}",
    )


def _blank(ended: Ended, collected: Collected) -> dict[str, Any]:
    return {
        "success": False,
        "status": "done",
        "run_id": "run-1",
        "stdout": _text(collected.heads["stdout"]),
        "stderr": _text(collected.heads["stderr"]),
        "exit_code": FAILED,
        "execution_time": round(ended.seconds, 6),
        "result": None,
        "error": None,
        "images": collected.images,
        "files": [],
        "truncated": False,
        "restarted": False,
        "session": "",
    }


def make(ended: Ended, collected: Collected) -> dict[str, Any]:
    """The result object."""
    result, reply = _blank(ended, collected), ended.reply
    if reply is None:
        if ended.cause:
            result["exit_code"], result["error"] = _stopped(ended)
        else:
            message = f"The sandbox failed: {collected.lost}."
            hint = "The container needs a writable /tmp and at least 128 MB of memory."
            result["exit_code"], result["error"] = KILLED, _error("sandbox", message, hint=hint)
        return result
    header, parts = reply.header, _parts(reply)
    for name, head in collected.heads.items():
        collected.tails[name] = parts.get(name + "_tail", b"")
        result[name] = _joined(name, head, collected.tails[name], reply)
    collected.spool = {str(name): str(path) for name, path in header.get("spool", {}).items()}
    if "result" in parts:
        result["result"] = _text(parts["result"])
    result["truncated"] = bool(header.get("truncated"))
    result["files"] = _files(reply)
    if collected.spool:
        result["spool"] = collected.spool
    _judge(result, ended, reply, parts)
    return result


def _judge(result: dict[str, Any], ended: Ended, reply: Frame, parts: dict[str, bytes]) -> None:
    """Set success, exit code and error."""
    header = reply.header
    told = header.get("error") or {}
    trace = _text(parts.get("traceback", b""))
    if header["status"] == "died":
        result["exit_code"], result["error"], reason = _dead(header.get("death") or {}, ended)
        result["restarted"], result["restart_reason"] = True, f"{reason}; {_GONE}"
    elif ended.cause and header.get("interrupted"):
        result["exit_code"], result["error"] = _stopped(ended)
        result["error"].update({k: v for k, v in (("traceback", trace), ("line", told.get("line", 0))) if v})
    elif header["status"] == "error" and "code" in header:
        result["error"] = _error("sandbox", "The sandbox refused the code: " + str(header.get("message")))
    elif header["status"] == "error":
        code = told.get("exit_code")
        result["exit_code"] = FAILED if code is None else int(code) & 0xFF
        result["error"] = _error(
            "exception",
            _text(parts.get("message", b"")),
            type=told.get("ename", "Exception"),
            traceback=trace,
            line=told.get("line", 0),
            hint=told.get("hint", ""),
        )
    else:
        result["success"], result["exit_code"] = True, 0


def _pass(stream: TextIO, whole: str | None, text: str) -> None:
    """Write a text, or the file that holds all of it."""
    stream.flush()
    with contextlib.suppress(OSError):
        if whole is not None:
            with open(whole, "rb") as file:
                shutil.copyfileobj(file, stream.buffer)
            stream.flush()
            return
    stream.buffer.write(text.encode("utf-8", "replace"))
    stream.flush()


def pass_through(result: dict[str, Any], collected: Collected) -> None:
    """Write what the program wrote, and to standard error why it failed."""
    _pass(sys.stdout, collected.spool.get("stdout"), result["stdout"])
    _pass(sys.stderr, collected.spool.get("stderr"), result["stderr"])
    error = result["error"]
    if error is None or error.get("type") == "SystemExit":
        return
    if error["kind"] == "exception":
        _pass(sys.stderr, None, error.get("traceback", error["message"]).rstrip("\n") + "\n")
    else:
        _pass(sys.stderr, None, f"biocage: {error['message']} {error.get('hint', '')}".rstrip() + "\n")
