"""What the host asked for at the start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from biocage_agent.requests import RequestError, flag, number, words
from biocage_agent.zygote import WorkerSetup

if TYPE_CHECKING:
    from biocage_agent.files import FileService
    from biocage_agent.frames import Header


class Settings(NamedTuple):
    """The start_request, checked."""

    setup: WorkerSetup
    preload: tuple[str, ...]
    spool_bytes: int
    wipe: tuple[str, ...]


def parse_settings(header: Header, files: FileService, drop_uid: int | None) -> Settings:
    """The settings in a start_request, or a RequestError."""
    setup = WorkerSetup(
        workspace=files.workspace,
        temp=files.temp,
        memory_bytes=number(header, "memory_bytes", 0, 1 << 60, 0),
        drop_uid=drop_uid,
        packages=words(header, "packages"),
        network=flag(header, "network"),
    )
    spool_bytes = number(header, "spool_bytes", 0, 1 << 50, 0)
    return Settings(setup, words(header, "preload"), spool_bytes, _wipe(header))


def _wipe(header: Header) -> tuple[str, ...]:
    places = words(header, "wipe")
    for place in places:
        if not place.startswith("/") or "\0" in place or os.path.normpath(place) != place or place == "/":
            raise RequestError("bad_request", "wipe must list absolute paths of directories, without dots")
    return places
