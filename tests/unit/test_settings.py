"""Settings: what a person wrote holds or is refused with the place and the way out; secrets are not shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.errors import UsageError
from fyke.settings import Loaded, all_settings, load_settings, masked, shown, value_of

NAMES = {setting.name: setting for setting in all_settings()}


def load(folder: Path, toml: str = "", environ: dict[str, str] | None = None, **flags: str) -> Loaded:
    (folder / "fyke.toml").write_text(toml, encoding="utf-8")
    return load_settings(folder, environ or {}, {name.replace("__", "."): value for name, value in flags.items()})


def refusal(folder: Path, toml: str = "", environ: dict[str, str] | None = None, **flags: str) -> UsageError:
    with pytest.raises(UsageError) as error:
        load(folder, toml, environ, **flags)
    return error.value


def test_without_a_file_the_defaults_are_those_that_were_promised(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {}).settings
    assert (settings.ledger, settings.frontier, settings.sources) == ("sqlite:///fyke.db", "sql", "sources")
    assert (settings.lease, settings.worker.concurrency, settings.worker.grace) == (30_000, 8, 25_000)
    assert (settings.reconcile.every, settings.reconcile.grace) == (30_000, 60_000)
    assert (settings.limits.attempts, settings.limits.attempt_delays) == (3, (30_000, 600_000))
    assert settings.blocks_to_pause == 5


def test_variables_win_over_the_file_and_flags_over_both(tmp_path: Path) -> None:
    toml = 'lease = "10s"\n[worker]\nconcurrency = 2\ngrace = "3s"\nprocesses = 2\n'
    environ = {"FYKE_WORKER_CONCURRENCY": "3", "FYKE_WORKER_GRACE": "4s", "HOME": "/"}
    loaded = load(tmp_path, toml, environ, worker__grace="5s")
    worker = loaded.settings.worker
    assert (worker.processes, worker.concurrency, worker.grace) == (2, 3, 5_000)
    assert {name: loaded.origins[name] for name in NAMES if name.startswith("worker")} == {
        "worker.processes": "fyke.toml:5",
        "worker.concurrency": "FYKE_WORKER_CONCURRENCY",
        "worker.grace": "--set worker.grace",
        "worker.pool": "default",
    }
    assert loaded.origins["lease"] == "fyke.toml:1"
    assert loaded.origins["log.level"] == "default"


def test_no_two_settings_share_a_variable() -> None:
    assert len({setting.variable for setting in NAMES.values()}) == len(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_default_is_read_back_from_what_is_shown_of_it(tmp_path: Path, name: str) -> None:
    setting = NAMES[name]
    text = shown(setting, setting.default)
    assert value_of(load(tmp_path, environ={setting.variable: text}).settings, name) == setting.default


def test_a_misspelt_key_names_file_line_and_the_nearest_key(tmp_path: Path) -> None:
    error = refusal(tmp_path, 'ledger = "sqlite:///x.db"\n\n[worker]\n# a comment\nconcurency = 3\n')
    assert (error.file, error.line) == ("fyke.toml", 5)
    assert "'worker.concurency'" in str(error)
    assert error.hint == "did you mean 'worker.concurrency'?"


def test_a_misspelt_variable_names_the_nearest_variable(tmp_path: Path) -> None:
    error = refusal(tmp_path, environ={"FYKE_LEGDER": "sqlite:///x.db"})
    assert "FYKE_LEGDER" in str(error)
    assert error.hint == "did you mean 'FYKE_LEDGER'?"


def test_variables_for_other_ends_are_left_alone(tmp_path: Path) -> None:
    load(tmp_path, environ={"FYKE_DEBUG": "1", "FYKE_SECRET_TOKEN": "x"})


def test_a_misspelt_flag_names_the_nearest_setting(tmp_path: Path) -> None:
    assert refusal(tmp_path, worker__procesess="2").hint == "did you mean 'worker.processes'?"


@pytest.mark.parametrize(
    ("toml", "field", "part"),
    [
        ('lease = "30"', "lease", "'30' is no duration"),
        ("lease = 30", "lease", "'30' is no duration"),
        ("lease = 0", "lease", "out of range: at least 1"),
        ("worker.concurrency = 0", "worker.concurrency", "out of range: from 1 to 1000"),
        ("worker.concurrency = true", "worker.concurrency", "True is no whole number"),
        ('worker = {concurrency = "many"}', "worker.concurrency", "'many' is no whole number"),
        ("attempts.delays = []", "attempts.delays", "is no list of durations"),
        ('log.level = "wurning"', "log.level", "did you mean 'warning'?"),
        ("ledger = 3", "ledger", "3 is no text"),
        ('sources = ""', "sources", "must not be empty"),
        ('alerts.webhook = "hooks.example.org/T0"', "alerts.webhook", "is no web address"),
        ('[lanes."a.example.org"]\ndelay = "soon"', "lanes.a.example.org.delay", "'soon' is no duration"),
    ],
)
def test_a_bad_value_names_key_value_and_line(tmp_path: Path, toml: str, field: str, part: str) -> None:
    error = refusal(tmp_path, toml)
    assert (error.file, error.field) == ("fyke.toml", field)
    assert error.line == toml.count("\n") + 1
    assert part in str(error)


def test_a_bad_value_of_a_variable_names_the_variable(tmp_path: Path) -> None:
    assert str(refusal(tmp_path, environ={"FYKE_LEASE": "soon"})).startswith("FYKE_LEASE: 'soon' is no duration")


def test_broken_toml_names_the_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, 'ledger = "sqlite:///x.db"\nlease = = 3\n')
    assert (error.file, error.line) == ("fyke.toml", 2)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("sqlite:///fyke.db", "sqlite"),
        ("postgresql://u:geheim@db:5432/fyke?sslmode=require", "postgres"),
        ("mysql://u@db/fyke", "mysql"),
        ("mariadb://u:ge%40heim@[::1]:3307/fyke", "mysql"),
    ],
)
def test_each_database_is_known_by_its_scheme(tmp_path: Path, url: str, kind: str) -> None:
    settings = load(tmp_path, ledger=url).settings
    assert (settings.ledger, settings.ledger_kind) == (url, kind)
    assert (settings.ledger_path is None) == (kind != "sqlite")


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("sql", "sql"),
        ("redis://cache", "redis"),
        ("redis://:geheim@cache:6379/3", "redis"),
        ("rediss://u:geheim@cache:6380", "redis"),
        ("redis+sentinel://:geheim@a:26379,b:26379/main/0", "redis"),
        ("redis+cluster://a:7000,b:7001,c", "redis"),
    ],
)
def test_each_frontier_is_known_by_its_scheme(tmp_path: Path, url: str, kind: str) -> None:
    settings = load(tmp_path, frontier=url).settings
    assert (settings.frontier, settings.frontier_kind) == (url, kind)


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("ledger", "postgres://u:geheim@db/fyke", "write postgresql://USER:PASSWORD@HOST"),
        ("ledger", "postgresql+asyncpg://u:geheim@db/fyke", "write postgresql://USER:PASSWORD@HOST"),
        ("ledger", "postgersql://u:geheim@db/fyke", "did you mean 'postgresql'?"),
        ("ledger", "postgresql:u:geheim@db/fyke", "write postgresql://"),
        ("ledger", "postgresql://u:geheim@db", "names no database"),
        ("ledger", "postgresql://u:geheim@/fyke", "is no host"),
        ("ledger", "postgresql://u:geheim@db:port/fyke", "'db:port' is no host"),
        ("ledger", "postgresql://u:ge/heim@db/fyke", "%2F for /"),
        ("ledger", "mysql://u:ge#heim@db/fyke", "%23 for #"),
        ("ledger", "mysql://u:geheim@a,b/fyke", "names several hosts"),
        ("ledger", "redis://:geheim@cache", "is no ledger"),
        ("frontier", "valkey://:geheim@cache", "write redis://"),
        ("frontier", "reds://:geheim@cache", "did you mean 'redis'?"),
        ("frontier", "sqll", "did you mean 'sql'?"),
        ("frontier", "redis://:geheim@cache/zero", "the database of Redis is a number"),
        ("frontier", "redis+sentinel://:geheim@a,b", "names no master"),
        ("frontier", "redis+cluster://:geheim@a,b/3", "database 0 only"),
        ("redis.namespace", "a{b}", "is no name"),
        ("redis.shards", "0", "from 1 to 64"),
        ("scheduler.lock", "maybe", "neither true nor false"),
    ],
)
def test_what_names_no_back_end_is_refused_with_the_nearest_form_and_no_password(
    tmp_path: Path, name: str, value: str, part: str
) -> None:
    error = refusal(tmp_path, "", None, **{name: value})
    assert part in str(error)
    assert str(error).startswith("--")
    assert not any(piece in str(error) for piece in ("geheim", "heim@", "u:ge"))


def test_the_low_mark_must_be_below_the_high_one(tmp_path: Path) -> None:
    assert refusal(tmp_path, "[backpressure]\nhigh = 10\nlow = 10\n").field == "backpressure.low"


def test_an_archive_is_refused_rather_than_passed_over(tmp_path: Path) -> None:
    error = refusal(tmp_path, 'archive = "pages"')
    assert (error.line, error.field) == (1, "archive")
    assert "later release" in str(error)


@pytest.mark.parametrize("ledger", ["sqlite://", "sqlite:///", "fyke.db", "oracle://u:geheim@db/x"])
def test_what_is_no_ledger_is_refused_without_its_password(tmp_path: Path, ledger: str) -> None:
    error = refusal(tmp_path, ledger=ledger)
    assert "sqlite:///fyke.db" in str(error)
    assert "geheim" not in str(error)


def test_ledger_paths_are_relative_with_three_slashes_and_absolute_with_four(tmp_path: Path) -> None:
    assert load(tmp_path, ledger="sqlite:///data/a.db").settings.ledger_path == Path("data/a.db")
    assert load(tmp_path, ledger="sqlite:////data/a.db").settings.ledger_path == Path("/data/a.db")


def test_lanes_are_set_by_host_in_the_file(tmp_path: Path) -> None:
    toml = '[lanes."a.example.org"]\ndelay = "5s"\n[lanes."b.example.org"]\nconcurrency = 1\njitter = "0"\n'
    loaded = load(tmp_path, toml)
    a, b = (loaded.settings.lanes[host] for host in ("a.example.org", "b.example.org"))
    assert (a.delay, a.jitter, a.concurrency) == (5_000, None, None)
    assert (b.delay, b.jitter, b.concurrency) == (None, 0, 1)
    assert loaded.origins["lanes.b.example.org.jitter"] == "fyke.toml:5"
    assert refusal(tmp_path, '[lanes."a.example.org"]\ndely = "5s"\n').hint == "did you mean 'delay'?"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://hooks.example.org/services/T0/B0/geheim", "https://hooks.example.org/***"),
        ("https://hooks.example.org/?key=geheim", "https://hooks.example.org/***"),
        ("https://me:geheim@example.org", "https://***@example.org"),
        ("postgresql://me:geheim@db:5432/fyke?password=geheim", "postgresql://***@db:5432/fyke?***"),
        ("postgresql://me:ge/he#im@db:5432/fyke", "postgresql://***@db:5432/fyke"),
        ("postgresql://me:ge?he@im@db:5432/fyke", "postgresql://***@db:5432/fyke"),
        ("postgresql:me:geheim@db/fyke", "***@db/fyke"),
        ("redis://:geheim@cache:6379/0", "redis://***@cache:6379/0"),
        ("redis+sentinel://:geheim@a:26379,b:26379/main/0", "redis+sentinel://***@a:26379,b:26379/main/0"),
        ("sqlite:////home/me@work/fyke.db", "sqlite:////home/me@work/fyke.db"),
        ("sqlite:///fyke.db", "sqlite:///fyke.db"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_secrets_are_masked(url: str, text: str) -> None:
    assert masked(url) == text


@given(st.dictionaries(st.sampled_from(sorted(NAMES)), st.text(max_size=20), max_size=5))
def test_whatever_is_set_holds_or_is_a_usage_error(flags: dict[str, str]) -> None:
    try:
        loaded = load_settings(Path("no-such-folder"), {}, flags)
    except UsageError:
        return
    for name in flags:
        shown(NAMES[name], value_of(loaded.settings, name))
