from pathlib import Path

import pytest

from fyke.errors import UsageError
from fyke.lab.replay import load_index, plain_url
from fyke.sources.loader import load_folder

REAL = Path(__file__).resolve().parents[2] / "examples" / "real" / "replay.tsv"
HEAD = "method\turl\tfile\tstatus\theaders\tmatch\n"


def write(folder: Path, *lines: str, head: str = HEAD) -> Path:
    (folder / "page.html").write_text("page")
    index = folder / "index.tsv"
    index.write_text(head + "".join(f"{line}\n" for line in lines))
    return index


def test_a_line_gives_request_file_status_headers_and_match(tmp_path: Path) -> None:
    line = 'POST\thttps://A.example:443/api#x\tpage.html\t201\t{"X-A": "b"}\tpage=1&kind=02'
    (page,) = load_index(write(tmp_path, "# a remark", "", line))
    assert (page.method, page.url, page.status) == ("POST", "https://a.example/api", 201)
    assert page.headers == {"X-A": "b", "Content-Type": "text/html"}
    assert page.match == (("kind", "02"), ("page", "1"))
    assert page.file == tmp_path / "page.html"


def test_short_lines_and_fewer_columns_take_the_defaults(tmp_path: Path) -> None:
    (page,) = load_index(
        write(tmp_path, "page.html\tGET\thttp://a.example/", head="file\tmethod\turl\n"),
    )
    assert (page.status, page.match, page.headers) == (200, (), {"Content-Type": "text/html"})


def test_files_are_below_the_root_or_beside_the_index(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "page.html").write_text("another")
    lines = ("GET\thttp://a.example/1\tpage.html", "GET\thttp://a.example/2\t./page.html")
    far, near = load_index(write(tmp_path, *lines), root)
    assert (far.file, near.file) == (root / "page.html", tmp_path / "page.html")


@pytest.mark.parametrize(
    ("line", "field", "says"),
    [
        ("get\thttp://a.example/\tpage.html", "method", "one of GET, POST"),
        ("GET\t/relative\tpage.html", "url", "absolute http or https"),
        ("GET\thttp://a.example/\tno.html", "file", "a file of at most"),
        ("GET\thttp://a.example/\t../../etc/passwd", "file", "below the root"),
        ("GET\thttp://a.example/\t", "file", "below the root"),
        ("GET\thttp://a.example/\tpage.html\tok", "status", "200 to 599 is wanted, not 'ok'"),
        ("GET\thttp://a.example/\tpage.html\t100", "status", "200 to 599"),
        ("GET\thttp://a.example/\tpage.html\t200\tA: b", "headers", "is wanted, not 'A: b'"),
        ('GET\thttp://a.example/\tpage.html\t200\t{"A": 1}', "headers", "JSON object of texts"),
        ('GET\thttp://a.example/\tpage.html\t200\t{"Content-Length": "1"}', "headers", "cannot be replayed"),
        ('GET\thttp://a.example/\tpage.html\t200\t{"A": "b\\r\\nC: d"}', "headers", "cannot be replayed"),
        ("POST\thttp://a.example/\tpage.html\t200\t\tpage", "match", "not 'page'"),
        ("GET\thttp://a.example/\tpage.html\t200\t\t\tmore", "match", "7 cells, but 6 columns"),
    ],
)
def test_a_mistake_names_file_line_and_field(tmp_path: Path, line: str, field: str, says: str) -> None:
    index = write(tmp_path, "GET\thttp://good.example/\tpage.html", line)
    with pytest.raises(UsageError) as caught:
        load_index(index)
    assert (caught.value.file, caught.value.line, caught.value.field) == (str(index), 3, field)
    assert says in str(caught.value)


def test_one_request_has_one_answer(tmp_path: Path) -> None:
    lines = ("GET\thttp://a.example/\tpage.html", "GET\thttp://A.example:80/#f\tpage.html")
    with pytest.raises(UsageError, match="the same request as on line 2"):
        load_index(write(tmp_path, *lines))


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("method\turl\tfiel\n", r"index.tsv:1: fiel: no such column \(did you mean 'file'\?\)"),
        ("method\turl\n", "file: this column is missing"),
        ("method\turl\tfile\tfile\n", "a column comes twice"),
        ("", "names no page"),
    ],
)
def test_a_wrong_head_is_named(tmp_path: Path, head: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_index(write(tmp_path, head=head))


def test_an_index_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_index(tmp_path / "none.tsv")


def test_addresses_are_compared_without_default_port_and_fragment() -> None:
    assert plain_url("HTTP://A.example:80") == "http://a.example/"
    assert plain_url("https://a.example/x?b=1&a=中#f") == "https://a.example/x?b=1&a=%E4%B8%AD"
    assert plain_url("https://a.example?a=1#f") == "https://a.example/?a=1"
    assert plain_url("https://a.example:8443/") == "https://a.example:8443/"


def test_the_index_of_the_real_sites_has_the_first_page_of_each_source(tmp_path: Path) -> None:
    for line in REAL.read_text().splitlines():
        name = line.split("\t")[2] if line.startswith(("GET", "POST")) else "./"
        if not name.startswith("./"):
            (tmp_path / name).touch()
    saved = {(page.method, page.url) for page in load_index(REAL, tmp_path)}
    sources = [one.source for one in load_folder(REAL.parent)]
    assert len(sources) > 30
    for source in sources:
        request = source.list_request(source.listings()[0], None)
        assert (request.method, plain_url(request.url)) in saved, source.resolved.id
