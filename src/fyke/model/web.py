"""Requests and responses."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class Request(Struct, frozen=True):
    """One HTTP request. At most one of `form`, `json` and `body` is set."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    form: list[tuple[str, str]] | None = None
    json: Any = None
    body: bytes | None = None


class FetchPolicy(Struct, frozen=True):
    """Limits of one request. Times in ms, sizes in bytes."""

    user_agent: str = ""  # "": the fetcher's default
    headers: dict[str, str] = field(default_factory=dict)
    connect_timeout: int = 5_000
    read_timeout: int = 10_000
    total_timeout: int = 20_000
    max_body: int = 20_000_000
    max_redirects: int = 5
    private_addresses: bool = False
    proxy: str | None = None
    encoding: str | None = None  # forced by the source
    respect_robots: bool = True
    blocked_text: tuple[str, ...] = ()  # marks besides the built-in ones


class Response(Struct):
    """An answer whose body was read whole and within limits, whatever its status."""

    url: str  # final address, after redirects
    status: int
    headers: dict[str, str]  # names in lower case; repeated ones joined by ", "
    body: bytes
    text: str
    encoding: str = "utf-8"
    encoding_from: str = ""  # bom, utf-8, http, meta, detector, source
    replaced: int = 0  # characters that could not be decoded
    redirects: list[str] = field(default_factory=list)
    started_at: int = 0
    elapsed_ms: int = 0
