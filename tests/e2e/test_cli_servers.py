"""What people are told of servers that are wrong, full or strange, and of processes that begin and end."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from fyke.app import open_desk, open_stores
from fyke.app.doctor import Check, examine
from fyke.app.overview import look
from fyke.app.serving import Begun, serving
from fyke.app.strangers import who_answers
from fyke.cli import run
from fyke.errors import LedgerClosed, TransientError, UsageError
from fyke.frontiers.redis.checks import COMMANDS, FILTER_COMMANDS
from fyke.frontiers.redis.checks import examine as examine_redis
from fyke.frontiers.redis.known_scripts import BLOOM_ADD, BLOOM_HITS, EXACT_ADD, EXACT_HITS, EXACT_VOID
from fyke.lab.servers import RedisServer
from fyke.ledgers.sql import SqlLedger
from fyke.pipeline.heart import ENDED
from fyke.settings import Settings, load_settings
from tests.servers import Servers

OwnRedis = Callable[..., RedisServer]


def settings_of(folder: Path, frontier: str = "sql", name: str = "fyke.db", **environ: str) -> Settings:
    given = {"FYKE_LEDGER": f"sqlite:///{folder / name}", "FYKE_FRONTIER": frontier} | environ
    return load_settings(folder, given).settings


async def made(settings: Settings) -> Settings:
    async with open_stores(settings):
        return settings


async def doctor(settings: Settings) -> dict[str, Check]:
    return {check.name: check async for check in examine(settings)}


# --- Redis: another ledger's, full, no such database ---


async def test_doctor_fails_where_the_namespace_serves_another_ledger_and_says_what_to_do(
    tmp_path: Path, fresh_redis: Callable[..., str]
) -> None:
    url = fresh_redis()
    await made(settings_of(tmp_path, url))
    mine = await made(settings_of(tmp_path, name="mine.db"))
    found = await doctor(replace(mine, frontier=url))
    assert found["frontier"].level == "fail"
    assert "serves ledger" in found["frontier"].text
    assert "redis.take_over=true" in found["frontier"].hint
    assert [check.name for check in found.values() if check.level == "fail"] == ["frontier"]
    with pytest.raises(LedgerClosed):
        await made(replace(mine, frontier=url))


async def test_doctor_says_each_fault_once_with_one_hint(tmp_path: Path) -> None:
    found = await doctor(await made(settings_of(tmp_path)))
    away = replace(settings_of(tmp_path), frontier="redis://127.0.0.1:1/0")
    found = await doctor(away)
    check = found["frontier"]
    assert check.text.startswith("redis://127.0.0.1:1/0 cannot be reached")
    assert check.hint == "is it running, and is the address right?"
    wrong = await doctor(replace(away, redis=replace(away.redis, namespace="a b")))
    assert wrong["frontier"].text == "not a namespace: 'a b'"
    assert wrong["frontier"].hint.startswith("1 to 64 of the letters")


async def test_a_full_memory_is_told_by_doctor_status_and_logs_with_what_to_change(
    tmp_path: Path,
    own_redis: OwnRedis,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = own_redis()
    settings = await made(settings_of(tmp_path, server.url))
    server.ask("CONFIG", "SET", "maxmemory", 1_000_000)
    found = await doctor(settings)
    for name in ("memory", "probe"):
        assert found[name].level in ("warn", "fail")
        assert "raise maxmemory" in found[name].hint
    async with open_desk(settings) as desk:
        assert any("memory is full" in note for note in (await look(desk)).notes)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FYKE_FRONTIER", server.url)
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["status"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "MB" in line]
    assert "Z WARNING the frontier at redis://" in line
    server.ask("CONFIG", "SET", "maxmemory", 0)
    async with open_desk(settings) as desk:
        assert not any("memory is full" in note for note in (await look(desk)).notes)


def test_each_command_of_the_known_filter_is_checked() -> None:
    asked = {words[0] for words in (*COMMANDS, *FILTER_COMMANDS)}
    used = set()
    for script in (EXACT_ADD, EXACT_HITS, EXACT_VOID, BLOOM_ADD, BLOOM_HITS):
        used |= {part.partition("'")[0] for part in script.text.split("call('")[1:]}
    assert {"SMISMEMBER", "SETBIT"} <= used
    assert used <= asked


async def test_a_user_who_may_not_use_the_known_filter_learns_it_where_it_is_on(own_redis: OwnRedis) -> None:
    server = own_redis()
    server.ask("ACL", "SETUSER", "few", "on", ">secret", "~{fyke:*", "+@all", "-smismember", "-setbit")
    url = server.url.replace("redis://", "redis://few:secret@")
    for known_filter, level in ((False, "ok"), (True, "fail")):
        found = await examine_redis(url, namespace="test", shards=1, known_filter=known_filter)
        (check,) = [one for one in found if one.name == "commands"]
        assert check.level == level
    assert "+smismember +setbit" in check.hint


async def test_a_database_that_redis_does_not_have_is_a_mistake(
    tmp_path: Path, fresh_redis: Callable[..., str]
) -> None:
    with pytest.raises(UsageError, match="has no database 99") as error:
        await made(settings_of(tmp_path, fresh_redis().rpartition("/")[0] + "/99"))
    assert error.value.field == "frontier"


# --- Somebody else answers there ---


async def http_server(port: int) -> web.AppRunner:
    runner = web.AppRunner(web.Application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def test_a_web_server_at_the_address_is_named(tmp_path: Path) -> None:
    port = free_port()
    runner = await http_server(port)
    try:
        for setting, url, expected in (
            ("frontier", f"redis://127.0.0.1:{port}/0", "Redis"),
            ("ledger", f"postgresql://u:p@127.0.0.1:{port}/d", "PostgreSQL"),
            ("ledger", f"mysql://u:p@127.0.0.1:{port}/d", "MySQL or MariaDB"),
        ):
            text = f"an HTTP server answers at 127.0.0.1:{port}, and {expected} is expected there"
            with pytest.raises(UsageError, match=text):
                await made(settings_of(tmp_path, **{f"FYKE_{setting.upper()}": url}))
    finally:
        await runner.cleanup()


async def test_servers_that_are_taken_for_each_other_are_named(tmp_path: Path, servers: Servers) -> None:
    ports = {"redis": servers.redis().port, "postgres": servers.postgres().port, "mysql": servers.maria().port}
    for kind, port in ports.items():
        assert await who_answers("127.0.0.1", port) == kind
    assert await who_answers("127.0.0.1", free_port()) == ""
    with pytest.raises(UsageError, match=r"PostgreSQL answers at .* Redis is expected"):
        await made(settings_of(tmp_path, f"redis://127.0.0.1:{ports['postgres']}/0"))
    with pytest.raises(UsageError, match=r"Redis answers at .* PostgreSQL is expected"):
        await made(settings_of(tmp_path, FYKE_LEDGER=f"postgresql://u:p@127.0.0.1:{ports['redis']}/d"))
    with pytest.raises(UsageError, match=r"PostgreSQL answers at .* MySQL or MariaDB is expected"):
        await made(settings_of(tmp_path, FYKE_LEDGER=f"mysql://u:p@127.0.0.1:{ports['postgres']}/d"))


async def test_a_ledger_that_goes_away_at_the_start_is_named_and_not_the_frontier(
    tmp_path: Path, fresh_redis: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_: SqlLedger) -> tuple[str, int]:
        raise TransientError("the database is gone")

    monkeypatch.setattr(SqlLedger, "identity", away)
    for frontier in ("sql", fresh_redis()):
        with pytest.raises(TransientError, match=r"^sqlite:///.* cannot be used: the database is gone"):
            await made(settings_of(tmp_path, frontier))


# --- Options and first starts ---


def test_a_slip_in_an_option_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["worker", "--pool", "txt"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("fyke: --pool: 'txt' is none of text, render; did you mean 'text'?")
    assert "worker.pool" not in told


async def test_the_first_start_on_mariadb_is_silent(
    fresh_database: Callable[[str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await made(settings_of(tmp_path, FYKE_LEDGER=fresh_database("mariadb")))
        logging.getLogger("asyncmy").warning("what else it says")
    assert [record.getMessage() for record in caplog.records] == ["what else it says"]


# --- Processes that serve ---


async def test_a_role_says_in_one_line_what_begins_and_vanishes_from_status_when_it_ends(
    tmp_path: Path, fresh_redis: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(tmp_path, fresh_redis())
    with caplog.at_level(logging.INFO, logger="fyke"):
        async with serving(settings, "worker") as (stores, begun):
            await begun.beating("supervisor")[1]()
            async with open_desk(settings) as desk:
                assert [row.pool for row in (await look(desk)).workers] == ["supervisor"]
    (line,) = [record.getMessage() for record in caplog.records if record.name == "fyke.start"]
    assert line.startswith("fyke worker ")
    for part in (f"ledger {settings.ledger}", "frontier redis://", "1 process(es) of pool text", "0 source(s)"):
        assert part in line
    async with open_desk(settings) as desk:
        now = await desk.ledger.now()
        assert (await look(desk)).workers == []
        (row,) = await desk.ledger.workers(since=now - 60_000)
    assert row.stage["process"][ENDED] == 1
    assert isinstance(stores.ledger, SqlLedger)


async def test_an_end_without_a_ledger_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_stores(settings_of(tmp_path)) as stores:
        begun = Begun(stores)
        begun.beating("scheduler")

        async def away(*_: Any) -> None:
            raise TransientError("away")

        monkeypatch.setattr(SqlLedger, "beat", away)
        await begun.end()


async def test_an_outage_turns_readiness_red_and_liveness_stays_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCENARIOS 7."""
    port = free_port()
    settings = settings_of(tmp_path, FYKE_HEALTH_PORT=str(port))
    monkeypatch.setattr("fyke.app.health.FRESH_S", 0.0)

    async def ask(session: aiohttp.ClientSession) -> tuple[int, int, dict[str, str]]:
        async with session.get(f"http://127.0.0.1:{port}/healthz") as alive:
            pass
        async with session.get(f"http://127.0.0.1:{port}/readyz") as ready:
            found: dict[str, str] = (await ready.json())["away"]
            return alive.status, ready.status, found

    async def away(_: SqlLedger) -> tuple[str, int]:
        raise TransientError("the ledger is gone")

    async with serving(settings, "scheduler"), aiohttp.ClientSession() as session:
        assert await ask(session) == (200, 200, {})
        with monkeypatch.context() as outage:
            outage.setattr(SqlLedger, "identity", away)
            assert await ask(session) == (200, 503, {"ledger": "the ledger is gone"})
        assert await ask(session) == (200, 200, {})
        with pytest.raises(UsageError, match=f"127.0.0.1:{port} cannot be used"):
            async with serving(settings, "worker"):
                pass
