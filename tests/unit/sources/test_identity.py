"""Keys and hashes have one spelling."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fyke.policy.identity import LONGEST_KEY, canonical_json, content_hash, fields_read_otherwise, key_fault, key_of
from fyke.sources.yamlfile import parse_yaml


@pytest.mark.parametrize(("text", "key"), [("a", "a"), (" a b ", "a b"), ("\u3000公告\n", "公告"), ("A", "A")])
def test_blanks_at_the_ends_are_no_part_of_a_key(text: str, key: str) -> None:
    assert key_of(text) == key


@pytest.mark.parametrize("text", ["", "  ", "a\0b", "a\nb", "a\x7fb", "a\x85b", "a\ud800b"])
def test_unfit_keys_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the key"):
        key_of(text)


def test_a_key_of_255_bytes_stands_and_a_longer_one_is_folded() -> None:
    longest = "é" * 127 + "a"
    assert key_of(longest) == longest
    assert key_of(longest + "b") == f"sha256:{hashlib.sha256((longest + 'b').encode()).hexdigest()}"
    assert key_of("公" * 86) != key_of("公" * 87)
    with pytest.raises(ValueError, match="control"):
        key_of("x" * 300 + "\0")


@given(st.text())
def test_what_key_of_gives_has_no_fault(text: str) -> None:
    try:
        key = key_of(text)
    except ValueError:
        return
    assert key_fault(key) is None
    assert len(key.encode()) <= LONGEST_KEY
    assert key_of(key) == key


def test_equal_content_has_one_spelling() -> None:
    assert canonical_json({"b": 1, "a": [{"d": None, "c": "é"}]}) == '{"a":[{"c":"é","d":null}],"b":1}'.encode()


def test_the_content_hash_is_over_the_named_fields_with_a_value() -> None:
    base = content_hash({"a": 1, "b": "x"}, ["a", "b"])
    assert len(base) == 16
    assert base == content_hash({"b": "x", "a": 1, "c": 3}, ["b", "a"])
    assert base == content_hash({"a": 1, "b": "x", "new": None}, ["a", "b", "new"])
    assert base != content_hash({"a": "1", "b": "x"}, ["a", "b"])
    # The name counts, not only the value.
    assert content_hash({"a": 1}, ["a", "b"]) != content_hash({"b": 1}, ["a", "b"])


BEFORE = """\
id: notices
listing:
  request: {url: "http://e.example/list"}
  rows: {css: li}
  fields:
    url: {css: "a::attr(href)"}
    number: {css: em}
    title: {css: a}
    both: {template: "{number}/{url}"}
identity: {scope: notices, key: KEY}
store: {table: notices}
"""


@pytest.mark.parametrize(
    ("key", "change", "told"),
    [
        ("{field: url}", ("a::attr(href)", "b::attr(href)"), ["url"]),
        ("{field: url}", ("css: em", "css: i"), []),
        ("{template: '{number}-{url}'}", ("css: em", "css: i"), ["number"]),
        ("{hash: [title, number]}", ("css: a}", "css: b}"), ["title"]),
        ("{first_of: [{field: number}, {field: title}]}", ("css: a}", "css: b}"), ["title"]),
        ("{field: both}", ("css: em", "css: i"), ["number"]),
        ("{field: url}", ("css: li", "css: tr"), []),
    ],
)
def test_a_field_of_the_key_that_is_read_in_another_way_is_told(
    key: str, change: tuple[str, str], told: list[str]
) -> None:
    """The rule is the same, and the items may get other keys and be collected once more (P1)."""
    before = BEFORE.replace("KEY", key)
    texts = [json.dumps({"source": parse_yaml(text, "n.yaml")[0]}) for text in (before, before.replace(*change))]
    assert fields_read_otherwise(*texts) == told
