"""Which addresses may be asked: http and https, on public networks unless the source says otherwise; never link-local
ones, where clouds hand out the keys of a machine.

A name is checked by what it resolves to, in the resolver that the connection uses: what was checked is what is
connected to, so a name that changes its address in between gains nothing.
"""

from __future__ import annotations

import re
import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from fyke.errors import FetchFailed
from fyke.model import Outcome

MEANT: Final = "a source that means it says fetch: {private_addresses: allow}"
HOSTS_REMEMBERED: Final = 4_096  # that may be asked, as they are written

Address = IPv4Address | IPv6Address

# As most addresses are: sent as they stand, for a signed link does not outlive being written anew.
_PLAIN: Final = re.compile(
    r"https?://[a-z0-9_](?:[a-z0-9._-]*[a-z0-9])?(?::\d{1,5})?(?:/[!$-;=?-\[\]_a-z|~]*)?", re.ASCII
)
_PARTS: Final = re.compile(r"([a-z][a-z0-9+.-]*):(?://([^/?#\\]*))?([^#]*)", re.IGNORECASE | re.DOTALL)
_TO_ESCAPE: Final = re.compile(r"[^!#-;=?-\[\]_a-z|~]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_PRIVATE_NAMES: Final = re.compile(r"(?:.+\.)?(?:localhost|localdomain|local|internal|home\.arpa)\.?", re.IGNORECASE)
# How C libraries read addresses: 127.1, 0x7f.1, 017700000001, 2130706433.
_NUMERIC: Final = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+))*\.?", re.IGNORECASE)
_V6_PUBLIC: Final = ip_network("2000::/3")
_V6_NOT_PUBLIC: Final = (ip_network("3fff::/20"), ip_network("2001:db8::/32"))
_NAT64: Final = ip_network("64:ff9b::/96")
_V4_COMPATIBLE: Final = ip_network("::/96")
_LINK_LOCAL: Final = (ip_network("169.254.0.0/16"), ip_network("fe80::/10"))
# Services of that kind that are not at a link-local address: of AWS over IPv6, of Alibaba Cloud.
_METADATA: Final = (ip_network("fd00:ec2::254/128"), ip_network("100.100.100.200/32"))


class NonPublic(Exception):
    """A name resolves to addresses only that may not be asked; `never`: not even with private_addresses: allow."""

    def __init__(self, host: str, *, never: bool = False) -> None:
        super().__init__(host)
        self.never = never


def read_address(text: str) -> URL:
    """The address as it goes on the wire: what a browser would escape is escaped, all else stays as it is.

    Raises:
        FetchFailed: error for what is no address, policy for another scheme than http and https.
    """
    if _PLAIN.fullmatch(text):
        return _with_port(URL(text, encoded=True), text)
    text = text.strip()
    if _CONTROL.search(text):
        raise _unreadable(text, "it holds a control character")
    found = _PARTS.fullmatch(text.partition("#")[0])
    if found is None:
        raise _unreadable(text, "it is not absolute")
    scheme, authority, rest = found[1].lower(), found[2] or "", found[3]
    if scheme not in {"http", "https"}:
        raise FetchFailed(Outcome.POLICY, f"{scheme}: is not asked, only http and https", evidence={"url": text[:200]})
    try:
        host = URL(f"{scheme}://{authority}/")
        if not host.raw_host:
            raise _unreadable(text, "it has no host")
        rest = _TO_ESCAPE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), rest)
        rest = rest if rest.startswith("/") else "/" + rest
        return _with_port(URL(f"{scheme}://{host.raw_authority}{rest}", encoded=True), text)
    except ValueError as error:
        raise _unreadable(text, str(error)) from None


def _with_port(url: URL, text: str) -> URL:
    try:
        if url.port:
            return url
    except ValueError:
        pass
    raise _unreadable(text, "its port is out of range")


@lru_cache(maxsize=HOSTS_REMEMBERED)
def check_host(host: str, *, private: bool = False) -> None:
    """Refuse a host that may not be asked as it is written; names are resolved later, by GuardedResolver.

    Args:
        private: the source allows private addresses.

    Raises:
        FetchFailed: outcome policy.
    """
    address = literal(host)
    if address is not None and is_metadata(address):
        raise _refused(host, "is a link-local address, or where a cloud tells its keys", never=True)
    if private:
        return
    if _PRIVATE_NAMES.fullmatch(host):
        raise _refused(host, "is a name of private networks")
    if address is not None and not is_public(address):
        raise _refused(host, "is not a public address")


def literal(host: str) -> Address | None:
    """The address that a host is written as, in any form that a resolver takes; None for a name."""
    if ":" in host:
        try:
            return ip_address(host.partition("%")[0])
        except ValueError:
            return IPv6Address("::")  # no address at all: never public
    if not _NUMERIC.fullmatch(host):
        return None
    try:
        return IPv4Address(socket.inet_aton(host.rstrip(".")))
    except OSError:
        return IPv4Address(0)


def is_public(address: Address) -> bool:
    """Whether the whole internet may be meant: not private, loopback, link-local, shared, multicast or reserved.

    IPv6 forms that carry an IPv4 address are judged by it.
    """
    if isinstance(address, IPv4Address):
        return address.is_global and not (address.is_multicast or address.is_reserved)
    inner = _carried(address)
    if inner is not None:
        return is_public(inner)
    return address.is_global and address in _V6_PUBLIC and not any(address in net for net in _V6_NOT_PUBLIC)


def is_metadata(address: Address) -> bool:
    """Whether it is link-local, or else where clouds tell machines their keys: no source is published there."""
    inner = _carried(address) if isinstance(address, IPv6Address) else None
    return any((inner or address) in net for net in (*_LINK_LOCAL, *_METADATA))


def _carried(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to."""
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and (address in _NAT64 or address in _V4_COMPATIBLE):
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return inner


class GuardedResolver(AbstractResolver):
    """Resolves names, and keeps only addresses that may be asked: public ones; with `private` all but metadata."""

    def __init__(self, *, private: bool = False) -> None:
        self._resolver, self._private = ThreadedResolver(), private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises:
        NonPublic: no address is left.
        """
        found = await self._resolver.resolve(host, port, family)
        kept = [one for one in found if self._may_be_asked(ip_address(one["host"].partition("%")[0]))]
        if found and not kept:
            raise NonPublic(host, never=self._private)
        return kept

    def _may_be_asked(self, address: Address) -> bool:
        return not is_metadata(address) if self._private else is_public(address)

    async def close(self) -> None:
        await self._resolver.close()


def refused_name(host: str, *, never: bool = False) -> FetchFailed:
    return _refused(host, f"resolves to {'link-local' if never else 'non-public'} addresses only", never=never)


def _refused(host: str, why: str, *, never: bool = False) -> FetchFailed:
    way = "it is not asked, also with fetch: {private_addresses: allow}" if never else MEANT
    return FetchFailed(Outcome.POLICY, f"{host} {why}; {way}", evidence={"host": host})


def _unreadable(text: str, why: str) -> FetchFailed:
    return FetchFailed(Outcome.ERROR, f"{text[:200]!r} is no address that can be asked: {why}")
