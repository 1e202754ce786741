"""A connection that was reset a moment ago is an outage, however the loop or the driver says it: nobody ends for it."""

import pytest

from fyke.db.server_errors import Kind, kind_of
from fyke.errors import TransientError
from fyke.frontiers.redis.address import read_address
from fyke.frontiers.redis.connection import Connection

UVLOOP = "unable to perform operation on <TCPTransport closed=True reading=False 0x56>; the handler is closed"
ASYNCMY = "Transport does not expose socket instance"


@pytest.mark.parametrize("text", [UVLOOP, ASYNCMY])
def test_a_database_connection_that_was_reset_is_lost(text: str) -> None:
    assert kind_of(RuntimeError(text)) is Kind.LOST


def test_another_mistake_of_the_program_is_none_of_the_database() -> None:
    assert kind_of(RuntimeError("no running event loop")) is None


async def test_a_connection_to_redis_that_was_reset_passes() -> None:
    connection = Connection(read_address("redis://127.0.0.1:1/0"))
    with pytest.raises(TransientError, match="the connection was reset"):
        async with connection.translated():
            raise RuntimeError(UVLOOP)
    with pytest.raises(RuntimeError, match="no running event loop"):
        async with connection.translated():
            raise RuntimeError("no running event loop")
    await connection.close()
