"""`fyke new` on real list pages: what it proposes reads the count, the first and the last row that INDEX.tsv tells."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fyke.app.proposing import asking_source, proposals_of
from fyke.cli import run
from fyke.cli.try_ import saved_response
from fyke.sources.proposing import Asked

REAL = Path(__file__).resolve().parents[3] / "shared" / "realdata"
COUNT = re.compile(r"\b(?:items|entries|urls|products|rows here)=(\d+)")
EDGAR = "https://www.sec.gov/cgi-bin/browse-edgar?action=getcompany&CIK=0000320193&type=10-k"


@dataclass(frozen=True)
class Page:
    """A saved list. `titles`: how many of first and last title INDEX.tsv tells; `more`: rows besides its
    count; `last`: whether it tells the last row.
    """

    url: str
    titles: int = 2
    form: dict[str, str] = field(default_factory=dict)
    more: int = 0
    last: bool = True


PAGES = {
    "a01": Page("https://www.ggzy.gov.cn/information/pubTradingInfo/getTradList", form={"PAGENUMBER": "1"}),
    "a05": Page("http://search.ccgp.gov.cn/bxsearch?searchtype=1&page_index=1"),
    "a07": Page("https://www.fbo.gov/index?s=opportunity&mode=list&tab=list"),
    "a09": Page("https://www.dfa66.com/dfaets/news/infodisclosure/announcement/index.html"),
    "a11": Page("https://www.rtfund.com/main/xxpl/index.shtml"),
    "a13": Page("http://jslcae.com/huiyuanfuwu/huodongzhuanqu/", titles=1),
    "a15": Page(EDGAR, titles=0),
    "b02": Page("http://www.cninfo.com.cn/new/hisAnnouncement/query", form={"pageNum": "1"}),
    "b03": Page("https://tenders.example.org/search"),
    "b06": Page("https://api.github.com/repositories/11439734/issues?state=all&per_page=100&page=2"),
    "b07": Page("https://api.github.com/repos/betamaxpy/betamax/issues?state=all&per_page=100"),
    "c01": Page("http://www.cnblog.org/rss.xml", titles=0),
    "c03": Page("http://www.kc0011.net/rss", titles=1),
    "c05": Page("https://noticias.uol.com.br/rss", titles=0, last=False),
    "c07": Page("http://www.heise.de/developer/rss/news-atom.xml", titles=1),
    "c09": Page("http://sfbay.craigslist.org/search?format=rss", titles=0),
    "c11": Page("https://daringfireball.net/feeds/json", titles=0),
    "c13": Page("https://coding.monkeydom.de/posts.rss", titles=0),
    "c15": Page("https://www.livemint.com/rss/news", titles=1),
    "c17": Page("http://www.hebdenbridgetimes.co.uk/sitemap-article-2015-18.xml", titles=0),
    "c20": Page("https://andrescoto487.github.io/actualidadeurovision_sitemap/sitemap_1.xml", titles=0),
    "d11": Page("http://weixin.sogou.com/weixin?type=2&query=x"),
    "d14": Page("https://www.mypapershop.com/mm5/merchant.mvc?Screen=CTGY&Offset=24"),
    "d16": Page("http://www.michelson.pl/pierscionki-zareczynowe-1-html/", titles=0, last=False),
    "d20": Page("http://www.towerrevo.jp/", titles=0),
    # Three sticky rows stand above the thirty that INDEX.tsv counts.
    "d25": Page("https://forum.mindfactory.de/f42-bestellungen", titles=0, more=3),
}


def told() -> dict[str, tuple[Path, str]]:
    """Of each saved page its file and the values that are expected of it."""
    lines = (REAL / "INDEX.tsv").read_text(encoding="utf-8").splitlines()
    head = lines[0].split("\t")
    rows = [dict(zip(head, line.split("\t"), strict=False)) for line in lines[1:]]
    return {row["file"].partition("_")[0]: (REAL / row["file"], row["expected_values"]) for row in rows}


pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the saved pages are not here")


@pytest.mark.parametrize("name", PAGES)
def test_the_proposal_reads_what_is_on_the_page(name: str) -> None:
    page, (file, expected) = PAGES[name], told()[name]
    asked = Asked(page.url, form=page.form)
    one = proposals_of(saved_response(asking_source(asked), file, page.url), asked)[0]
    count = re.search(r"normal=(\d+)", expected) if page.more else COUNT.search(expected)
    assert count is not None
    assert (len(one.page.entries), one.page.refused) == (int(count[1]) + page.more, [])
    assert len({entry.key for entry in one.page.entries}) == len(one.page.entries)
    first, last = one.page.entries[page.more], one.page.entries[-1]
    assert [f"title={entry.fields['title']}" in expected for entry in (first, last)[: page.titles]] == [
        True
    ] * page.titles
    for entry in (first, last) if page.last else (first,):
        known = [entry.key, *(str(value) for value in entry.fields.values())]
        known += [re.sub(r"^https?://[^/]+", "", str(entry.fields.get("url", "")))]
        # Where a number is what INDEX.tsv tells of a row, it is in the address that was read.
        known += re.findall(r"\d{4,}[\d-]*\d|\d+$", f"{entry.key} {entry.fields.get('url', '')}")
        assert any(len(value) > 1 and value in expected for value in known), (entry.key, entry.fields)


@pytest.mark.parametrize("name", ["c22", "d01", "d03", "d05", "d28"])
def test_a_page_that_is_no_list_gives_no_proposal(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file, _ = told()[name]
    url = f"https://www.example.org/{'sitemap.xml.gz' if name == 'c22' else 'list'}"
    assert run(["new", url, "--page", str(file), "-o", "source.yaml"]) == 1
    assert list(tmp_path.iterdir()) == []
    assert ("blocked" in capsys.readouterr().out) is (name in ("d01", "d03", "d05"))
