"""Replays the transcripts in testdata/wire against the real supervisor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import wire

from biocage_agent.frames import MAX_BODY_IN, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from host import Host

WIRE = Path(__file__).parent.parent / "testdata" / "wire"
TRANSCRIPTS = sorted(WIRE.glob("*.txtar"))


def swapped(value: Any, pairs: dict[str, str]) -> Any:  # noqa: ANN401
    """The value with one set of paths in place of the other."""
    if isinstance(value, dict):
        return {name: swapped(item, pairs) for name, item in value.items()}
    if isinstance(value, list):
        return [swapped(item, pairs) for item in value]
    if isinstance(value, str):
        for old, new in pairs.items():
            if value.startswith(old):
                return value.replace(old, new)
            value = value.replace(" " + old, " " + new)
    return value


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 8


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(fresh: Callable[..., Host], path: Path) -> None:
    transcript = wire.read(path)
    host = fresh()
    host.socket.settimeout(8)
    inward = {"/work": str(host.workspace), "/tmp": str(host.temp)}  # noqa: S108
    outward = {new: old for old, new in inward.items()}
    got: list[wire.Step] = []
    for step in transcript.steps:
        if step.side == "host":
            host.socket.sendall(encode(swapped(step.header, inward), step.body, MAX_BODY_IN))
            got.append(step)
            continue
        if not any(item.side == "agent" for item in got):
            header, body = host.info, b""
        else:
            header, body = host.frame()
        got.append(wire.Step("agent", swapped(header, outward), body))
    if os.environ.get("UPDATE_WIRE"):
        wire.write(path, wire.Transcript(transcript.comment, transcript.volatile, got))
        return
    for number, (wanted, found) in enumerate(zip(transcript.steps, got, strict=True), start=1):
        volatile = transcript.volatile
        assert wire.comparable(found, volatile) == wire.comparable(wanted, volatile), f"frame {number:02}"


def test_the_form_itself(tmp_path: Path) -> None:
    steps = [
        wire.Step("host", {"type": "a"}, b""),
        wire.Step("agent", {"type": "b"}, b"text\nof two lines\n"),
        wire.Step("agent", {"type": "c"}, b"\xff\0"),
        wire.Step("agent", {"type": "d"}, b"x\n-- y --"),
        wire.Step("agent", {"type": "e"}, b"base64:no"),
        wire.Step("agent", {"type": "f"}, b"\n"),
    ]
    transcript = wire.Transcript("a comment\n", ["pid"], steps)
    wire.write(tmp_path / "t.txtar", transcript)
    assert wire.read(tmp_path / "t.txtar") == transcript
