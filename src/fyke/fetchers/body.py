"""Bodies are read as a stream, decompressed as they come, and cut off at the cap, before and after decompression.

Nothing that a site sends can make a body larger in memory than the cap (bombs included).
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import brotli

from fyke.errors import FetchFailed
from fyke.model import Outcome

ACCEPTED: Final = "gzip, deflate, br"
# Each member of a gzip stream costs a copy of what follows it in the chunk.
MEMBERS: Final = 100
CODINGS: Final = 2
# Codings of the web that we never ask for. Anything else unknown ("utf-8", "none") is a site's slip and means plain.
_NOT_ASKED: Final = frozenset({"zstd", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip"})


class Progress:
    """How far a request came; it is the evidence when it fails."""

    __slots__ = ("phase", "received", "status")

    def __init__(self) -> None:
        self.phase, self.status, self.received = "connect", 0, 0


class Decoder(Protocol):
    def feed(self, data: bytes, limit: int) -> bytes:
        """What `data` decompresses to, cut off soon after `limit` bytes."""
        ...

    def whole(self) -> bool:
        """Whether the stream came to its end."""
        ...


class _Zlib:
    """gzip (also of several members, as some servers send) and deflate (with and without its header)."""

    def __init__(self, coding: str) -> None:
        self._gzip = coding == "gzip"
        self._inflate = zlib.decompressobj(31) if self._gzip else None
        self._members = 1
        self._held = b""

    def feed(self, data: bytes, limit: int) -> bytes:
        if self._inflate is None:
            self._held += data
            if len(self._held) < 2:
                return b""
            data, self._held = self._held, b""
            wrapped = data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(15 if wrapped else -15)
        out = self._inflate.decompress(data, limit)
        parts = [out]
        limit -= len(out)
        while self._gzip and self._inflate.eof and limit > 0:
            rest = self._inflate.unused_data
            if not rest.startswith(b"\x1f"):  # padding after the end
                break
            self._members += 1
            if self._members > MEMBERS:
                raise zlib.error(f"more than {MEMBERS} members")
            self._inflate = zlib.decompressobj(31)
            parts.append(self._inflate.decompress(rest, limit))
            limit -= len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def whole(self) -> bool:
        return self._inflate is not None and self._inflate.eof


class _Brotli:
    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    def feed(self, data: bytes, limit: int) -> bytes:
        out: bytes = self._decompressor.process(data, output_buffer_limit=limit)
        return out

    def whole(self) -> bool:
        return bool(self._decompressor.is_finished())


def decoders(header: str) -> list[Decoder]:
    """For a Content-Encoding header, in the order in which they are applied to the body.

    Raises:
        FetchFailed: a coding that was not asked for, or more of them than are borne.
    """
    found: list[Decoder] = []
    for name in reversed(header.lower().split(",")):
        coding = name.strip().removeprefix("x-")
        if coding in {"gzip", "deflate"}:
            found.append(_Zlib(coding))
        elif coding == "br":
            found.append(_Brotli())
        elif name.strip() in _NOT_ASKED:
            raise FetchFailed(Outcome.ERROR, f"the answer is compressed as {coding}, which was not asked for")
    if len(found) > CODINGS:
        raise FetchFailed(Outcome.ERROR, f"the answer is compressed {len(found)} times over")
    return found


async def read_body(
    read: Callable[[], Awaitable[bytes]], length: str | None, coding: str | None, cap: int, progress: Progress
) -> bytes:
    """Read a body whole.

    Args:
        read: the next bytes as they come, b"" at the end.
        length, coding: the headers Content-Length and Content-Encoding.
        cap: of what is received, and of what it decompresses to.

    Raises:
        FetchFailed: too_large; error where it does not decompress; network where it ends too early.
    """
    if length is not None and len(length) < 20 and length.isdecimal() and int(length) > cap:
        raise _too_large(f"{int(length):,} bytes are announced", cap)
    chain = decoders(coding) if coding else []
    parts: list[bytes] = []
    size = 0
    while data := await read():
        progress.received += len(data)
        if progress.received > cap:
            raise _too_large(f"more than {cap:,} bytes came", cap)
        for decoder in chain:
            data = _feed(decoder, data, cap - size + 1)
            if len(data) > cap - size:
                raise _too_large(f"{progress.received:,} bytes decompress to more than {cap:,}", cap)
        size += len(data)
        parts.append(data)
    if chain and progress.received and not all(decoder.whole() for decoder in chain):
        raise FetchFailed(Outcome.NETWORK, "the compressed answer ends too early")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _feed(decoder: Decoder, data: bytes, limit: int) -> bytes:
    try:
        return decoder.feed(data, limit)
    except (zlib.error, brotli.error) as error:
        raise FetchFailed(Outcome.ERROR, f"the answer does not decompress: {error}") from None


def _too_large(what: str, cap: int) -> FetchFailed:
    return FetchFailed(Outcome.TOO_LARGE, f"{what}; the limit is {cap:,} bytes")
