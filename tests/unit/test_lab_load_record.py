"""The record of a load test: curves that are well formed, a summary with its machine, nothing secret."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fyke.lab.load.figures import Limits, Request, Round, Sample
from fyke.lab.load.plot import Line, Panel, drawing, nice_top
from fyke.lab.load.record import Record, curves, keep, summary
from fyke.lab.load.rounds import LoadPlan
from fyke.lab.machine import machine

SVG = "{http://www.w3.org/2000/svg}"


def a_round(workers: int) -> Round:
    requests = [Request(n * 0.1, n * 0.1 + 0.4, f"/detail/{n}", n != 3) for n in range(40 * workers)]
    return Round(
        workers=workers,
        limits=Limits(cores=2, workers=workers, slots=4 * workers, host_concurrency=1000),
        requests=requests,
        samples=[Sample(0.0, 40, 4, {"workers": 0.0}), Sample(5.0, 0, 0, {"workers": 1.0})],
        failures=1,
        finished=True,
    )


def a_record(**changes: object) -> Record:
    plan = LoadPlan(variables={"FYKE_LEDGER": "postgresql://u:geheim@h/d"})
    return Record(machine=machine(), plan=plan, backend="sqlite", rounds=[a_round(1), a_round(3)])


def test_the_curves_are_well_formed_and_have_a_line_for_each_round() -> None:
    root = ElementTree.fromstring(curves(a_record()))
    assert root.tag == f"{SVG}svg"
    assert len(root.findall(f".//{SVG}g")) == 3
    # Measured and linear; a backlog of each round.
    assert len(root.findall(f".//{SVG}polyline")) == 4
    assert len(root.findall(f".//{SVG}rect")) == 1 + 120


def test_a_name_with_marks_of_xml_breaks_no_drawing() -> None:
    text = drawing("a < b & c", [Panel('"x"', "<", "&", lines=[Line("<&>", [(0.0, 1.0), (2.0, 3.0)], marks=True)])])
    assert "a < b & c" in [each.text for each in ElementTree.fromstring(text).iter(f"{SVG}text")]


def test_nothing_measured_is_an_empty_chart_and_no_error() -> None:
    ElementTree.fromstring(drawing("nothing", [Panel("none", "x", "y", lines=[Line("empty", [])])]))


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (-3, 1), (1, 1), (1.01, 2), (2.4, 2.5), (26, 50), (99, 100), (100, 100), (0.03, 0.05)]
)
def test_the_scale_ends_at_a_round_number_that_holds_every_point(value: float, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


def test_the_record_has_every_request_and_no_password(tmp_path: Path) -> None:
    place = keep(a_record(), tmp_path / "load")
    text = (place / "record.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert "geheim" not in text + (place / "summary.md").read_text(encoding="utf-8")
    assert [len(one["requests"]) for one in found["rounds"]] == [40, 120]
    assert found["rounds"][0]["requests"][1][:2] == [0.1, 0.5]
    ElementTree.fromstring((place / "load.svg").read_text(encoding="utf-8"))


def test_a_record_is_never_written_over(tmp_path: Path) -> None:
    places = [keep(a_record(), tmp_path, now=1_800_000_000.0) for _ in range(3)]
    assert [place.name for place in places] == [f"2027-01-15-080000-1-3{end}" for end in ("", "_2", "_3")]


def test_the_summary_says_where_and_when_and_what_limits() -> None:
    record = a_record()
    text = summary(record)
    assert record.machine.date in text
    assert "| 3 |" in text
    assert "the site's latency" in text
