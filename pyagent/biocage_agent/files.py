"""File requests of the host, done by the supervisor as the worker's user.

A path given to a write has to lie beneath a place that tools may write, also
after symbolic links are followed; reading follows the sandbox's own rights.
Nothing here can block: descriptors are opened without waiting, and what is not
a regular file is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

from biocage_agent.frames import MAX_BODY_OUT, Frame, Header
from biocage_agent.paths import Identity, Paths, kind_of, show
from biocage_agent.requests import RequestError, flag, number, text
from biocage_agent.workspace import Changes, Spool

_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE_FLAGS = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MODE = 0o644
_MAX_OFFSET = 1 << 62


class FileService:
    """Reads, writes, lists and links for the host."""

    REQUESTS = frozenset({"write_file_request", "read_file_request", "list_files_request", "make_link_request"})

    def __init__(self, workspace: str, temp: str, drop_uid: int | None) -> None:
        """Both directories exist already."""
        self._paths = Paths(workspace, temp)
        self.workspace = self._paths.workspace
        self.temp = self._paths.temp
        self.identity = Identity(drop_uid)
        self.changes = Changes(self.workspace, self.identity)
        self.spool = Spool(self.temp)
        self._partial: dict[str, str] = {}

    def forget(self) -> None:
        """The workspace is being emptied."""
        self._partial.clear()
        self._paths.links.clear()
        self.spool.forget()

    def handle(self, kind: str, frame: Frame) -> tuple[Header, bytes]:
        """Answer one request."""
        with self.identity.assumed():
            if kind == "write_file_request":
                return self._write(frame.header, frame.body), b""
            if kind == "read_file_request":
                return self._read(frame.header)
            if kind == "list_files_request":
                return self._list(frame.header)
            return self._link(frame.header), b""

    # Requests

    def _write(self, header: Header, body: bytes) -> Header:
        mode = text(header, "mode", "create")
        path = self._paths.writable(self._paths.absolute(header))
        if flag(header, "abort"):
            self._abort(path)
            return {"path": show(path), "size": 0}
        if mode == "create":
            size = self._create(path, body, more=flag(header, "more"))
        elif mode == "at":
            size = self._write_at(path, body, number(header, "offset", 0, _MAX_OFFSET), header)
        elif mode == "append":
            size = self._append(path, body)
        else:
            raise RequestError("bad_request", "mode must be create, append or at")
        return {"path": show(path), "size": size}

    def _abort(self, path: str) -> None:
        partial = self._partial.pop(path, None)
        if partial is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)

    def _create(self, path: str, body: bytes, *, more: bool) -> int:
        self._refuse_irregular(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._abort(path)
        partial = os.path.join(os.path.dirname(path), f".biocage-{os.urandom(8).hex()}.part")
        descriptor = os.open(partial, _WRITE_FLAGS | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
        try:
            _write_all(descriptor, body, 0)
            os.fchmod(descriptor, _MODE)
        except OSError:
            os.unlink(partial)
            raise
        finally:
            os.close(descriptor)
        self._partial[path] = partial
        if not more:
            self._appear(path)
        return len(body)

    def _refuse_irregular(self, path: str) -> None:
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISDIR(mode):
            raise RequestError("is_directory", f"{show(path)} is a directory; name a file in it")
        if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
            raise RequestError("not_regular", f"{show(path)} is not a regular file")

    def _appear(self, path: str) -> None:
        """Give a finished file its name; what had the name before is replaced whole."""
        partial = self._partial.pop(path)
        try:
            os.replace(partial, path)
        except OSError:
            os.unlink(partial)
            raise
        self.changes.note(path)

    def _write_at(self, path: str, body: bytes, offset: int, header: Header) -> int:
        partial = self._partial.get(path)
        descriptor = self._open(partial or path, _WRITE_FLAGS)
        try:
            if os.fstat(descriptor).st_size < offset:
                raise RequestError("bad_request", "offset lies behind the end of the file")
            _write_all(descriptor, body, offset)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if partial is not None and not flag(header, "more"):
            self._appear(path)
        self.changes.note(path)
        return size

    def _append(self, path: str, body: bytes) -> int:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        target = os.path.realpath(path)
        if target != path:
            self._paths.writable(target)
        new = not os.path.lexists(path)
        descriptor = self._open(path, _WRITE_FLAGS | os.O_APPEND | os.O_CREAT)
        try:
            if new:
                os.fchmod(descriptor, _MODE)
            before = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, body, None)
            except OSError:
                os.ftruncate(descriptor, before)
                if new:
                    os.unlink(path)
                raise
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        self.changes.note(path)
        return size

    def _open(self, path: str, flags: int) -> int:
        """Open a regular file, whatever lies in wait under its name."""
        descriptor = os.open(path, flags, _MODE)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return descriptor
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise RequestError("is_directory", f"{show(path)} is a directory; name a file in it")
        raise RequestError("not_regular", f"{show(path)} is not a regular file")

    def _read(self, header: Header) -> tuple[Header, bytes]:
        path = self._paths.absolute(header)
        offset = number(header, "offset", 0, _MAX_OFFSET, 0)
        limit = number(header, "limit", 0, MAX_BODY_OUT, MAX_BODY_OUT)
        descriptor = self._open(path, _READ_FLAGS)
        try:
            info = os.fstat(descriptor)
            parts: list[bytes] = []
            while limit > 0:
                part = os.pread(descriptor, limit, offset)
                if not part:
                    break
                parts.append(part)
                offset += len(part)
                limit -= len(part)
        finally:
            os.close(descriptor)
        fields = {
            "path": show(path),
            "size": info.st_size,
            "mtime_ns": info.st_mtime_ns,
            "mode": stat.S_IMODE(info.st_mode),
        }
        return fields, b"".join(parts)

    def _list(self, header: Header) -> tuple[Header, bytes]:
        top = self._paths.absolute({"path": header.get("path") or "."})
        limit = number(header, "limit", 1, 10_000, 10_000)
        found: list[tuple[str, bytes]] = []
        truncated = self._walk(top, flag(header, "recursive"), limit, found)
        found.sort()
        size, last = 2, 0
        for last, (_, item) in enumerate(found, start=1):
            size += len(item) + 1
            if size > MAX_BODY_OUT:
                last -= 1  # noqa: PLW2901
                truncated = True
                break
        body = b"[" + b",".join(item for _, item in found[:last]) + b"]"
        return {"truncated": truncated}, body

    def _walk(self, top: str, recursive: bool, limit: int, found: list[tuple[str, bytes]]) -> bool:  # noqa: FBT001
        """Collect entries; tells whether some were left out."""
        waiting = [top]
        while waiting:
            place = waiting.pop()
            try:
                entries = os.scandir(place)
            except OSError:
                if place == top:
                    raise
                continue
            with entries:
                for entry in entries:
                    if len(found) >= limit:
                        return True
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    found.append(self._entry(entry.path, info))
                    if recursive and stat.S_ISDIR(info.st_mode):
                        waiting.append(entry.path)
        return False

    def _entry(self, path: str, info: os.stat_result) -> tuple[str, bytes]:
        shown = show(path)
        inside = self.workspace + "/"
        shown = shown.removeprefix(inside)
        entry = {"path": shown, "type": kind_of(info.st_mode), "size": info.st_size, "mtime_ns": info.st_mtime_ns}
        return shown, json.dumps(entry, separators=(",", ":")).encode("ascii")

    def _link(self, header: Header) -> Header:
        path = self._paths.writable(self._paths.absolute(header))
        target = self._paths.absolute(header, "target")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)
        self._paths.links.add(path)
        return {"path": show(path)}


def _write_all(descriptor: int, body: bytes, offset: int | None) -> None:
    rest = memoryview(body)
    while rest:
        if offset is None:
            written = os.write(descriptor, rest)
        else:
            written = os.pwrite(descriptor, rest, offset)
            offset += written
        rest = rest[written:]
