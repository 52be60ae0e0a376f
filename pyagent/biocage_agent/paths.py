"""Which paths the host may name, and who the supervisor is while it touches them."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from typing import TYPE_CHECKING

from biocage_agent.requests import RequestError, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from biocage_agent.frames import Header

LIVE_ROOTS = ("/data", "/app", "/mnt")
_MAX_PATH = 4096
_MAX_NAME = 255

# What a name may hold and a text should not: controls, and bytes that are not
# UTF-8. A backslash is written out only where it would read as one of these.
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\udc80-\udcff]|\\(?=x(?:[89a-f][0-9a-f]|5c)|u\{[0-9A-F]{1,6}\})")
_WRITTEN_OUT = re.compile(r"\\x([89a-f][0-9a-f]|5c)|\\u\{([0-9A-F]{1,6})\}")


class Identity:
    """Who the supervisor is while it touches files."""

    def __init__(self, uid: int | None) -> None:
        """`uid` is the worker's, or None when it is our own."""
        self._uid = uid
        self._own = os.geteuid()
        if uid is not None:
            os.setegid(uid)  # for good: it gives nothing up, and is one call less each time

    @contextlib.contextmanager
    def assumed(self) -> Iterator[None]:
        """Be the worker's user within the block."""
        if self._uid is None:
            yield
            return
        os.seteuid(self._uid)
        try:
            yield
        finally:
            os.seteuid(self._own)


def kind_of(mode: int) -> str:
    """The protocol's word for a kind of file."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def beneath(path: str, root: str) -> bool:
    """Tell whether path is root or lies in it, by name."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def show(path: str) -> str:
    r"""A path as text: bytes that are not UTF-8 as \xff, controls as \u{1B}. Paths.absolute reads it back."""
    return path if path.isascii() and path.isprintable() and "\\" not in path else _ODD.sub(_write_out, path)


def _write_out(match: re.Match[str]) -> str:
    raw = os.fsencode(match[0])
    if match[0] == "\\" or (len(raw) == 1 and not raw.isascii()):
        return f"\\x{raw.hex()}"
    return f"\\u{{{ord(match[0]):X}}}"


def _read_back(match: re.Match[str]) -> str:
    if match[1]:
        return os.fsdecode(bytes.fromhex(match[1]))
    code = int(match[2], 16)
    character = chr(code) if 0 < code <= sys.maxunicode else ""
    is_plain = character.isascii() and character.isprintable()
    return character if character.encode("utf-8", "ignore") and not is_plain else match[0]


def _named(path: str) -> str:
    """The path that a shown one means: where such a name is there, that one, else what is written."""
    if "\\" not in path:
        return path
    place = "/"
    for part in path.split("/"):
        meant = os.path.join(place, _WRITTEN_OUT.sub(_read_back, part))
        place = meant if os.path.lexists(meant) else os.path.join(place, part)
    return place


class Paths:
    """Checks paths against the workspace, the temporary directory and what is exposed."""

    def __init__(self, workspace: str, temp: str) -> None:
        """Both directories exist already."""
        for place in (workspace, temp):
            if not os.path.isabs(place) or not os.path.isdir(place):
                raise RequestError("bad_request", f"{place} is no directory with an absolute path")
        self.workspace = os.path.normpath(workspace)
        self.temp = os.path.normpath(temp)
        self.links: set[str] = set()

    def absolute(self, header: Header, name: str = "path") -> str:
        """A path of a request, absolute and without dots."""
        given = text(header, name)
        try:
            raw = given.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestError("bad_path", f"{name} holds a lone surrogate") from error
        if not raw or len(raw) > _MAX_PATH or any(len(part) > _MAX_NAME for part in raw.split(b"/")):
            raise RequestError("bad_path", f"{name} is empty, or longer than {_MAX_PATH} bytes, or a name in it is")
        return _named(os.path.normpath(os.path.join(self.workspace, given)).replace("//", "/"))

    def writable(self, path: str) -> str:
        """The path to write at, or a refusal: its folder must not lead out by a link."""
        roots = (self.workspace, self.temp, *LIVE_ROOTS)
        root = next((root for root in roots if beneath(path, root)), None)
        if root is None or path == root:
            raise RequestError(
                "bad_path", f"{show(path)} cannot be written; use a path beneath {self.workspace} or {self.temp}"
            )
        real = os.path.realpath(os.path.dirname(path))
        allowed = [os.path.realpath(root), *LIVE_ROOTS, *(os.path.realpath(link) for link in self.links)]
        if not any(beneath(real, place) for place in allowed):
            raise RequestError("bad_path", f"{show(path)} leads out of {root} by a symbolic link to {show(real)}")
        return path
