"""A small TCP relay between client and server, that can cut, refuse, freeze, delay, or swallow one reply.

What it lets through it does not change. For tests and for `fyke lab chaos`: a server behind it can vanish for its
clients while it lives, and an answer can be lost after its effect.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

from fyke.lab.servers.process import free_port

CHUNK: Final = 2**16
REQUEST_KEPT: Final = 2**16
CONNECT_S: Final = 5.0
RESET: Final = struct.pack("ii", 1, 0)

Wanted = Callable[[bytes, bytes], bool]


class _Link:
    """One client's connection, and ours to the server for it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client, self.server = client, server
        self.request = b""  # what the client has sent since the last answer
        self.swallowing = False

    def reset(self) -> None:
        for writer in (self.client, self.server):
            reset(writer)


class Relay:
    """Listens on the loopback and passes on to one server. Make it with `open_relay`; close it at the end."""

    def __init__(self, to_port: int, to_host: str = "127.0.0.1") -> None:
        self._to = (to_host, to_port)
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._waiting: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._delay = 0.0
        self._swallow: tuple[Wanted, bool, asyncio.Future[bytes]] | None = None
        self.port = 0
        self.accepted = 0
        self.cut_connections = 0

    @property
    def connections(self) -> int:
        return len(self._links)

    async def listen(self, port: int = 0) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", port or self.port, reuse_address=True)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    def through(self, url: str) -> str:
        """The address with this relay in the place of its host and port."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}"))

    def cut(self) -> int:
        """Reset all connections that stand now; new ones are taken. How many were cut."""
        links = list(self._links)
        for link in links:
            link.reset()
        for writer in list(self._waiting):
            reset(writer)
        self.cut_connections += len(links)
        return len(links)

    async def refuse(self) -> None:
        """Cut all, and refuse new connections until `heal`."""
        await self._stop_listening()
        self.cut()

    def freeze(self) -> None:
        """Take connections and forward nothing until `heal`; what was sent meanwhile is forwarded then."""
        self._flowing.clear()

    def delay(self, seconds: float) -> None:
        """From now on whatever passes waits this long, in each direction."""
        self._delay = seconds

    def swallow(self, wanted: Wanted | None = None, *, cut: bool = False) -> asyncio.Future[bytes]:
        """Swallow the next reply: what the server sends after a request, until the next request on that connection.

        Args:
            wanted: asked with the request and the beginning of its reply; the first reply that it wants is taken.
            cut: also reset that connection, so that the client knows at once that it knows nothing.

        Returns:
            The beginning of the reply, once it has been swallowed.
        """
        if self._swallow is not None and not self._swallow[2].done():
            self._swallow[2].cancel()
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._swallow = (wanted or (lambda _request, _reply: True), cut, future)
        return future

    async def heal(self) -> None:
        """Everything passes again."""
        self._delay = 0.0
        if self._swallow is not None:
            self._swallow[2].cancel()
            self._swallow = None
        self._flowing.set()
        if self._listener is None:
            await self.listen(self.port)

    async def close(self) -> None:
        await self._stop_listening()
        self.cut()
        self._flowing.set()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None  # asyncio runs this as a task
        self._tasks.add(task)
        self._waiting.add(writer)
        try:
            await self._flowing.wait()
            if writer.is_closing():
                return
            try:
                from_server, to_server = await asyncio.wait_for(asyncio.open_connection(*self._to), CONNECT_S)
            except (OSError, TimeoutError):
                reset(writer)
                return
            await self._pass(_Link(writer, to_server), reader, from_server)
        except asyncio.CancelledError:
            reset(writer)  # we are being closed
        finally:
            self._waiting.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _pass(self, link: _Link, from_client: asyncio.StreamReader, from_server: asyncio.StreamReader) -> None:
        self._links.add(link)
        self._waiting.discard(link.client)
        try:
            pumps = [
                asyncio.create_task(self._pump(from_client, link.server, link, asked=True)),
                asyncio.create_task(self._pump(from_server, link.client, link, asked=False)),
            ]
            try:
                # A side that ends ends both: neither Redis nor a database uses half a connection.
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self._links.discard(link)
            link.server.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link, *, asked: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                await self._flowing.wait()
                if self._delay:
                    await asyncio.sleep(self._delay)
                if asked:
                    link.request, link.swallowing = (link.request + data)[-REQUEST_KEPT:], False
                elif self._takes(link, data):
                    continue
                writer.write(data)
                await writer.drain()

    def _takes(self, link: _Link, reply: bytes) -> bool:
        """Whether this part of a reply is swallowed."""
        request, link.request = link.request, b""
        if link.swallowing or self._swallow is None or not request:
            return link.swallowing
        wanted, cut, future = self._swallow
        if not wanted(request, reply):
            return False
        self._swallow = None
        link.swallowing = True
        if not future.done():
            future.set_result(reply)
        if cut:
            link.reset()
        return True


async def open_relay(to_port: int, to_host: str = "127.0.0.1") -> Relay:
    """A relay to a server, listening at a free port of the loopback."""
    # Of ports that no outgoing connection is given: while it refuses, a client must not meet itself.
    return await Relay(to_port, to_host).listen(free_port())


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side is told that it was broken off."""
    found = writer.get_extra_info("socket")
    with suppress(OSError, AttributeError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
