"""Feeds of all kinds under the same names; of broken ones what can be read."""

import pytest

from fyke.model import ColumnType, Outcome
from tests.unit.sources.making import entries, made, read

FEED = """
listing:
  request: {url: "https://site.example/feed"}
  rows: {feed: entries}
  fields:
    id: {feed: id, optional: true}
    url: {feed: link, optional: true}
    title: {feed: title}
    published: {feed: published, optional: true}
    updated: {feed: updated, optional: true}
    summary: {feed: summary, optional: true}
    content: {feed: content, optional: true}
    author: {feed: author, optional: true}
    image: {feed: "media:thumbnail", optional: true}
"""
HEAD = """
id: feed
identity: {scope: site.example, key: {first_of: [{field: id}, {field: url}]}}
store: {table: posts}
"""
SOURCE = made(FEED, head=HEAD)
WEB = "https://site.example/feed"


def test_rss_2() -> None:
    text = """<?xml version="1.0" encoding="gb2312"?>
    <rss version="2.0" xmlns:c="http://purl.org/rss/1.0/modules/content/" xmlns:m="http://search.yahoo.com/mrss/"><channel>
      <title>channel</title><item>
        <title><![CDATA[A &amp; <b>B</b>]]>\n  more</title><link> /posts/1?a=1&amp;b=2#x </link>
        <guid isPermaLink="false">cocoa-dom:1</guid><pubDate>Wed, 29 May 2019 10:16:00 GMT</pubDate>
        <description>&lt;p&gt;s&lt;/p&gt;</description><c:encoded><![CDATA[<p>c</p>]]></c:encoded>
        <author>x</author><m:thumbnail>t.jpg</m:thumbnail></item>
      <item><title>no guid</title><guid>https://site.example/2</guid></item></channel></rss>"""
    assert entries(SOURCE, text, WEB) == [
        {
            "id": "cocoa-dom:1",
            "url": "https://site.example/posts/1?a=1&b=2#x",
            "title": "A &amp; <b>B</b> more",
            "published": "2019-05-29T10:16:00+00:00",
            "summary": "<p>s</p>",
            "content": "<p>c</p>",
            "author": "x",
            "image": "t.jpg",
        },
        {"id": "https://site.example/2", "url": "https://site.example/2", "title": "no guid"},
    ]


def test_atom() -> None:
    text = """<feed xmlns="http://www.w3.org/2005/Atom"><id>feed</id><entry><title type="text">T</title><id>urn:1</id>
      <link rel="edit" href="/edit"/><link href="one"/><updated>2016-02-01T17:54:50+01:00</updated>
      <published>2016-02-01T17:22:00+01:00</published><author><name>N</name></author><summary>s</summary>
      <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><b>x</b></div></content></entry></feed>"""
    (fields,) = entries(SOURCE, text, WEB)
    assert "<b>x</b>" in fields.pop("content")
    assert fields == {
        "id": "urn:1",
        "url": "https://site.example/one",
        "title": "T",
        "published": "2016-02-01T17:22:00+01:00",
        "updated": "2016-02-01T17:54:50+01:00",
        "summary": "s",
        "author": "N",
    }


def test_rss_1() -> None:
    text = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
      xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="c"><items/></channel>
      <item rdf:about="https://site.example/1"><title>T</title><link>https://site.example/1</link>
      <dc:date>2017-06-21T10:33:10-07:00</dc:date><dc:creator>me</dc:creator></item></rdf:RDF>"""
    assert entries(SOURCE, text, WEB) == [
        {
            "id": "https://site.example/1",
            "url": "https://site.example/1",
            "title": "T",
            "published": "2017-06-21T10:33:10-07:00",
            "author": "me",
        }
    ]


def test_json_feed() -> None:
    text = """{"version": "https://jsonfeed.org/version/1", "items": [
      {"id": 7, "url": "https://site.example/7", "external_url": "https://other.example/", "title": " T ",
       "date_published": "2017-06-27T00:54:17Z", "content_html": "<p>x</p>", "author": {"name": "N"}},
      {"id": "8", "external_url": "https://other.example/8", "title": null}]}"""
    assert entries(SOURCE, text, WEB) == [
        {
            "id": "7",
            "url": "https://site.example/7",
            "title": "T",
            "published": "2017-06-27T00:54:17+00:00",
            "content": "<p>x</p>",
            "author": "N",
        },
        {"id": "8", "url": "https://other.example/8"},
    ]


def test_an_entry_without_guid_or_link_is_refused_and_shown() -> None:
    page = read(
        SOURCE, "<rss><channel><item><title>lost</title></item><item><link>/2</link></item></channel></rss>", WEB
    )
    assert [entry.key for entry in page.entries] == ["https://site.example/2"]
    assert page.refused[0].raw == "<item><title>lost</title></item>"


def test_a_feed_without_entries_is_blank_and_another_page_is_a_misfit() -> None:
    assert read(SOURCE, "<rss version='0.91'><channel><title>x</title></channel></rss>", WEB).blank is True
    for text in ("<html><body>down</body></html>", "plain words", '{"version": "1"}', "[]", "<urlset/>", "{broken"):
        page = read(SOURCE, text, WEB)
        assert (page.outcome, page.blank) == (Outcome.MISFIT, False)
        assert "feed" in page.reason


@pytest.mark.parametrize(
    "text",
    [
        "<rss><channel><item><title>a</title><guid>1</guid></item><item><title>b & c</title><guid>2</guid></item>"
        "</channel></rss>",
        "<rss><channel><item><title>a</title><guid>1</guid></item><item><title>b<guid>2</guid></item></channel></rss>",
        "<?xml version='1.0'?>\n<rss><channel><item><guid>1</guid></item><item><guid>2</guid></item></channel></rss>x",
        "\ufeff  <rss><channel><item><guid>1\x08</guid></item><item><guid>2</guid></item></channel></rss>",
        "<rss><channel><item><x:y>undeclared</x:y><guid>1</guid></item><item><guid>2</guid></item></channel></rss>",
    ],
)
def test_of_a_malformed_feed_what_can_be_read_is_read(text: str) -> None:
    page = read(SOURCE, text, WEB)
    assert page.outcome is Outcome.OK
    assert len(page.entries) + len(page.refused) == 2
    assert page.entries[-1].key.startswith(("1", "2"))


def test_html_entities_that_xml_does_not_know_are_read() -> None:
    title = "caf&eacute;&nbsp;&copy; &lt;b&gt; &amp;lt; &bogus;"
    text = f"<rss><channel><item><title>{title}</title><guid>1</guid></item></channel></rss>"
    assert entries(SOURCE, text, WEB)[0]["title"].startswith("café © <b> &lt;")


def test_entities_of_the_document_are_never_expanded() -> None:
    text = (
        '<!DOCTYPE r [<!ENTITY a "x"><!ENTITY b "&a;&a;"><!ENTITY f SYSTEM "file:///etc/hostname">]>'
        "<rss><channel><item><guid>1</guid><title>t &b; &f;</title></item></channel></rss>"
    )
    assert entries(SOURCE, text, WEB)[0]["title"] == "t"


def test_a_feed_s_dates_are_times_unless_the_file_says_text() -> None:
    columns = {column.name: column.type for column in SOURCE.resolved.columns}
    assert columns["published"] is ColumnType.DATETIME
    source = made(FEED.replace("{feed: published, optional: true}", "{feed: published, type: text}"), head=HEAD)
    text = "<rss><channel><item><guid>1</guid><pubDate>Seg, 24 Set 2018 19:42:40 -0300</pubDate></item></channel></rss>"
    assert entries(source, text, WEB)[0]["published"] == "Seg, 24 Set 2018 19:42:40 -0300"
    assert entries(SOURCE, text, WEB)[0]["published"] == "2018-09-24T19:42:40-03:00"
    assert "published" not in entries(SOURCE, text.replace("Seg, 24 Set", "soon"), WEB)[0]


# --- Broken feeds: what can be read is read, what is lost is counted ---

ITEM = "<item><title>t{n}</title><link>https://site.example/{n}?a=1&amp;b={n}</link></item>"
WHOLE = "<rss><channel>" + "".join(ITEM.format(n=n) for n in (3, 2, 1)) + "</channel></rss>"
ADDRESSES = [f"https://site.example/{n}?a=1&b={n}" for n in (3, 2, 1)]


def test_a_feed_that_is_cut_inside_an_entry_gives_those_before_it_and_refuses_it() -> None:
    for end in ("1?a=1&amp;b", "</title><link>https://site.example/1", "<title>t1"):
        page = read(SOURCE, WHOLE[: WHOLE.rindex(end) + len(end)], WEB)
        assert [entry.key for entry in page.entries] == ADDRESSES[:2]
        assert [row.reason for row in page.refused] == ["the page ends inside this entry"]


def test_a_feed_that_is_cut_between_entries_says_that_some_may_be_missing() -> None:
    page = read(SOURCE, WHOLE[: WHOLE.rindex("<item>")], WEB)
    assert [entry.key for entry in page.entries] == ADDRESSES[:2]
    assert [row.reason for row in page.refused] == ["the page is cut off: entries may be missing behind the last one"]
    again = read(SOURCE, WHOLE[: WHOLE.rindex("<item>")], WEB)
    assert again.refused[0].fingerprint == page.refused[0].fingerprint


def test_entries_behind_the_end_of_the_document_are_counted() -> None:
    page = read(SOURCE, WHOLE + ITEM.format(n=0) * 2, WEB)
    assert [entry.key for entry in page.entries] == ADDRESSES
    assert ["could not be read" in row.reason for row in page.refused] == [True, True]
    assert len({row.fingerprint for row in page.refused}) == 2


@pytest.mark.parametrize(
    "broken",
    [
        WHOLE.replace("&amp;", "&"),
        WHOLE.replace("t2", "R&D <b>x</i> &nope; &nbsp;"),
        WHOLE.replace("t2", "2 < 3 & 4"),
        WHOLE.replace("</channel>", "<p>unclosed</channel>"),
        WHOLE.replace("t2", "<![CDATA[a & b < c </item>]]> <"),
        WHOLE.replace("t2", "\x03\x00"),
    ],
    ids=["bare ampersand", "tags that cross", "bare less", "open tag", "cdata", "control characters"],
)
def test_one_broken_entry_does_not_change_the_addresses_of_any(broken: str) -> None:
    page = read(SOURCE, broken, WEB)
    assert ([entry.key for entry in page.entries], page.refused) == (ADDRESSES, [])


def test_names_of_characters_that_xml_does_not_know_are_read_also_where_a_dtd_is_named() -> None:
    text = '<?xml version="1.0"?><!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "rss-0.91.dtd">' + WHOLE
    assert entries(SOURCE, text.replace("t2", "caf&eacute;&nbsp;x"), WEB)[1]["title"] == "café x"


def test_entities_of_the_feed_s_own_are_never_expanded() -> None:
    text = '<!DOCTYPE rss [<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;&a;&a;">]>' + WHOLE.replace("t2", "&b;&b;")
    assert "title" not in entries(SOURCE, text, WEB)[1]


def test_what_is_no_entry_of_a_json_feed_is_refused_and_counted() -> None:
    page = read(SOURCE, '{"items": [{"id": "1"}, "stray", null, [], {"id": "2"}]}', WEB)
    assert [entry.key for entry in page.entries] == ["1", "2"]
    assert [(row.position, row.raw) for row in page.refused] == [(1, '"stray"'), (2, "null"), (3, "[]")]


def test_a_json_feed_that_is_cut_off_gives_what_is_whole_and_says_so() -> None:
    page = read(SOURCE, '{"title": "x", "items": [{"id": "1"}, {"id": "2"}, {"id": "3", "titl', WEB)
    assert [entry.key for entry in page.entries] == ["1", "2"]
    assert ["cut off" in row.reason for row in page.refused] == [True]


@pytest.mark.parametrize("version", ["0.90", "0.91", "0.92", "0.93", "0.94", "2.0"])
def test_rss_of_each_version(version: str) -> None:
    assert [
        fields["url"] for fields in entries(SOURCE, WHOLE.replace("<rss", f'<rss version="{version}"'), WEB)
    ] == ADDRESSES


def test_rss_0_90_has_its_entries_beside_the_channel() -> None:
    text = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://my.netscape.com/rdf/simple/0.9/">
      <channel><title>c</title></channel><item><title>T</title><link>https://site.example/1</link></item></rdf:RDF>"""
    assert entries(SOURCE, text, WEB) == [{"url": "https://site.example/1", "title": "T"}]
