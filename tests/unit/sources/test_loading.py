"""Source files: each mistake has a file, a line, a field and a way out."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fyke.errors import UsageError
from fyke.model import ColumnType, LanePolicy
from fyke.sources.compile import compile_text
from fyke.sources.loader import check_folder, load_file, load_folder
from fyke.sources.schema import LATER, SOURCE, json_schema
from fyke.sources.secrets import environment_secrets
from fyke.sources.shapes import Key, Section
from fyke.sources.yamlfile import parse_yaml

ROOT = Path(__file__).resolve().parents[3]
SHARED = ROOT.parent / "shared" / "sources"

GOOD = """\
id: site
title: A site
schedule:
  cron: ["0 8 * * *"]
  timezone: Asia/Shanghai
listing:
  request: {url: "https://site.example/{page}"}
  pages: {number: {first: 1}, max: 7}
  rows: {in: ul, css: "> li"}
  fields:
    id: {css: a}
    title: {css: b, then: [squeeze]}
    url: {css: "a::attr(href)", then: [absolute_url]}
    published: {css: i, then: [{datetime: auto}]}
  connect: {known: 20, lookback: 36h}
  start: 7d
identity: {scope: site.example, key: {field: id}}
detail:
  steps:
    - request: {url: "{url}"}
      fields: {body: {css: div}}
checks:
  rows_per_page: {min: 10}
  coverage: {title: 0.9}
fetch:
  timeout: {total: 30s}
store: {table: news}
"""


EMPTY_VALUE = "each: {k: ['']}\nlisting:\n  request: {url: \"https://{k}.example/"


def load(folder: Path, text: str) -> Any:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return load_file(path)


def mistake(folder: Path, text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(folder, text)
    return caught.value


def test_a_good_file_says_all_that_the_pipeline_asks(tmp_path: Path) -> None:
    loaded = load(tmp_path, GOOD)
    source = loaded.source
    assert loaded.warnings == []
    assert (source.schedule.cron, source.schedule.timezone, source.schedule.limit) == (
        ("0 8 * * *",),
        "Asia/Shanghai",
        3_600_000,
    )
    assert (source.connect.known, source.connect.lookback, source.connect.max_pages) == (20, 129_600_000, 7)
    assert (source.connect.start, source.connect.start_value, source.connect.all) == ("length", 604_800_000, False)
    assert (source.checks.rows_per_page_min, source.checks.coverage) == (10, {"title": 0.9})
    assert (source.fetch.total_timeout, source.fetch.read_timeout, source.fetch.respect_robots) == (
        30_000,
        10_000,
        True,
    )
    assert source.list_fields == ("id", "title", "url", "published")
    assert source.compared == ("id", "title", "url", "published", "body")
    assert source.resolved.lanes == (LanePolicy("*"), LanePolicy("site.example"))
    assert (source.resolved.id, source.resolved.title, source.resolved.table) == ("site", "A site", "news")
    assert (source.resolved.scope, source.resolved.identity) == ("site.example", '{"field":"id"}')
    assert source.resolved.has_detail
    assert source.resolved.columns[3].type is ColumnType.DATETIME


@pytest.mark.parametrize(
    ("change", "line", "field", "message"),
    [
        (("connect:", "conect:"), 15, "listing.conect", "the key 'conect' is not known (did you mean 'connect'?)"),
        (("squeeze", "sqeeze"), 12, "listing.fields.title.then[0]", "the step 'sqeeze' is not known (did you mean"),
        (("{css: b,", "{csss: b,"), 12, "listing.fields.title.csss", "(did you mean 'css'?)"),
        (("title: A site", "id: again"), 2, "id", "the key 'id' is written twice, first in line 1"),
        (("id: site\n", "id: 7\n"), 1, "id", "is 7, not text (put it in quotes)"),
        (("id: site\n", "id: a b\n"), 1, "id", "'a b' does not fit"),
        (("store: {table: news}", ""), 1, "store", "'store' is missing"),
        (("{total: 30s}", "{total: 30}"), 26, "fetch.timeout.total", "'30' is no duration"),
        (("lookback: 36h", "lookback: 36 hours"), 15, "listing.connect.lookback", "is no duration"),
        (("{known: 20,", "{known: many,"), 15, "listing.connect.known", "is 'many', not a whole number"),
        (("Asia/Shanghai", "Asia/Shangai"), 5, "schedule.timezone", "'Asia/Shangai' is no time zone"),
        (("0 8 * * *", "0 25 * * *"), 4, "schedule.cron[0]", "is no cron expression"),
        (('"> li"', '"> li["'), 9, "listing.rows.css", "does not parse"),
        (("css: a}", "css: a, xpath: b}"), 11, "listing.fields.id", "css and xpath stand together"),
        (("css: a}", "then: [squeeze]}"), 11, "listing.fields.id", "has no selector"),
        (("css: a}", "xpath: '//a['}"), 11, "listing.fields.id.xpath", "does not parse"),
        (("css: a}", "xpath: '//a'}"), 11, "listing.fields.id.xpath", "leaves its row (begin with .//"),
        (("css: a}", "json: a}"), 11, "listing.fields.id", "'json' cannot read an HTML row"),
        (("css: a}", "feed: id}"), 11, "listing.fields.id", "'feed' cannot read an HTML row"),
        (("css: a}", "css: 'a::attr(x) b'}"), 11, "listing.fields.id.css", "at the end only"),
        (("css: a}", "regex: '(a'}"), 11, "listing.fields.id.regex", "does not compile"),
        (("css: a}", "field: titel}"), 11, "listing.fields.id.field", "the field 'titel' is not read before"),
        (("[squeeze]", "[{regex: '(a'}]"), 12, "listing.fields.title.then[0].regex", "does not compile"),
        (("[squeeze]", "[{squeeze: 1}]"), 12, "listing.fields.title.then[0]", "takes no argument"),
        (("[squeeze]", "[regex]"), 12, "listing.fields.title.then[0]", "needs an argument"),
        (("[squeeze]", "[{money: yuan}]"), 12, "listing.fields.title.then[0].money", "'yuan' does not fit"),
        (("[squeeze]", "[split]"), 12, "listing.fields.title.then[0]", "'split' needs an argument"),
        (("field: id", "field: ident"), 17, "identity.key.field", "the field 'ident' is not read before"),
        (("{field: id}", "{css: a}"), 17, "identity.key.css", "a key is made of fields"),
        (('"{url}"', '"{urll}"'), 20, "detail.steps[0].request.url", "(did you mean 'url'?)"),
        (("{title: 0.9}", "{titel: 0.9}"), 24, "checks.coverage.titel", "(did you mean 'title'?)"),
        (("{title: 0.9}", "{title: 90}"), 24, "checks.coverage.title", "not a number from 0 to 1"),
        (("start: 7d", "start: soon"), 16, "listing.start", "'soon' is no start"),
        (("{number: {first: 1}, max: 7}", "{max: 7}"), 8, "listing.pages", "is not said (one of number, offset, next,"),
        (('{in: ul, css: "> li"}', '{css: "> li"}'), 9, "listing.rows.css", "has nothing to begin from"),
        (("    title: {css: b,", "    ID: {css: b,"), 12, "listing.fields.ID", "small letters"),
        (("    title: {css: b,", "    _t: {css: b,"), 12, "listing.fields._t", "the name '_t' does not fit"),
        (("    title: {css: b,", "    page: {css: b,"), 12, "listing.fields.page", "is taken by a placeholder"),
        (("{body: {css: div}}", "{published: {css: p}}"), 21, "detail.steps[0].fields.published", "is text here"),
        (("title: A site", "title: [A"), 3, "schedule", "is no YAML"),
        (("title: A site", "title: !!python/object:os.system x"), 2, "title", "is not allowed"),
        (("title: A site", "extends: profiles/none"), 2, "extends", "there is no profile 'profiles/none'"),
        (("title: A site", "listing: {}"), 6, "listing", "the key 'listing' is written twice"),
        (("https://site.example/", "site.example/"), 7, "listing.request.url", "not an address: 'site.example/1'"),
        (('{page}"}', '{page}", cookies: {r: "a;b"}}'), 7, "listing.request.cookies.r", "no cookie may have"),
        (("listing:\n  request: {url: \"", EMPTY_VALUE), 8, "listing.request", "{k} has no value"),
        (("css: a}", "xpath: \"a\\0\"}"), 11, "listing.fields.id.xpath", "does not parse"),
        (("[squeeze]", "[\"a\\nb\"]"), 12, "listing.fields.title.then[0]", "the step 'a\\nb' is not known"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_line_field_and_way_out(
    tmp_path: Path, change: tuple[str, str], line: int | None, field: str, message: str
) -> None:
    assert change[0] in GOOD
    error = mistake(tmp_path, GOOD.replace(*change, 1))
    assert message in str(error)
    assert error.field == (field or None)
    assert str(error.file).endswith("site.yaml")
    assert error.line == line if line else error.line is not None
    assert str(error).count("\n") == 0


def test_a_value_of_pages_is_told_in_a_line_that_can_be_read(tmp_path: Path) -> None:
    error = mistake(tmp_path, GOOD.replace("0 8 * * *", "x" * 5_000))
    assert len(str(error)) < 700
    assert "is no cron expression" in str(error)


def test_yaml_is_read_as_version_1_2() -> None:
    text = "a: [on, off, yes, no, 12:30, 2025-01-02, 01, 0x1F, 1_000, 1e3, .5, '7', 7, -7, 0.90, true, null, ~]"
    data, _ = parse_yaml(text, "x")
    assert data["a"] == [
        *("on", "off", "yes", "no", "12:30", "2025-01-02", "01", "0x1F", "1_000", "1e3", ".5", "7"),
        *(7, -7, 0.9, True, None, None),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no mapping"),
        ("- a", "holds no mapping"),
        ("a: &x [1]\nb: {<<: *x}", "the merge key << is not allowed"),
        ("? [a]\n: b", "a key is no text"),
        ("a: *nowhere", "is no YAML"),
        ("a: {b: 1, b: 2}", "the key 'b' is written twice"),
        ("a: " + "[" * 200 + "]" * 200, "nested too deep"),
        ("a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(8)
        ), "is too large"),
        ("a: &a [*a]", "is "),
        ("a: b\x00c", "is no YAML"),
    ],
)  # fmt: skip
def test_hostile_yaml_is_a_mistake(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_yaml(text, "x.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.yaml")


def test_a_file_that_is_not_utf_8_or_not_there_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_bytes("id: site\ntitle: 公告".encode("gb18030"))
    with pytest.raises(UsageError, match=r"site.yaml:2: is not UTF-8"):
        load_file(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_file(tmp_path / "none.yaml")
    path.write_text("# " + "x" * 1_000_001)
    with pytest.raises(UsageError, match="is larger than"):
        load_file(path)


def test_a_profile_is_merged_and_the_file_wins(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "a.yaml").write_text(
        "fetch: {headers: {A: '1', B: '1'}, politeness: {delay: 2s}, timeout: {read: 1s}}\nlisting: {start: 3d}\n"
    )
    (tmp_path / "profiles" / "b.yaml").write_text("extends: profiles/a\nfetch: {headers: {B: '2', C: '2'}}\n")
    text = GOOD.replace("title: A site", "extends: [profiles/b]").replace("  start: 7d\n", "")
    source = load(tmp_path, text.replace("fetch:\n", "fetch:\n  headers: {C: '3'}\n")).source
    assert source.fetch.headers == {"A": "1", "B": "2", "C": "3"}
    assert (source.fetch.read_timeout, source.fetch.total_timeout) == (1_000, 30_000)
    assert source.connect.start_value == 3 * 86_400_000
    assert source.resolved.lanes[0] == LanePolicy("*", 2_000, 400, 2)
    assert "extends" not in source.resolved.text


def test_a_mistake_in_a_profile_names_the_profile(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "a.yaml").write_text("\nfetch:\n  robot: ignore\n")
    error = mistake(tmp_path, GOOD.replace("title: A site", "extends: profiles/a"))
    assert (Path(str(error.file)).name, error.line, error.field) == ("a.yaml", 3, "fetch.robot")


def test_profiles_in_a_circle_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b\n")
    (tmp_path / "b.yaml").write_text("extends: a\n")
    assert "in a circle" in str(mistake(tmp_path, GOOD.replace("title: A site", "extends: a")))


LATER_KEYS = """
alerts: {to: [x]}
"""


def test_keys_of_later_work_load_with_one_warning(tmp_path: Path) -> None:
    text = GOOD.replace("detail:\n", "detail:\n  snapshot: {keep: 400d}\n")
    loaded = load(tmp_path, text.replace("checks:\n", "checks:\n  new_items: {learn: weekday}\n") + LATER_KEYS)
    (warning,) = loaded.warnings
    assert warning.endswith("no effect yet: detail.snapshot, checks.new_items, alerts")


def test_the_text_of_the_ledger_gives_the_same_source(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "a.yaml").write_text("fetch: {politeness: {delay: 2s}}\n")
    source = load(tmp_path, GOOD.replace("title: A site", "extends: profiles/a")).source
    again = compile_text(source.resolved.text)
    assert again.resolved == source.resolved
    assert (again.schedule, again.connect, again.checks, again.fetch) == (
        source.schedule,
        source.connect,
        source.checks,
        source.fetch,
    )
    assert str(tmp_path) not in source.resolved.text


def test_the_hash_is_that_of_what_the_file_says(tmp_path: Path) -> None:
    def hash_of(text: str) -> str:
        found: str = load(tmp_path, text).source.resolved.hash
        return found

    assert hash_of(GOOD) == hash_of("# a comment\n" + GOOD)
    assert hash_of(GOOD) != hash_of(GOOD.replace("known: 20", "known: 21"))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"source": 1}', "not json"])
def test_a_damaged_text_of_the_ledger_is_a_mistake_and_no_crash(text: str) -> None:
    with pytest.raises(UsageError):
        compile_text(text)


def test_two_files_with_one_id_are_refused_and_both_named(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(GOOD)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "two.yml").write_text(GOOD)
    with pytest.raises(UsageError, match=r"two.yml: id: the id 'site' is also that of .*one.yaml"):
        load_folder(tmp_path)


def test_a_folder_is_loaded_without_its_profiles_and_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "a.yaml").write_text("fetch: {}")
    (tmp_path / ".hidden.yaml").write_text("broken: [")
    (tmp_path / "readme.txt").write_text("x")
    (tmp_path / "b.yaml").write_text(GOOD.replace("id: site", "id: b"))
    (tmp_path / "a.yaml").write_text(GOOD.replace("id: site", "id: z"))
    assert [one.source.resolved.id for one in load_folder(tmp_path)] == ["b", "z"]


def test_every_broken_file_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text("id: b\n")
    (tmp_path / "c.yaml").write_text("[")
    loaded, faults = check_folder(tmp_path)
    assert [one.source.resolved.id for one in loaded] == ["site"]
    assert [Path(str(fault.file)).name for fault in faults] == ["b.yaml", "c.yaml"]
    with pytest.raises(UsageError, match="no such folder"):
        load_folder(tmp_path / "none")


SECRET = GOOD.replace(
    "fetch:\n", "fetch:\n  proxy: ${secret:PROXY}\n  headers: {Authorization: 'Bearer ${secret:TOKEN}'}\n"
)


def test_secrets_are_in_the_policy_and_never_in_the_ledger(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0k3n\n")
    environ = {"FYKE_SECRET_PROXY": "http://u:p@proxy.example", "FYKE_SECRET_TOKEN_FILE": str(tmp_path / "token")}
    path = tmp_path / "site.yaml"
    path.write_text(SECRET)
    source = load_file(path, secrets=environment_secrets(environ)).source
    assert source.fetch.proxy == "http://u:p@proxy.example"
    assert source.fetch.headers == {"Authorization": "Bearer t0k3n"}
    assert "t0k3n" not in str(source.resolved)
    assert "${secret:TOKEN}" in source.resolved.text
    again = compile_text(source.resolved.text, secrets=environment_secrets(environ))
    assert again.fetch == source.fetch


def test_secrets_come_from_a_folder_of_files_too(tmp_path: Path) -> None:
    (tmp_path / "TOKEN").write_text("x")
    look_up = environment_secrets({}, tmp_path)
    assert (look_up("TOKEN"), look_up("OTHER")) == ("x", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SECRET, "fetch.proxy: the secret 'PROXY' is not set (set FYKE_SECRET_PROXY"),
        (GOOD.replace("title: A site", "title: ${secret:X}"), "title: no secret may stand here"),
        (GOOD.replace("fetch:\n", "fetch:\n  proxy: ${secret:}\n"), "a secret is written wrongly"),
    ],
)
def test_secrets_that_cannot_be_had_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_file(path, secrets=environment_secrets({}))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("politeness", "expected"),
    [
        ("{}", (1_200, 400, 2)),
        ("{delay: 0s}", (0, 0, 2)),
        ("{delay: 0.1s, concurrency: 8}", (100, 100, 8)),
        ("{delay: 5s, jitter: 1s}", (5_000, 1_000, 2)),
        # The shortest gap keeps the rate, jitter included.
        ("{rate: 6/min}", (10_400, 400, 2)),
        ("{rate: 100/min, delay: 3s}", (3_000, 400, 2)),
    ],
)
def test_politeness_becomes_the_policy_of_the_source_s_lanes(
    tmp_path: Path, politeness: str, expected: tuple[int, int, int]
) -> None:
    source = load(tmp_path, GOOD.replace("fetch:\n", f"fetch:\n  politeness: {politeness}\n")).source
    assert source.resolved.lanes == tuple(LanePolicy(lane, *expected) for lane in ("*", "site.example"))


def test_a_jitter_longer_than_its_delay_is_a_mistake(tmp_path: Path) -> None:
    text = GOOD.replace("fetch:\n", "fetch:\n  politeness: {delay: 1s, jitter: 2s}\n")
    assert "is longer than the delay" in str(mistake(tmp_path, text))


def test_fetch_settings(tmp_path: Path) -> None:
    said = (
        "fetch:\n  robots: ignore\n  private_addresses: allow\n  encoding: gb18030\n  max_body: 5MB\n"
        "  user_agent: me\n  blocked: {text: [频繁访问]}\n"
    )
    fetch = load(tmp_path, GOOD.replace("fetch:\n", said)).source.fetch
    assert (fetch.respect_robots, fetch.private_addresses, fetch.encoding) == (False, True, "gb18030")
    assert (fetch.max_body, fetch.user_agent, fetch.blocked_text) == (5_000_000, "me", ("频繁访问",))
    assert "is no encoding" in str(mistake(tmp_path, GOOD.replace("fetch:\n", "fetch:\n  encoding: gb99\n")))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("  start: all\n", ("all", 0)),
        ("", ("page", 0)),
        ("  start: 2025-01-31\n", ("since", 1_738_252_800_000)),
        ("  start: 2w\n", ("length", 14 * 86_400_000)),
    ],
)
def test_how_far_back_the_first_walk_goes(tmp_path: Path, start: str, expected: tuple[str, int]) -> None:
    connect = load(tmp_path, GOOD.replace("  start: 7d\n", start)).source.connect
    assert (connect.start, connect.start_value) == expected


def test_a_list_without_order_must_be_walked_whole(tmp_path: Path) -> None:
    unordered = GOOD.replace("  start: 7d\n", "  order: none\n")
    assert "connect: all" in str(mistake(tmp_path, unordered))
    whole = load(tmp_path, unordered.replace("{known: 20, lookback: 36h}", "all")).source.connect
    assert (whole.all, whole.lookback) == (True, 0)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared examples are not here")
def test_all_shared_examples_load() -> None:
    loaded = {one.source.resolved.id: one for one in load_folder(SHARED)}
    assert set(loaded) == {"advisories", "ccgp", "ggzy"}
    assert len(loaded["ccgp"].source.listings()) == 8
    assert loaded["ccgp"].source.fetch.headers == {"Accept-Language": "zh-CN,zh;q=0.9"}


@pytest.mark.parametrize("folder", ["sources", "real"])
def test_all_examples_load(folder: str) -> None:
    assert len(load_folder(ROOT / "examples" / folder)) >= 3


def sections(section: Section, path: str = "") -> Iterator[tuple[str, Key]]:
    for name, key in section.keys.items():
        yield f"{path}{name}", key
        if isinstance(key.shape, Section):
            yield from sections(key.shape, f"{path}{name}.")


def test_the_json_schema_has_every_key_with_its_meaning() -> None:
    schema = json.loads(json.dumps(json_schema()))
    assert [name for name, key in sections(SOURCE) if len(key.doc) < 5] == []
    for name, _ in sections(SOURCE):
        part = schema
        for step in name.split("."):
            part = part["properties"][step]
        assert part["description"]
    assert schema["additionalProperties"] is False
    assert "no effect yet" in schema["properties"]["alerts"]["description"]
    for reference in re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(schema)):
        assert reference in schema["$defs"]


def test_no_key_is_both_known_and_later() -> None:
    known = {
        (name.rpartition(".")[0].rpartition(".")[2] or "source", name.rpartition(".")[2])
        for name, _ in sections(SOURCE)
    }
    assert known & set(LATER) == set()


def damaged(text: str) -> Iterator[str]:
    lines = text.splitlines()
    for at, line in enumerate(lines):
        for change in (
            line[:-1],
            line.replace(":", "", 1),
            f"  {line}",
            line.replace("{", "[", 1),
            f"{line} #x: {{",
            "",
        ):
            yield "\n".join([*lines[:at], change, *lines[at + 1 :]])


def test_a_file_damaged_anywhere_loads_or_is_a_mistake_with_its_file(tmp_path: Path) -> None:
    told: list[UsageError] = []
    for text in damaged(GOOD):
        try:
            load(tmp_path, text)
        except UsageError as error:
            told.append(error)
    assert len(told) > 50
    assert [str(error) for error in told if error.file is None or "\n" in str(error)] == []
