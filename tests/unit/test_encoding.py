"""SCENARIOS 25: Chinese pages are garbled."""

from __future__ import annotations

import codecs
import csv
import re
import time
from pathlib import Path

import pytest

from fyke.fetchers.encoding import SAMPLE, Decoded, decode

REAL = Path(__file__).resolve().parents[3] / "shared" / "realdata"


def title(page: Decoded) -> str:
    found = re.search(r"<title>(.*?)</title>", page.text)
    assert found is not None, page.text[:200]
    return found[1]


def page(head: str, heading: str, body: str = "<p>采购项目中标公告，特此公告。</p>") -> str:
    return f"<html><head>{head}<title>{heading}</title></head><body>{body}</body></html>"


# U+9555 and U+5586 are outside GB2312, U+20BB7 outside GBK; all are inside GB18030.
SIX = {
    "no header and a meta gb2312 with characters outside GB2312": (
        "",
        page('<meta charset="gb2312">', "朱镕基与王喆").encode("gb18030"),
        "朱镕基与王喆",
        ("gb18030", "meta"),
    ),
    "header utf-8 over GBK bytes": (
        "text/html; charset=utf-8",
        page("", "关于体育设施采购项目的公告").encode("gbk"),
        "关于体育设施采购项目的公告",
        ("gb18030", "detector"),
    ),
    "header iso-8859-1 and a meta gbk": (
        "text/html; charset=ISO-8859-1",
        page('<meta http-equiv="Content-Type" content="text/html; charset=gbk">', "中标公告").encode("gbk"),
        "中标公告",
        ("gb18030", "meta"),
    ),
    "misspelt meta attributes": (
        "text/html",
        page('<meta http-eqiv="Content-Type" conten="text/html; chraset=gb2312" />', "成交结果公告").encode("gbk"),
        "成交结果公告",
        ("gb18030", "meta"),
    ),
    "a character that exists only in GB18030": (
        "text/html; charset=gb2312",
        page("", "𠮷林省采购公告").encode("gb18030"),
        "𠮷林省采购公告",
        ("gb18030", "http"),
    ),
    "UTF-8 with a BOM and a meta gb2312": (
        "text/html; charset=gb2312",
        codecs.BOM_UTF8 + page('<meta charset="gb2312">', "更正公告").encode(),
        "更正公告",
        ("utf-8", "bom"),
    ),
}


@pytest.mark.parametrize("case", SIX)
def test_chinese_titles_come_out_exactly(case: str) -> None:
    content_type, body, expected, claim = SIX[case]
    found = decode(body, content_type)
    assert title(found) == expected
    assert (found.encoding, found.source, found.replaced) == (*claim, 0)


def test_an_empty_body_is_empty_text() -> None:
    assert decode(b"", "text/html; charset=gbk") == Decoded("", "utf-8", "utf-8", 0)


def test_meta_gb2312_over_utf8_bytes_is_utf8() -> None:
    body = page('<meta charset="gb2312">', "女儿出嫁").encode()
    assert decode(body, "text/html; charset=gb2312")[1:] == ("utf-8", "utf-8", 0)


def test_utf8_cut_within_a_character_stays_utf8_and_counts_the_loss() -> None:
    body = page("", "公告", "<p>" + "体育中心采购项目" * 20).encode()[:-1].replace("项".encode(), "项".encode()[:2], 1)
    found = decode(body, "text/html; charset=gb2312")
    assert title(found) == "公告"
    assert (found.encoding, found.replaced) == ("utf-8", 1)


def test_gbk_cut_within_a_character_stays_gbk_and_counts_the_loss() -> None:
    body = page('<meta charset="gbk">', "公告", "<p>" + "体育中心采购项目" * 30).encode("gbk") + b"\xd6"
    found = decode(body, "")
    assert title(found) == "公告"
    assert (found.encoding, found.source, found.replaced) == ("gb18030", "meta", 1)


def test_a_replacement_character_that_the_site_sent_is_not_counted() -> None:
    assert decode("<p>坏\ufffd了</p>".encode(), "").replaced == 0
    body = ("<p>" + "体育中心采购项目\ufffd" * 20).encode() + b"\xe4"
    assert decode(body, "").replaced == 1


def test_a_page_in_no_encoding_counts_its_losses() -> None:
    body = b"<title>x</title>" + bytes([0x81, 0x20, 0xFF, 0xFE, 0x20]) * 50
    assert decode(body, "text/html; charset=gbk", "gbk").replaced >= 50


def test_a_header_that_takes_any_bytes_does_not_beat_chinese() -> None:
    body = page("", "关于公布中标结果的通知", "<p>采购人：市体育局。</p>" * 10).encode("gbk")
    found = decode(body, "text/html; charset=ISO-8859-1")
    assert title(found) == "关于公布中标结果的通知"


def test_latin_text_with_a_latin_header_stays_latin() -> None:
    body = page("", "Résumé des marchés", "<p>Où est le café de la gare, s'il vous plaît ?</p>").encode("latin-1")
    found = decode(body, "text/html; charset=iso-8859-1")
    assert title(found) == "Résumé des marchés"
    assert (found.encoding, found.source) == ("windows-1252", "http")


@pytest.mark.parametrize("label", ["big5", "shift_jis", "euc-kr", "euc-jp", "windows-1251", "koi8-r", "iso-8859-2"])
def test_other_declared_encodings_are_read(label: str) -> None:
    text = {"big5": "政府採購公告", "shift_jis": "入札公告", "euc-jp": "入札公告", "euc-kr": "입찰 공고"}.get(label, "")
    text = text or {"iso-8859-2": "Zamówienia publiczne łódź"}.get(label, "Закупки и торги")
    found = decode(page(f"<meta charset={label}>", text, text * 3).encode(label), "")
    assert title(found) == text
    assert found.replaced == 0


def test_iso_2022_is_not_taken_for_ascii() -> None:
    found = decode(page("<meta charset=iso-2022-jp>", "入札公告", "").encode("iso-2022-jp"), "")
    assert title(found) == "入札公告"


def test_an_xml_declaration_is_a_claim() -> None:
    body = '<?xml version="1.0" encoding="gb2312"?><rss><title>公告喆</title></rss>'.encode("gb18030")
    assert title(decode(body, "text/xml")) == "公告喆"


@pytest.mark.parametrize(
    ("codec", "bom"),
    [("utf-16-le", codecs.BOM_UTF16_LE), ("utf-16-be", codecs.BOM_UTF16_BE), ("utf-32-le", codecs.BOM_UTF32_LE)],
)
def test_a_bom_wins(codec: str, bom: bytes) -> None:
    found = decode(bom + page("", "公告").encode(codec), "text/html; charset=gbk")
    assert (title(found), found.source) == ("公告", "bom")


def test_the_source_can_force_an_encoding() -> None:
    body = page("<meta charset=utf-8>", "公告").encode("gbk")
    found = decode(body, "text/html; charset=utf-8", "gb2312")
    assert (title(found), found.encoding, found.source) == ("公告", "gb18030", "source")


@pytest.mark.parametrize(
    "label", ["no-such-charset", "base64", "../../etc", "x" * 40, "rot13", "utf-7", "idna", "mbcs"]
)
def test_a_label_that_names_no_encoding_is_no_claim(label: str) -> None:
    body = page(f'<meta charset="{label}">', "采购公告").encode("gbk")
    assert title(decode(body, f"text/html; charset={label}")) == "采购公告"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"),
        ("text/html", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"),
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("", b"\xff\xd8\xff\xe0\0\x10JFIF"),
        ("application/octet-stream", b"\x01\x02\0\0\xff\xfe\xfd"),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", b"PK\x03\x04\x14\0"),
        ("", b"\x1f\x8b\x08\0\0\0\0\0"),
    ],
)
def test_what_is_no_text_has_none(content_type: str, body: bytes) -> None:
    assert decode(body, content_type) == Decoded("", "", "", 0)


def test_a_page_of_html_served_as_an_image_is_text() -> None:
    assert title(decode(page("", "登录").encode(), "image/jpeg")) == "登录"
    assert decode("全文".encode(), "application/octet-stream").text == "全文"


def expected(claim: str) -> str | None:
    found = re.search(r"measured=([\w-]+)", claim)
    return found[1] if found else None


@pytest.mark.skipif(not REAL.exists(), reason="the saved pages are not here")
def test_every_saved_page_is_read_as_what_it_was_measured_to_be() -> None:
    with (REAL / "INDEX.tsv").open(encoding="utf-8") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    same = {"ascii": "utf-8", "gb2312": "gb18030", "iso-8859-1": "windows-1252", "iso-8859-15": "iso8859-15"}
    found, wanted = {}, {}
    for row in rows:
        body = (REAL / row["file"]).read_bytes()
        measured = expected(row["encoding"])
        read = decode(body, "")
        found[row["file"]] = (read.encoding, read.replaced)
        wanted[row["file"]] = (same.get(measured, measured) if measured else "", 0)
    assert len(found) > 30
    assert found == wanted


def test_a_body_of_any_size_shows_the_detector_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []

    def detect(data: bytes, **_: object) -> dict[str, str]:
        shown.append(len(data))
        return {"encoding": "gb18030"}

    monkeypatch.setattr("fyke.fetchers.encoding.chardet.detect", detect)
    body = b"<script>" + b"x" * 200_000 + b"</script>" + "采购公告".encode("gbk") * 50_000
    assert decode(body, "").text.endswith("采购公告")
    assert shown == [SAMPLE]


@pytest.mark.serial
def test_a_page_of_15_kb_is_decoded_within_60_microseconds() -> None:
    body = page("<meta charset=utf-8>", "公告", "<p>体育中心采购项目 some text</p>" * 400).encode()[:15_000]
    body = body[: body.rindex(b"<p>")]
    best = 1.0
    for _ in range(20):
        begun = time.perf_counter()
        for _ in range(20):
            decode(body, "text/html; charset=utf-8")
        best = min(best, (time.perf_counter() - begun) / 20)
    assert best < 60e-6
