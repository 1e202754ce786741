"""Bodies: compressed in any way, cut off at the cap before they are large in memory."""

from __future__ import annotations

import functools
import gzip
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable

import brotli
import pytest

from fyke.errors import FetchFailed
from fyke.fetchers.body import MEMBERS, Progress, read_body

TEXT = "体育中心采购项目 ".encode() * 3_000
CAP = 1_000_000
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": functools.partial(brotli.compress, quality=1),
}


def stream(body: bytes, step: int = 1_000) -> Callable[[], Awaitable[bytes]]:
    chunks = iter([body[at : at + step] for at in range(0, len(body), step)])

    async def read() -> bytes:
        return next(chunks, b"")

    return read


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


async def body(
    data: bytes, coding: str | None = None, *, cap: int = CAP, step: int = 1_000, length: str | None = None
) -> bytes:
    return await read_body(stream(data, step), length, coding, cap, Progress())


CODINGS = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT),
    "GZIP": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    " deflate ": raw_deflate(TEXT),
    "br": brotli.compress(TEXT),
    "gzip, br": brotli.compress(gzip.compress(TEXT)),
    "identity": TEXT,
    "utf-8": TEXT,
    "": TEXT,
}


@pytest.mark.parametrize("step", [1, 7, 1_000, 10**9])
@pytest.mark.parametrize("coding", CODINGS)
async def test_each_coding_is_undone_however_it_is_cut_into_chunks(coding: str, step: int) -> None:
    assert await body(CODINGS[coding], coding, step=step) == TEXT


@pytest.mark.parametrize("step", [1, 50, 10**9])
async def test_gzip_of_several_members_and_padding_is_read_whole(step: int) -> None:
    data = b"".join(gzip.compress(TEXT[at : at + 10_000]) for at in range(0, len(TEXT), 10_000)) + b"\0" * 40
    assert await body(data, "gzip", step=step) == TEXT


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_an_empty_body_needs_no_decompressing(coding: str) -> None:
    assert await body(b"", coding) == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_a_bomb_is_cut_off_before_it_is_large(coding: str) -> None:
    bomb = PACK[coding](b"\0" * 50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(FetchFailed) as caught:
            await body(bomb, coding, step=10**9)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.outcome == "too_large"
    assert peak < 10 * CAP


async def test_a_bomb_within_a_bomb_is_cut_off() -> None:
    bomb = gzip.compress(gzip.compress(b"\0" * 50_000_000, 1))
    with pytest.raises(FetchFailed) as caught:
        await body(bomb, "gzip, gzip", step=10**9)
    assert caught.value.outcome == "too_large"


@pytest.mark.parametrize("coding", [None, "gzip", "deflate", "br"])
async def test_the_cap_is_exact(coding: str | None) -> None:
    pack = PACK[coding] if coding else bytes
    assert await body(pack(TEXT), coding, cap=len(TEXT)) == TEXT
    with pytest.raises(FetchFailed) as caught:
        await body(pack(TEXT), coding, cap=len(TEXT) - 1)
    assert caught.value.outcome == "too_large"


async def test_an_announced_length_over_the_cap_is_not_read_at_all() -> None:
    async def read() -> bytes:
        raise AssertionError("it was read")

    with pytest.raises(FetchFailed, match="1,000,001 bytes are announced"):
        await read_body(read, "1000001", None, CAP, Progress())


@pytest.mark.parametrize("length", ["-1", "x", "", "9" * 5_000, "٣"])
async def test_an_unreadable_length_does_no_harm(length: str) -> None:
    assert await body(TEXT, length=length) == TEXT


@pytest.mark.parametrize(
    ("coding", "outcome"), [("gzip", "error"), ("br", "error"), ("zstd", "error"), ("compress", "error")]
)
async def test_what_does_not_decompress_is_an_error(coding: str, outcome: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        await body(b"<html>plain, whatever the header says</html>" * 10, coding)
    assert caught.value.outcome == outcome


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_a_compressed_body_that_ends_too_early_is_no_answer(coding: str) -> None:
    data = CODINGS[coding]
    with pytest.raises(FetchFailed) as caught:
        await body(data[:-5], coding)
    assert caught.value.outcome == "network"


async def test_endless_members_and_endless_codings_are_refused() -> None:
    with pytest.raises(FetchFailed, match="members"):
        await body(gzip.compress(b"") * (MEMBERS + 1), "gzip", step=10**9)
    with pytest.raises(FetchFailed, match="times over"):
        await body(TEXT, "gzip, gzip, gzip")


async def test_the_bytes_that_came_are_counted() -> None:
    progress = Progress()
    with pytest.raises(FetchFailed):
        await read_body(stream(TEXT), None, None, 10_000, progress)
    assert 10_000 < progress.received <= 11_000
