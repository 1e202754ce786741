"""The relay between client and server: what it lets through is unchanged, what it takes is what was asked for."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fyke.lab.relay import Relay, open_relay

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
# Far more than anything here takes: a broken relay must end the test, not hang it.
ENDS_S = 20
# How long nothing may come where nothing must come.
SILENCE_S = 0.1


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    """A relay to a server that answers each line with `<line>!`; close it after all connections."""
    talking: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        talking.add(task)
        try:
            while line := await reader.readline():
                writer.write(line.strip() + b"!\n")
        except ConnectionError:
            pass
        finally:
            talking.discard(task)
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=2**22)
    async with asyncio.timeout(ENDS_S), await open_relay(server.sockets[0].getsockname()[1]) as found:
        yield found
    server.close()
    await asyncio.gather(*talking, return_exceptions=True)


async def connect(relay: Relay) -> Ends:
    return await asyncio.open_connection("127.0.0.1", relay.port)


async def ask(ends: Ends, text: bytes) -> bytes:
    ends[1].write(text + b"\n")
    return (await ends[0].readline()).strip()


async def is_silent(ends: Ends) -> bool:
    try:
        return await asyncio.wait_for(ends[0].read(1), SILENCE_S) is None
    except TimeoutError:
        return True


async def test_what_passes_is_not_changed(relay: Relay) -> None:
    ends = await connect(relay)
    large = b"x" * 1_000_000
    ends[1].write(large + b"\n")
    assert await ends[0].readexactly(len(large) + 2) == large + b"!\n"
    assert relay.connections == 1
    ends[1].close()


async def test_a_cut_resets_what_stands_and_takes_new_connections(relay: Relay) -> None:
    ends = await connect(relay)
    assert await ask(ends, b"one") == b"one!"
    assert relay.cut() == 1
    with pytest.raises(ConnectionResetError):
        await ends[0].read()
    again = await connect(relay)
    assert await ask(again, b"two") == b"two!"
    again[1].close()


async def test_refusing_cuts_and_takes_nobody_until_it_is_healed(relay: Relay) -> None:
    ends, port = await connect(relay), relay.port
    assert await ask(ends, b"one") == b"one!"
    await relay.refuse()
    with pytest.raises(ConnectionResetError):
        await ends[0].read()
    with pytest.raises(ConnectionRefusedError):
        await connect(relay)
    await relay.heal()
    assert relay.port == port
    again = await connect(relay)
    assert await ask(again, b"two") == b"two!"
    again[1].close()


async def test_frozen_it_takes_connections_and_forwards_what_was_sent_afterwards(relay: Relay) -> None:
    old = await connect(relay)
    assert await ask(old, b"one") == b"one!"
    relay.freeze()
    new = await connect(relay)
    for ends in (old, new):
        ends[1].write(b"kept\n")
        assert await is_silent(ends)
    await relay.heal()
    for ends in (old, new):
        assert await ends[0].readline() == b"kept!\n"
        ends[1].close()


async def test_exactly_one_reply_is_swallowed_and_the_server_has_done_its_work(relay: Relay) -> None:
    ends = await connect(relay)
    swallowed = relay.swallow()
    ends[1].write(b"first\n")
    assert await swallowed == b"first!\n"
    assert await is_silent(ends)
    assert await ask(ends, b"second") == b"second!"
    assert await ask(ends, b"third") == b"third!"
    ends[1].close()


async def test_only_the_reply_that_is_wanted_is_swallowed(relay: Relay) -> None:
    ends, other = await connect(relay), await connect(relay)
    swallowed = relay.swallow(lambda request, reply: request.startswith(b"lease") and reply.endswith(b"!\n"))
    assert await ask(ends, b"offer") == b"offer!"
    assert await ask(other, b"ack") == b"ack!"
    assert not swallowed.done()
    ends[1].write(b"lease\n")
    assert await swallowed == b"lease!\n"
    assert await ask(other, b"lease") == b"lease!"
    ends[1].close()
    other[1].close()


async def test_a_swallowed_reply_can_end_its_connection(relay: Relay) -> None:
    ends = await connect(relay)
    swallowed = relay.swallow(cut=True)
    ends[1].write(b"first\n")
    assert await swallowed == b"first!\n"
    with pytest.raises(ConnectionResetError):
        await ends[0].read()


async def test_healing_forgets_a_swallow_that_has_not_happened(relay: Relay) -> None:
    ends = await connect(relay)
    swallowed = relay.swallow()
    await relay.heal()
    assert swallowed.cancelled()
    assert await ask(ends, b"first") == b"first!"
    ends[1].close()


async def test_a_server_that_is_down_resets_the_client() -> None:
    gone = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = gone.sockets[0].getsockname()[1]
    gone.close()
    await gone.wait_closed()
    async with asyncio.timeout(ENDS_S), await open_relay(port) as relay:
        ends = await connect(relay)
        with pytest.raises(ConnectionResetError):
            await ends[0].read()


async def test_a_delay_holds_back_each_direction(relay: Relay) -> None:
    ends, loop = await connect(relay), asyncio.get_running_loop()
    relay.delay(0.05)
    began = loop.time()
    assert await ask(ends, b"late") == b"late!"
    assert loop.time() - began >= 0.1
    ends[1].close()


def test_an_address_keeps_all_but_its_place() -> None:
    relay = Relay(1)
    relay.port = 5
    assert relay.through("redis://:pw@db.example:6379/3?a=b") == "redis://:pw@127.0.0.1:5/3?a=b"
    assert relay.through("postgresql://127.0.0.1/fyke") == "postgresql://127.0.0.1:5/fyke"
