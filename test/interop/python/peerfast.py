"""FastMCP's client, which stands on version 2 of the official SDK."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastmcp import Client
from fastmcp.client.transports import ClientTransport, SSETransport, StdioTransport, StreamableHttpTransport

from peer import RESULT_KEY, Answer, Server, in_session, session_of, split
from peer2 import Peer2, ignore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class PeerFast(Peer2):
    """A connection by fastmcp.Client."""

    async def tools(self) -> list[str]:
        """Names of the tools."""
        return [tool.name for tool in (await self.client.list_tools_mcp()).tools]

    async def call(self, name: str, arguments: dict[str, Any], *, progress: bool = False) -> Answer:
        """Call a tool."""
        begin = time.monotonic()
        arguments = in_session(self.session, arguments)
        done = await self.client.call_tool_mcp(name, arguments, progress_handler=ignore if progress else None)
        seconds = time.monotonic() - begin
        texts, images, links = split(done.content)
        meta = dict(done.meta or {})
        size = len(done.model_dump_json(by_alias=True, exclude_none=True).encode())
        self.session = self.session or session_of(meta)
        return Answer(bool(done.is_error), texts, images, links, meta.get(RESULT_KEY), size, seconds)


def transport(server: Server) -> ClientTransport:
    """Choose the transport."""
    if server.transport == "http":
        return StreamableHttpTransport(server.url, headers=server.headers)
    if server.transport == "sse":
        return SSETransport(server.url, headers=server.headers)
    return StdioTransport(server.command, server.args, server.env, keep_alive=False)


@asynccontextmanager
async def connect(server: Server) -> AsyncIterator[PeerFast]:
    """Connect; FastMCP chooses the protocol's revision."""
    peer = PeerFast()
    async with Client(transport(server), message_handler=peer.handle) as client:
        peer.client = client
        peer.protocol = str(client.protocol_version or client.initialize_result.protocolVersion)
        yield peer
