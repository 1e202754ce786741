"""The main job on four real sites: saved pages under their own addresses, real sources, `fyke run --once` in a process.

Skipped without ../shared/realdata; tests of our own small pages with the same hazards stand in tests/unit/sources.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fyke.lab.replay import serve_replay

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "realdata"
HOSTS = ("www.ggzy.gov.cn", "www.ccgp.gov.cn", "www.dfa66.com", "coding.monkeydom.de")

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the saved pages are not beside this checkout")


def make_folder(folder: Path) -> None:
    """The four sources as they are; only the waits are shorter, for nobody is asked."""
    (folder / "sources").mkdir()
    for source in (ROOT / "examples" / "real").glob("*.yaml"):
        shutil.copy(source, folder / "sources")
    lanes = "".join(f'[lanes."{host}"]\ndelay = "0s"\njitter = "0s"\nconcurrency = 8\n' for host in HOSTS)
    (folder / "fyke.toml").write_text(f'[attempts]\ndelays = ["50ms", "100ms"]\n{lanes}', encoding="utf-8")


def run_once(folder: Path, replay: str) -> tuple[int, Mapping[str, Any]]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FYKE_")}
    environ["FYKE_FETCH_REPLAY"] = replay
    done = subprocess.run(
        [sys.executable, "-m", "fyke", "run", "--once", "--wait", "60s", "--json"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


async def test_four_real_sites_end_with_the_right_rows(tmp_path: Path) -> None:
    make_folder(tmp_path)
    async with await serve_replay(ROOT / "examples" / "real" / "replay.tsv", root=REAL) as replay:
        code, report = await asyncio.to_thread(run_once, tmp_path, replay.url)
        counts = {row["source_id"]: row for row in report["sources"]}
        assert {name: (row["listed"], row["stored"], row["dead"], row["open"]) for name, row in counts.items()} == {
            "ggzy": (20, 1, 19, 0),
            "ccgp": (1, 1, 0, 0),
            "dfa66": (10, 10, 0, 0),
            "monkeydom": (13, 13, 0, 0),
        }
        # 19 details were not saved: they answer 404 and are dead letters, which wants a person's attention.
        assert code == 1
        before = replay.hits()["page"]
        code, report = await asyncio.to_thread(run_once, tmp_path, replay.url)
        details = {url: n - before.get(url, 0) for url, n in replay.hits()["page"].items() if "/html/" in url}
        assert not any(details.values()), "a stored detail was fetched again"
    with sqlite3.connect(tmp_path / "fyke.db") as connection:
        connection.row_factory = sqlite3.Row
        check_rows(connection)


def check_rows(connection: sqlite3.Connection) -> None:
    """The values of ../shared/realdata/INDEX.tsv."""
    tables = dict(connection.execute("SELECT name, table_name FROM source").fetchall())
    ggzy = connection.execute(
        f"SELECT * FROM {tables['ggzy']} WHERE _scope = 'ggzy.gov.cn'"  # names come from the ledger
    ).fetchone()
    assert ggzy["_key"] == "003346ed9dd8b0494c7aa507db162810f636"
    assert ggzy["title"] == "德清县体育中心（县少年儿童体育学校）的少体校学生就学、训练、参赛等用车服务采购项目合同"
    assert ggzy["published"].startswith("2026-03-17")
    assert ggzy["project_no"] == "330521253680050000027-ZJXCXZF-2025-JC57"
    assert ggzy["buyer"] == "德清县体育中心（德清县少年儿童体育学校）"
    assert ggzy["supplier"] == "湖州新国旅外事旅游汽车服务有限公司"
    assert ggzy["amount"] == 0
    assert ggzy["signed"].startswith("2026-03-17T00:32")
    ccgp = connection.execute(f"SELECT * FROM {tables['ccgp']} WHERE _scope LIKE 'ccgp%'").fetchone()
    assert ccgp["title"].startswith("清镇市2025年农村综合改革转移支付预算")
    assert ccgp["published"].startswith("2025-06-27T17:52")
    assert ccgp["buyer"] == "清镇市麦格苗族布依族乡人民政府"
    amounts = [ccgp[name] for name in ccgp.keys() if isinstance(ccgp[name], int | float) and not name.startswith("_")]  # noqa: SIM118
    assert 569_800 in amounts
    in_order = "JOIN sighting s ON s.item_id = _item_id ORDER BY s.position"
    funds = connection.execute(f"SELECT * FROM {tables['dfa66']} {in_order}").fetchall()
    assert (len(funds), funds[0]["_key"], funds[-1]["_key"]) == (
        10,
        "b51327b18dff4d8aa163774fcd9240e6",
        "3319672aa166452389171d8cebd0167d",
    )
    assert funds[0]["title"] == "东方阿尔法优势产业混合型发起式证券投资基金可投资于科创板股票的公告"
    assert funds[-1]["published"].startswith("2019-11-16")
    posts = connection.execute(f"SELECT * FROM {tables['monkeydom']} {in_order}").fetchall()
    assert (len(posts), posts[0]["_key"], posts[-1]["_key"]) == (
        13,
        "cocoa-dom:tcmportmapper",
        "cocoa-dom:games-icloud-and-gamecenter",
    )
    assert posts[0]["_url"] == "https://github.com/monkeydom/TCMPortMapper"
