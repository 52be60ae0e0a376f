"""What the host asked for at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from biocage_agent.requests import flag, number, words
from biocage_agent.zygote import WorkerSetup

if TYPE_CHECKING:
    from biocage_agent.files import FileService
    from biocage_agent.frames import Header


class Settings(NamedTuple):
    """The start_request, checked."""

    setup: WorkerSetup
    preload: tuple[str, ...]
    spool_bytes: int


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
    return Settings(setup, words(header, "preload"), number(header, "spool_bytes", 0, 1 << 50, 0))
