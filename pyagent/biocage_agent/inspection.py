"""One question at a time about the interpreter's variables."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from biocage_agent.frames import FrameError
from biocage_agent.requests import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from biocage_agent.frames import Header
    from biocage_agent.loop import Loop

_SECONDS = 10.0


class Inspection:
    """Waits for the worker's answer to an inspect_request, not for ever."""

    def __init__(self, send: Callable[..., None], loop: Loop) -> None:
        """Nothing is asked yet."""
        self._send = send
        self._loop = loop
        self._asked: tuple[int, str] | None = None
        self._stale: set[str] = set()

    def begin(self, request: int, limit: int) -> Header:
        """Take a request; the message for the worker."""
        if self._asked is not None:
            raise RequestError("busy", f"inspect_request {self._asked[0]} waits for its answer")
        nonce = os.urandom(16).hex()
        self._asked = (request, nonce)
        self._loop.at("inspect", time.monotonic() + _SECONDS, self._on_timeout)
        return {"type": "inspect", "nonce": nonce, "limit": limit}

    def finish(self, header: Header, nonce: object) -> None:
        """Pass the worker's answer on; a FrameError when nobody asked."""
        if isinstance(nonce, str) and nonce in self._stale:
            self._stale.discard(nonce)
            return
        if self._asked is None or nonce != self._asked[1]:
            raise FrameError("variables that nobody asked for")
        request, _ = self._asked
        self._asked = None
        self._loop.cancel("inspect")
        fields = {name: header.get(name) for name in ("variables", "more", "cwd")}
        self._send({"type": "inspect_reply", "id": request, "status": "ok", **fields})

    def abandon(self, reason: str) -> None:
        """The worker is gone: nothing that it was asked will be answered."""
        self._stale.clear()
        self._refuse(reason)

    def _on_timeout(self) -> None:
        if self._asked is not None:
            self._stale.add(self._asked[1])
            self._refuse("the interpreter did not answer in time; a thread of the program may hold it up")

    def _refuse(self, reason: str) -> None:
        if self._asked is None:
            return
        request, _ = self._asked
        self._asked = None
        self._loop.cancel("inspect")
        self._send(RequestError("internal", reason).reply("inspect_request", request))
