"""Framing: whatever is encoded is decoded, in any pieces; nothing irregular passes."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biocage_agent.frames import MAX_DEPTH, Decoder, Frame, FrameError, encode, parse_header

LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4))
HEADERS = st.dictionaries(st.text(), VALUES, max_size=6).map(lambda fields: {**fields, "type": "x"})


@given(st.lists(st.tuples(HEADERS, st.binary(max_size=2000)), max_size=5), st.integers(7, 5000))
def test_round_trip_in_any_pieces(frames: list[tuple[dict[str, Any], bytes]], step: int) -> None:
    raw = b"".join(encode(header, body) for header, body in frames)
    decoder = Decoder(2000)
    found: list[Frame] = []
    for start in range(0, len(raw), step):
        decoder.feed(raw[start : start + step])
        while (frame := decoder.next()) is not None:
            found.append(frame)
    assert found == [Frame(json.loads(json.dumps(header)), body) for header, body in frames]
    assert not decoder.pending()


@given(st.binary(max_size=4000))
def test_noise_is_refused_or_waits(noise: bytes) -> None:
    decoder = Decoder(1 << 16)
    decoder.feed(noise)
    try:
        while decoder.next() is not None:
            pass
    except FrameError:
        return
    assert decoder.wanted() <= 1 << 20


@given(st.binary(max_size=300))
def test_headers_of_noise(noise: bytes) -> None:
    try:
        header = parse_header(noise)
    except FrameError:
        return
    assert isinstance(header["type"], str)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"type": 1}',
        b'{"type": "x", "n": NaN}',
        b'{"type": "x", "n": Infinity}',
        b'{"type": "x"} {}',
        b'{"type": "\xff"}',
        b'{"type": "x", "n": ' + b"9" * 5000 + b"}",
        b"[" * 60_000,
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b'{"type": "x", "a": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
    ],
)
def test_headers_that_are_refused(raw: bytes) -> None:
    with pytest.raises(FrameError):
        parse_header(raw)


def test_depth_counts_nesting_and_not_brackets() -> None:
    nested = b'{"type": "x", "a": ' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}"
    assert parse_header(nested)["type"] == "x"
    flat = json.dumps({"type": "x", "text": '[{"' * 500, "list": [[]] * 500}).encode()
    assert parse_header(flat)["text"] == '[{"' * 500


@pytest.mark.parametrize(("head", "body"), [(65_537, 0), (0xFFFFFFFF, 0), (2, 101), (2, 0xFFFFFFFF)])
def test_lengths_above_the_bounds(head: int, body: int) -> None:
    decoder = Decoder(100)
    decoder.feed(struct.pack(">II", head, body))
    with pytest.raises(FrameError):
        decoder.next()


def test_nothing_above_the_bounds_is_sent() -> None:
    with pytest.raises(FrameError):
        encode({"type": "x" * 70_000})
    with pytest.raises(FrameError):
        encode({"type": "x"}, b"12345", 4)
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"type": "x", "n": float("nan")})
