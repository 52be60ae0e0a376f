"""Fields of the host's requests, checked, and refusals in the protocol's words."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from biocage_agent.frames import Header

_CODES = {
    errno.ENOENT: "not_found",
    errno.EISDIR: "is_directory",
    errno.ENOTDIR: "not_directory",
    errno.EEXIST: "exists",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.EROFS: "read_only",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "too_large",
    errno.ENAMETOOLONG: "bad_path",
    errno.ELOOP: "bad_path",
    errno.ENXIO: "not_regular",
}
_MAX_WORDS = 4000


class RequestError(Exception):
    """A refusal: a code of the protocol and one sentence."""

    def __init__(self, code: str, message: str) -> None:
        """Both go to the host."""
        super().__init__(message)
        self.code = code
        self.message = message

    @classmethod
    def of(cls, error: OSError) -> RequestError:
        """The refusal that fits an error of the system."""
        where = f"{_printable(error.filename)}: " if error.filename else ""
        reason = error.strerror or str(error)
        return cls(_CODES.get(error.errno or 0, "io"), f"{where}{reason}")

    def reply(self, kind: str, request: int) -> Header:
        """The reply's header."""
        reply = kind.removesuffix("_request")[:40] + "_reply"
        return {"type": reply, "id": request, "status": "error", "code": self.code, "message": self.message[:2000]}


def _printable(name: object) -> str:
    raw = name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace")


def number(header: Header, name: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number within bounds."""
    value = header.get(name, default)
    if type(value) is not int or not low <= value <= high:
        raise RequestError("bad_request", f"{name} must be a whole number from {low} to {high}")
    return value


def text(header: Header, name: str, default: str | None = None) -> str:
    """A text without NUL."""
    value = header.get(name, default)
    if not isinstance(value, str) or "\0" in value:
        raise RequestError("bad_request", f"{name} must be a text without NUL")
    return value


def flag(header: Header, name: str) -> bool:
    """True or false; absent is false."""
    value = header.get(name, False)
    if not isinstance(value, bool):
        raise RequestError("bad_request", f"{name} must be true or false")
    return value


def words(header: Header, name: str) -> tuple[str, ...]:
    """A list of texts; absent or null is empty."""
    value = header.get(name) or []
    if not isinstance(value, list) or len(value) > _MAX_WORDS or not all(isinstance(item, str) for item in value):
        raise RequestError("bad_request", f"{name} must be a list of at most {_MAX_WORDS} texts")
    return tuple(value)
