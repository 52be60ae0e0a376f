"""Streams of frames without blocking: the host's channel and a worker's socket."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

from biocage_agent.frames import MAX_BODY_OUT, Decoder, Frame, Header, encode
from biocage_agent.system import unread_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECRET = 32
_WRITE_ONCE = 1 << 18


class ChannelClosedError(Exception):
    """The other side is gone."""


class FrameStream:
    """Frames over descriptors that never block; what cannot be written waits."""

    def __init__(self, read_fd: int, write_fd: int, max_body_in: int, max_body_out: int = MAX_BODY_OUT) -> None:
        """Take over both descriptors (they may be the same)."""
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._decoder = Decoder(max_body_in)
        self._max_body_out = max_body_out
        self._waiting = bytearray()
        for descriptor in {read_fd, write_fd}:
            os.set_blocking(descriptor, False)
            os.set_inheritable(descriptor, False)  # noqa: FBT003

    @property
    def backlog(self) -> int:
        """Bytes that wait to be written."""
        return len(self._waiting)

    def unread(self) -> int:
        """Bytes that wait to be read."""
        return unread_bytes(self.read_fd)

    def receive(self) -> Iterator[Frame]:
        """Read once and give the frames that are whole; ChannelClosedError at the end."""
        try:
            data = os.read(self.read_fd, self._decoder.wanted())
        except BlockingIOError:
            return
        except OSError as error:
            raise ChannelClosedError from error
        if not data:
            raise ChannelClosedError
        self._decoder.feed(data)
        while (frame := self._decoder.next()) is not None:
            yield frame

    def send(self, header: Header, body: bytes = b"") -> None:
        """Queue a frame; flush() writes."""
        self._waiting += encode(header, body, self._max_body_out)

    def flush(self) -> None:
        """Write what waits as far as the other side takes it."""
        while self._waiting:
            try:
                with memoryview(self._waiting) as waiting:
                    written = os.write(self.write_fd, waiting[:_WRITE_ONCE])
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.EBADF, errno.ENOTCONN):
                    self._waiting.clear()
                    raise ChannelClosedError from error
                raise
            del self._waiting[:written]

    def close(self) -> None:
        """Close both descriptors."""
        for descriptor in {self.read_fd, self.write_fd}:
            os.close(descriptor)


def _private(descriptor: int) -> int:
    """Give a duplicate out of the way of the standard descriptors."""
    import fcntl  # noqa: PLC0415 - only at the start

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)


def _occupy_standard() -> None:
    """Put /dev/null where a stray read or print would meet the channel."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)


def open_channel(text: str, max_body_in: int) -> tuple[FrameStream, int | None]:
    """The host's stream, and the descriptor whose end of file ends us too, if any."""
    if text == "stdio":
        stream = FrameStream(_private(0), _private(1), max_body_in)
        _occupy_standard()
        return stream, None
    kind, _, rest = text.partition(":")
    if kind == "fd":
        read_text, _, write_text = rest.partition(",")
        read_fd, write_fd = int(read_text), int(write_text)
        if min(read_fd, write_fd) <= 1:
            read_fd, write_fd = _private(read_fd), _private(write_fd)
        stream = FrameStream(read_fd, write_fd, max_body_in)
        _occupy_standard()
        return stream, None
    if kind == "unix" and rest:
        return _connect(rest, max_body_in)
    raise ValueError(f"--channel={text} is none of stdio, fd:R,W, unix:PATH")


def _connect(path: str, max_body_in: int) -> tuple[FrameStream, int]:
    secret = b""
    while len(secret) < _SECRET:
        part = os.read(0, _SECRET - len(secret))
        if not part:
            raise ValueError("descriptor 0 ended before the secret of 32 bytes")
        secret += part
    lifeline = _private(0)
    os.set_blocking(lifeline, False)
    _occupy_standard()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    connection.sendall(secret)
    descriptor = connection.detach()
    return FrameStream(descriptor, descriptor, max_body_in), lifeline
