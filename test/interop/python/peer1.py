"""The official Python SDK, version 1."""

from __future__ import annotations

import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

from peer import RESULT_KEY, Answer, Notices, Server, in_session, session_of, split

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Peer1:
    """A connection by ClientSession."""

    def __init__(self) -> None:
        """Without a session; connect gives it one."""
        self.protocol = ""
        self.session = ""
        self.notices = Notices()
        self.client: ClientSession

    async def handle(self, message: Any) -> None:  # noqa: ANN401 - the SDK's union of everything
        """See every message of the server, also those that no callback waits for."""
        if isinstance(message, Exception):
            raise message
        root = getattr(message, "root", None)
        if isinstance(root, types.ProgressNotification):
            self.notices.add(root.params.progress)

    async def tools(self) -> list[str]:
        """Names of the tools."""
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any], *, progress: bool = False) -> Answer:
        """Call a tool."""
        begin = time.monotonic()
        done = await self.client.call_tool(name, in_session(self.session, arguments), progress_callback=ignore if progress else None)
        seconds = time.monotonic() - begin
        texts, images, links = split(done.content)
        meta = done.meta or {}
        size = len(done.model_dump_json(by_alias=True, exclude_none=True).encode())
        self.session = self.session or session_of(meta)
        return Answer(done.isError, texts, images, links, meta.get(RESULT_KEY), size, seconds)

    async def call_and_cancel(self, name: str, arguments: dict[str, Any], after: float) -> None:
        """Version 1 leaves the notification to its user, who must know the request's number."""
        number = self.client._request_id  # noqa: SLF001 - there is no public way to learn it
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.call, name, arguments)
            await anyio.sleep(after)
            params = types.CancelledNotificationParams(requestId=number, reason="the user changed their mind")
            note = types.CancelledNotification(method="notifications/cancelled", params=params)
            await self.client.send_notification(types.ClientNotification(note))
            tasks.cancel_scope.cancel()

    async def read(self, uri: str) -> str:
        """Read a resource as text."""
        done = await self.client.read_resource(uri)  # type: ignore[arg-type]  # a string will do
        return "".join(getattr(part, "text", "") for part in done.contents)


async def ignore(progress: float, total: float | None, message: str | None) -> None:
    """Ask for progress; the message handler counts it."""


@asynccontextmanager
async def streams(server: Server) -> AsyncIterator[tuple[Any, Any]]:
    """Open the transport."""
    if server.transport == "http":
        async with streamablehttp_client(server.url, headers=server.headers) as (read, write, _):
            yield read, write
    elif server.transport == "sse":
        async with sse_client(server.url, headers=server.headers) as pair:
            yield pair
    else:
        params = StdioServerParameters(command=server.command, args=server.args, env=server.env)
        async with stdio_client(params, errlog=sys.stderr) as pair:
            yield pair


@asynccontextmanager
async def connect(server: Server) -> AsyncIterator[Peer1]:
    """Connect and say hello."""
    peer = Peer1()
    async with (
        streams(server) as (read, write),
        ClientSession(read, write, message_handler=peer.handle) as session,
    ):
        hello = await session.initialize()
        peer.client = session
        peer.protocol = str(hello.protocolVersion)
        yield peer
