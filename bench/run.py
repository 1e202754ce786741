"""`make bench`: speed and memory of the main job, with the machine they were taken on. Asserts nothing.

Each figure comes from real processes: a lab site, `fyke run --once`, `fyke run`. `--json` prints them for programs,
`--quick` takes fewer pages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bare import bare_loop
from known import known_entries

SOURCE = """\
id: bench
schedule: {{cron: ["0 0 1 1 *"]}}
fetch: {{politeness: {{delay: 0s, jitter: 0s, concurrency: {slots}}}, private_addresses: allow}}
listing:
  request: {{url: "{url}/list/{{page}}"}}
  pages: {{number: {{first: index.html, then: "index_{{n}}.html", from: 2}}, max: 1000}}
  rows: {{in: ul.list, css: "> li"}}
  fields:
    url: {{css: "a::attr(href)", then: [absolute_url]}}
    title: {{css: "a::attr(title)"}}
  connect: all
identity: {{scope: bench, key: {{field: url, then: [{{regex: '_(\\d+)\\.html'}}]}}}}
detail:
  steps:
    - request: {{url: "{{url}}"}}
      ready: {{css: "div#content"}}
      fields:
        title: {{css: h1, required: true}}
        buyer: {{css: "table.info tr:nth-child(1) td"}}
        budget: {{css: "table.info tr:nth-child(2) td", then: [{{money: CNY}}]}}
        project_no: {{css: "table.info tr:nth-child(3) td"}}
        body_text: {{css: "div#content"}}
store: {{table: pages}}
"""
SLOTS = 64


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    model = ""
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else ""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages * size / 2**30, 1),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


@contextmanager
def lab_site(items: int) -> Iterator[str]:
    """A lab site in a process of its own: 15 KB details at 20 ms."""
    command = [sys.executable, "-m", "fyke", "lab", "site", "--items", str(items), "--per-page", "50"]
    command += ["--latency-ms", "20", "--detail-size", "15000", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "http://" in line)
            yield "http://" + line.split("http://", 1)[1].split()[0].rstrip("/")
        finally:
            process.terminate()


def hits(url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{url}/_hits") as answer:  # loopback only
        found = json.load(answer)
    return {"detail": sum(found["detail"].values()), "list": sum(found["list"].values())}


def environment() -> dict[str, str]:
    """Ours without what would keep Python from writing byte code: an installed package has it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measured(command: list[str], folder: Path) -> dict[str, float]:
    """Run a command to its end: wall and CPU seconds, largest resident size in MB, exit code."""
    began = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=quiet, stderr=quiet)
    _, status, usage = os.wait4(process.pid, 0)
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "rss_mb": usage.ru_maxrss / 1024,
        "exit": os.waitstatus_to_exitcode(status),
    }


def make_folder(folder: Path, url: str) -> None:
    (folder / "sources").mkdir()
    (folder / "sources" / "bench.yaml").write_text(SOURCE.format(url=url, slots=SLOTS), encoding="utf-8")
    (folder / "fyke.toml").write_text(f"[worker]\nconcurrency = {SLOTS}\n[log]\nlevel = 'warning'\n", encoding="utf-8")


def main_job(items: int) -> dict[str, Any]:
    """First pass (all new), second pass (all known)."""
    once = [sys.executable, "-m", "fyke", "run", "--once", "--wait", "10m", "--json"]
    with tempfile.TemporaryDirectory() as name, lab_site(items) as url:
        folder = Path(name)
        make_folder(folder, url)
        # Makes the ledger and byte code: what is measured is the worker, not the installation.
        measured([sys.executable, "-m", "fyke", "source", "apply"], folder)
        first = measured(once, folder)
        after_first = hits(url)
        second = measured(once, folder)
        after_second = hits(url)
        return {
            "pages": after_first["detail"],
            "first": first,
            "pages_per_cpu_s": items / first["cpu_s"],
            "pages_per_s": items / first["wall_s"],
            "second": second,
            "details_fetched_again": after_second["detail"] - after_first["detail"],
            "second_list_pages": after_second["list"] - after_first["list"],
            "idle": idle(folder),
        }


def idle(folder: Path, seconds: float = 20.0) -> dict[str, float]:
    """CPU of `fyke run` with one worker process and nothing to do, as a share of one core."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fyke", "run"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(5)
        pids = [process.pid, *children_of(process.pid)]
        before = sum(cpu_of(pid) for pid in pids)
        time.sleep(seconds)
        used = sum(cpu_of(pid) for pid in pids) - before
        return {"processes": len(pids), "share_of_a_core": used / seconds}
    finally:
        process.terminate()
        process.wait(60)


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(part) for part in path.read_text().split()] if path.exists() else []


def cpu_of(pid: int) -> float:
    """User and system seconds of a process so far."""
    parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    items = 1_000 if options.quick else 8_000
    found: dict[str, Any] = {"machine": machine(), "items": items}
    found["main_job"] = main_job(items)
    with lab_site(min(items, 4_000)) as url:
        found["bare_loop"] = bare_loop(url, min(items, 4_000), SLOTS)
    found["known_entries"] = asyncio.run(known_entries(items))
    from reading import measure  # it takes the source from here

    found["reading"] = measure(details=20, lists=10)
    found["load_1_min"] = os.getloadavg()[0]
    found["bench_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        tell(found)
    return 0


def tell(found: dict[str, Any]) -> None:
    from reading import tell_reading

    here, job = found["machine"], found["main_job"]
    print(f"{here['processor']}, {here['cores']} cores, {here['memory_gb']} GB, {here['system']}")
    print(f"Python {here['python']}, {here['date']}; {found['items']} pages of 15 KB at 20 ms, {SLOTS} in flight\n")
    print(f"first pass:  {job['pages_per_cpu_s']:,.0f} stored pages per CPU-second of the worker (aim 1,000)")
    print(f"             {job['pages_per_s']:,.0f} pages/s, {job['first']['rss_mb']:.0f} MB at most (aim 150)")
    print(f"bare loop:   {found['bare_loop']['pages_per_cpu_s']:,.0f} pages per CPU-second (fetch + parse + store)")
    print(f"second pass: {job['details_fetched_again']} details fetched (aim 0), {job['second']['wall_s']:.1f} s")
    print(
        f"known:       {found['known_entries']['entries_per_s']:,.0f} known entries/s through the ledger (aim 20,000)"
    )
    tell_reading(found["reading"])
    print(f"idle:        {job['idle']['share_of_a_core']:.2%} of a core, supervisor and worker (aim 1 %)")


if __name__ == "__main__":
    raise SystemExit(main())
