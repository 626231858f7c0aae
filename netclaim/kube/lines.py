"""Splitting a stream of chunks into lines."""

from __future__ import annotations

from collections.abc import AsyncIterator

MAX_LINE = 16 * 2**20


class LineTooLong(Exception):  # noqa: N818 - names the event
    """A line passed the limit before it ended."""


async def split(chunks: AsyncIterator[bytes], *, limit: int = MAX_LINE) -> AsyncIterator[bytes]:
    """Yield each non-empty line without its newline. Work is linear in the bytes, however they are cut.

    A rest without newline at the end of the stream is yielded too: whoever parses it finds that it is cut off.

    Raises:
        LineTooLong: a line of more than `limit` bytes.
    """
    pending: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pending.append(first)
        size += len(first)
        for part in others:
            if size:
                yield pending[0] if len(pending) == 1 else b"".join(pending)
            pending, size = [part], len(part)
        if size > limit:
            raise LineTooLong(f"a line of more than {limit} bytes")
    if size:
        yield b"".join(pending)
