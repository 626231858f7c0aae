"""Splitting a watch's chunks into lines."""

import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netclaim.kube.lines import LineTooLong, split


async def _chunks(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def _lines(pieces: list[bytes], limit: int = 2**20) -> list[bytes]:
    return [line async for line in split(_chunks(pieces), limit=limit)]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 200), max_size=10))
async def test_lines_are_the_same_however_the_stream_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    """T22: a line may come in any number of pieces, and several lines in one."""
    stream = b"\n".join(parts)
    edges = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    pieces = [stream[start:end] for start, end in itertools.pairwise(edges)]

    assert await _lines(pieces) == [line for line in stream.split(b"\n") if line]


async def test_a_line_of_4_mib_in_small_chunks_is_one_line() -> None:
    """T22: a big object is not a broken stream."""
    line = b"x" * (4 * 2**20)
    pieces = [line[start : start + 8192] for start in range(0, len(line), 8192)]

    assert await _lines([*pieces, b"\n"], limit=16 * 2**20) == [line]


async def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    """T22."""
    with pytest.raises(LineTooLong):
        await _lines([b"x" * 100] * 20, limit=1000)
