"""A small host for the tests: starts the real supervisor and speaks the protocol."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from biocage_agent.frames import MAX_BODY_IN, Decoder, Frame, encode

MAIN = Path(__file__).parent.parent / "biocage_agent_main.py"
LIMIT = 60.0


@dataclass
class Result:
    """What a host makes of one execute_request."""

    header: dict[str, Any]
    parts: dict[str, bytes]
    displays: list[tuple[str, bytes]]
    progress: list[dict[str, Any]]
    heads: dict[str, bytes] = field(default_factory=dict)
    seconds: float = 0.0

    def _text(self, name: str) -> str | None:
        data = self.parts.get(name)
        return None if data is None else data.decode("utf-8")

    def _stream(self, name: str) -> bytes:
        return self.heads.get(name, b"") + self.parts.get(name + "_tail", b"")

    @property
    def status(self) -> str:
        return str(self.header["status"])

    @property
    def stdout(self) -> str:
        return self._stream("stdout").decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self._stream("stderr").decode("utf-8", "replace")

    @property
    def result(self) -> str | None:
        return self._text("result")

    @property
    def message(self) -> str:
        return self._text("message") or ""

    @property
    def traceback(self) -> str:
        return self._text("traceback") or ""

    @property
    def error(self) -> str:
        return str(self.header.get("error", {}).get("ename", ""))

    @property
    def line(self) -> int:
        return int(self.header.get("error", {}).get("line", 0))

    @property
    def hint(self) -> str:
        return str(self.header.get("error", {}).get("hint", ""))

    @property
    def exit_code(self) -> int | None:
        code = self.header.get("error", {}).get("exit_code")
        return None if code is None else int(code)

    @property
    def death(self) -> dict[str, Any]:
        death = self.header["death"]
        assert isinstance(death, dict)
        return death

    @property
    def images(self) -> list[bytes]:
        return [data for mime, data in self.displays if mime.startswith("image/")]


class Host:
    """One supervisor and the connection to it."""

    def __init__(self, base: Path, channel: str = "fd", arguments: tuple[str, ...] = ()) -> None:
        self.base = base
        self.workspace = base / "work"
        self.temp = base / "tmp"
        for place in (self.workspace, self.temp):
            place.mkdir(parents=True, exist_ok=True)
        self._decoder = Decoder(MAX_BODY_IN)
        self._next = 0
        self._events: list[Frame] = []
        self._lifeline = -1
        self.process: subprocess.Popen[bytes]
        self.socket = self._launch(channel, arguments)
        self.socket.settimeout(LIMIT)
        self.info = self.frame().header

    def _launch(self, channel: str, arguments: tuple[str, ...]) -> socket.socket:
        command = [sys.executable, "-I", str(MAIN)]
        environment = {**os.environ, "HOME": str(self.workspace), "TZ": "UTC", "MPLCONFIGDIR": str(self.base / "mpl")}
        if channel == "unix":
            return self._launch_unix(command, arguments, environment)
        ours, theirs = socket.socketpair()
        if channel == "stdio":
            command.append("--channel=stdio")
            self.process = subprocess.Popen(  # noqa: S603
                [*command, *arguments], env=environment, stdin=theirs.fileno(), stdout=theirs.fileno()
            )
        else:
            number = theirs.fileno()
            command.append(f"--channel=fd:{number},{number}")
            self.process = subprocess.Popen(  # noqa: S603
                [*command, *arguments], env=environment, pass_fds=[number], stdin=subprocess.DEVNULL
            )
        theirs.close()
        return ours

    def _launch_unix(
        self, command: list[str], arguments: tuple[str, ...], environment: dict[str, str]
    ) -> socket.socket:
        path = self.base / "agent.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(LIMIT)
            secret = secrets.token_bytes(32)
            read_end, self._lifeline = os.pipe()
            command.append(f"--channel=unix:{path}")
            self.process = subprocess.Popen([*command, *arguments], env=environment, stdin=read_end)  # noqa: S603
            os.close(read_end)
            os.write(self._lifeline, secret)
            connection, _ = listener.accept()
        connection.settimeout(LIMIT)
        told = b""
        while len(told) < len(secret):
            told += connection.recv(len(secret) - len(told))
        assert told == secret
        return connection

    def start(self, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
        defaults = {
            "preload": [],
            "memory_bytes": 0,
            "lease_ms": 0,
            "workspace": str(self.workspace),
            "temp": str(self.temp),
            "spool_bytes": 64 << 20,
            "packages": ["numpy", "pandas"],
        }
        return self.call("start_request", **{**defaults, **fields}).header

    # Frames

    def frame(self) -> Frame:
        """The next frame, or EOFError."""
        while (frame := self._decoder.next()) is None:
            data = self.socket.recv(1 << 20)
            if not data:
                raise EOFError
            self._decoder.feed(data)
        return frame

    def send(self, kind: str, body: bytes = b"", **fields: Any) -> int:  # noqa: ANN401
        self._next += 1
        self.socket.sendall(encode({"type": kind, "id": self._next, **fields}, body, MAX_BODY_IN))
        return self._next

    def wait(self, request: int) -> Frame:
        """The reply to a request; what comes before it is kept."""
        for index, frame in enumerate(self._events):
            if frame.header["id"] == request and frame.header["type"].endswith("_reply"):
                return self._events.pop(index)
        while True:
            frame = self.frame()
            if frame.header["id"] == request and frame.header["type"].endswith("_reply"):
                return frame
            self._events.append(frame)

    def call(self, kind: str, body: bytes = b"", **fields: Any) -> Frame:  # noqa: ANN401
        return self.wait(self.send(kind, body, **fields))

    # Cells

    def begin(self, code: str | bytes, max_output: int = 32_768) -> int:
        body = code if isinstance(code, bytes) else code.encode("utf-8", "surrogatepass")
        return self.send("execute_request", body, max_output=max_output, execution_count=0)

    def finish(self, request: int) -> Result:
        reply = self.wait(request)
        parts: dict[str, bytes] = {}
        offset = 0
        for part in reply.header.get("parts", []):
            parts[part["name"]] = reply.body[offset : offset + part["size"]]
            offset += part["size"]
        assert offset == len(reply.body)
        result = Result(reply.header, parts, [], [])
        objects: dict[int, tuple[str, bytes]] = {}
        for frame in [frame for frame in self._events if frame.header["id"] == request]:
            self._events.remove(frame)
            header = frame.header
            if header["type"] == "stream":
                result.heads[header["name"]] = result.heads.get(header["name"], b"") + frame.body
            elif header["type"] == "display_data":
                _, data = objects.get(header["index"], ("", b""))
                objects[header["index"]] = (header["mime"], data + frame.body)
            else:
                result.progress.append(header)
        result.displays = [objects[index] for index in sorted(objects)]
        return result

    def run(self, code: str | bytes, timeout: float | None = None, grace: float = 1.0, **fields: Any) -> Result:  # noqa: ANN401
        """Run a cell to its end; a timeout interrupts it."""
        started = time.monotonic()
        request = self.begin(code, **fields)
        if timeout is not None and not self._ends_within(request, timeout):
            self.call("interrupt_request", cell=request, grace_ms=int(grace * 1000))
        result = self.finish(request)
        result.seconds = time.monotonic() - started
        return result

    def _ends_within(self, request: int, seconds: float) -> bool:
        """Collect frames until the reply or the time is there."""
        end = time.monotonic() + seconds
        while not any(frame.header["id"] == request and "status" in frame.header for frame in self._events):
            self.socket.settimeout(max(0.001, end - time.monotonic()))
            try:
                self._events.append(self.frame())
            except TimeoutError:
                return False
            finally:
                self.socket.settimeout(LIMIT)
            if time.monotonic() > end:
                return False
        return True

    def value(self, code: str) -> str | None:
        """The value of a cell that has to end well."""
        result = self.run(code)
        assert result.status == "ok", result.traceback or result.header
        return result.result

    # Files

    def write(self, path: str, data: bytes, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
        return self.call("write_file_request", data, path=path, **{"mode": "create", **fields}).header

    def read(self, path: str, offset: int = 0, limit: int = 1 << 20) -> Frame:
        return self.call("read_file_request", path=path, offset=offset, limit=limit)

    def listing(self, path: str = "", *, recursive: bool = False, limit: int = 10_000) -> list[dict[str, Any]]:
        frame = self.call("list_files_request", path=path, recursive=recursive, limit=limit)
        assert frame.header["status"] == "ok", frame.header
        entries = json.loads(frame.body)
        assert isinstance(entries, list)
        return entries

    def reset(self, *, keep_files: bool = False) -> dict[str, Any]:
        reply = self.call("reset_request", keep_files=keep_files).header
        assert reply["status"] == "ok", reply
        return reply

    def close(self) -> int:
        """End the connection; the supervisor's exit code."""
        self.socket.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
