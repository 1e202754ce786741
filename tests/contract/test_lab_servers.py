"""Throw-away servers: ready when started, the same port and data after a kill, gone with whoever started them."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fyke.lab.servers import (
    MariaServer,
    PostgresServer,
    RedisCluster,
    RedisSentinel,
    RedisServer,
    ServerProcess,
    StartFailed,
)
from fyke.lab.servers.redis import FLAVOURS, Flavour, RedisRefused
from tests.servers import DATABASES, Servers

Own = Callable[..., RedisServer]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_what_redis_was_told_outlives_a_kill(flavour: Flavour, own_redis: Own) -> None:
    server = own_redis(flavour)
    port, pid = server.port, server.pid
    server.ask("SET", "written", "旗")
    server.kill()
    assert not server.running
    server.start()
    assert (server.port, server.ask("GET", "written")) == (port, "旗")
    assert server.pid != pid
    assert server.ask("CONFIG", "GET", "maxmemory-policy") == ["maxmemory-policy", "noeviction"]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_tail_of_the_file_can_be_cut_while_redis_is_down(flavour: Flavour, own_redis: Own) -> None:
    server = own_redis(flavour)
    server.ask("SET", "first", "kept")
    server.ask("SET", "second", "cut")
    with pytest.raises(ValueError, match="is running"):
        server.cut_tail(5)
    server.stop()
    assert server.cut_tail(5) == 5
    server.start()
    assert (server.ask("GET", "first"), server.ask("GET", "second")) == ("kept", None)


@pytest.mark.parametrize("kind", DATABASES)
def test_a_committed_row_outlives_a_kill_of_the_database(
    kind: str, own_postgres: Callable[..., PostgresServer], own_maria: Callable[..., MariaServer]
) -> None:
    server: PostgresServer | MariaServer
    server = own_maria() if kind == "mariadb" else own_postgres(int(kind.removeprefix("postgres-")))
    port = server.port
    server.create_database("kept")
    server.execute("CREATE TABLE t (n int)", "kept")
    server.execute("INSERT INTO t VALUES (7)", "kept")
    server.kill()
    server.start()
    assert (server.port, server.execute("SELECT n FROM t", "kept")) == (port, "7")


@pytest.mark.parametrize("kind", DATABASES)
def test_each_test_gets_an_empty_database(kind: str, fresh_database: Callable[[str], str], servers: Servers) -> None:
    first, second = fresh_database(kind), fresh_database(kind)
    name = first.rpartition("/")[2]
    servers.database(kind).execute("CREATE TABLE t (n int)", name)
    assert first != second
    here = "table_schema = database()" if kind == "mariadb" else "table_catalog = current_database()"
    count = f"SELECT count(*) FROM information_schema.tables WHERE table_name = 't' AND {here}"
    assert servers.database(kind).execute(count, name) == "1"
    assert servers.database(kind).execute(count, second.rpartition("/")[2]) == "0"


def test_mariadb_speaks_latin1_unless_it_is_told_otherwise(
    fresh_database: Callable[[str], str], servers: Servers
) -> None:
    name = fresh_database("mariadb").rpartition("/")[2]
    assert servers.maria().execute("SELECT @@character_set_database", name) == "latin1"


def test_a_frozen_server_takes_connections_and_answers_after_it_is_thawed(own_redis: Own) -> None:
    server = own_redis()
    server.freeze()
    stat, deadline = Path(f"/proc/{server.pid}/stat"), time.monotonic() + 10
    # The signal is sent; on a busy machine it is a moment until it is obeyed.
    while (state := stat.read_text().rpartition(")")[2].split()[0]) != "T":
        assert time.monotonic() < deadline, state
        time.sleep(0.01)
    server.thaw()
    assert server.ask("PING") == "PONG"
    server.freeze()
    server.stop()
    assert not server.running


def test_a_start_that_fails_shows_the_log(tmp_path: Path, servers: Servers) -> None:
    servers.require(RedisServer.missing("valkey-9"))
    server = RedisServer(tmp_path / "bad", options={"maxmemory-policy": "wrong"})
    with pytest.raises(StartFailed, match=r"(?s)ended at once.*maxmemory-policy"):
        server.start()
    assert not server.running


def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path, servers: Servers) -> None:
    servers.require(RedisServer.missing("valkey-9"))
    program = f"""
        import os
        from fyke.lab.servers import RedisServer
        server = RedisServer({str(tmp_path / "orphan")!r}).start()
        print(server.pid, flush=True)
        os.kill(os.getpid(), 9)
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True, check=False
    )
    pid, end = int(found.stdout), time.monotonic() + 20
    while _alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _alive(pid)


def test_a_cluster_serves_all_slots_and_refuses_two_in_one_command(tmp_path: Path, servers: Servers) -> None:
    servers.require(RedisServer.missing("valkey-9"))
    with RedisCluster(tmp_path / "cluster") as cluster:
        first = cluster.nodes[0]
        assert "cluster_slots_ok:16384" in first.ask("CLUSTER", "INFO")
        with pytest.raises(RedisRefused, match="CROSSSLOT"):
            first.ask("MGET", "a", "b")


def test_the_replica_takes_over_with_what_the_master_had(tmp_path: Path, servers: Servers) -> None:
    servers.require(RedisServer.missing("valkey-9"))
    with RedisSentinel(tmp_path / "sentinel") as group:
        old = group.master
        old.ask("SET", "kept", "yes")
        assert old.ask("WAIT", 1, 5000) == 1
        new = group.fail_over()
        assert new is group.master
        assert new is not old
        assert new.ask("GET", "kept") == "yes"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_what_is_missing_is_told_with_the_way_to_get_it() -> None:
    for kind in (RedisServer, PostgresServer, MariaServer):
        assert issubclass(kind, ServerProcess)
        assert kind.missing() == "" or "install" in kind.missing()
    assert "PostgreSQL 9 is not on this machine" in PostgresServer.missing(9)
