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
      {"id": "8", "external_url": "https://other.example/8", "title": null}, "stray"]}"""
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
        "<rss><channel><item><title>a</title><guid>1</guid></item><item><title>b & c</title><guid>2</guid></item>",
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
    assert "published" not in entries(SOURCE, text, WEB)[0]
