"""The official Python SDK, version 2."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from peer import RESULT_KEY, Answer, Notices, Server, in_session, session_of, split

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Peer2:
    """A connection by Client."""

    def __init__(self) -> None:
        """Without a client; connect gives it one."""
        self.protocol = ""
        self.session = ""
        self.notices = Notices()
        self.client: Client

    async def handle(self, message: Any) -> None:  # noqa: ANN401 - the SDK's union of everything
        """See every message of the server, also those that no callback waits for."""
        if isinstance(message, Exception):
            raise message
        if isinstance(message, types.ProgressNotification):
            self.notices.add(message.params.progress)

    async def tools(self) -> list[str]:
        """Names of the tools."""
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any], *, progress: bool = False) -> Answer:
        """Call a tool."""
        begin = time.monotonic()
        done = await self.client.call_tool(name, in_session(self.session, arguments), progress_callback=ignore if progress else None)
        seconds = time.monotonic() - begin
        texts, images, links = split(done.content)
        meta = dict(done.meta or {})
        size = len(done.model_dump_json(by_alias=True, exclude_none=True).encode())
        self.session = self.session or session_of(meta)
        return Answer(bool(done.is_error), texts, images, links, meta.get(RESULT_KEY), size, seconds)

    async def call_and_cancel(self, name: str, arguments: dict[str, Any], after: float) -> None:
        """Version 2 tells the server when a call is abandoned."""
        with anyio.move_on_after(after):
            await self.call(name, arguments)
            message = "the call ended before it was cancelled"
            raise RuntimeError(message)

    async def read(self, uri: str) -> str:
        """Read a resource as text."""
        done = await self.client.read_resource(uri)
        return "".join(getattr(part, "text", "") for part in done.contents)


async def ignore(progress: float, total: float | None, message: str | None) -> None:
    """Ask for progress; the message handler counts it."""


def transport(server: Server) -> Any:  # noqa: ANN401 - the SDK's union of transports
    """Choose the transport."""
    if server.transport == "http":
        return streamable_http_client(server.url, http_client=create_mcp_http_client(headers=server.headers))
    if server.transport == "sse":
        return sse_client(server.url, headers=server.headers)
    return StdioServerParameters(command=server.command, args=server.args, env=server.env)


@asynccontextmanager
async def connect(server: Server) -> AsyncIterator[Peer2]:
    """Connect; the SDK chooses the protocol's revision."""
    peer = Peer2()
    async with Client(transport(server), message_handler=peer.handle) as client:
        peer.client = client
        peer.protocol = client.protocol_version
        yield peer
