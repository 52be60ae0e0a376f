"""What a scenario may ask of an SDK, and what it gets."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Protocol

RESULT_KEY = "biocage/result"


@dataclass
class Server:
    """How the server is started; or, with a url, where it listens and what it wants to see."""

    command: str = ""
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    url: str = ""
    token: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """HTTP headers of every request."""
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def transport(self) -> str:
        """The name of the transport."""
        if not self.url:
            return "stdio"
        return "sse" if self.url.endswith("/sse") else "http"


@dataclass
class Image:
    """An image block."""

    mime: str
    data: str  # base64


@dataclass
class Answer:
    """What came as the result of a tool call, whatever the SDK calls it."""

    is_error: bool
    texts: list[str] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    result: dict[str, Any] | None = None
    size: int = 0  # bytes of the whole as JSON
    seconds: float = 0.0


@dataclass
class Notices:
    """Progress notifications, by the time at which the SDK handed them on."""

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        """Remember one."""
        self.times.append(time.monotonic())
        self.values.append(value)


class Peer(Protocol):
    """A connection to the server by one SDK."""

    protocol: str
    notices: Notices
    session: str  # the handle that the first answer told; passed in every later call

    async def tools(self) -> list[str]:
        """Names of the tools, in the order in which they came."""

    async def call(self, name: str, arguments: dict[str, Any], *, progress: bool = False) -> Answer:
        """Call a tool; with progress, ask for notifications as well."""

    async def call_and_cancel(self, name: str, arguments: dict[str, Any], after: float) -> None:
        """Call a tool and cancel the call, as the SDK does it."""

    async def read(self, uri: str) -> str:
        """Read a resource as text."""


def split(content: list[Any], *, link_type: str = "resource_link") -> tuple[list[str], list[Image], list[str]]:
    """Sort an SDK's content blocks; both name their fields alike but for one."""
    texts: list[str] = []
    images: list[Image] = []
    links: list[str] = []
    for block in content:
        if block.type == "text":
            texts.append(block.text)
        elif block.type == "image":
            mime = getattr(block, "mime_type", None) or block.mimeType
            images.append(Image(mime, block.data))
        elif block.type == link_type:
            links.append(str(block.uri))
        else:
            message = f"unexpected block {block.type}"
            raise ValueError(message)
    return texts, images, links


def in_session(session: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Pass the handle on, as a model does."""
    return {"session": session, **arguments} if session else arguments


def session_of(meta: dict[str, Any]) -> str:
    """Read the handle from an answer's _meta."""
    return str((meta.get(RESULT_KEY) or {}).get("session") or "")
