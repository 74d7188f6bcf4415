"""The report: one page that needs nothing else, and the same bytes for the same seed."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from iriai.model.problem import UsageProblem
from iriai.sim.report.report import write_report
from iriai.sim.runs.cases import compared, run_cases
from iriai.sim.runs.document import document, encoded
from iriai.sim.workload.generator import generate
from iriai.sim.workload.settings import ReplaySettings

pytestmark = pytest.mark.long


def simulated(text, *, jobs=120):
    log = generate("lublin", jobs, 32, 4)
    cases = compared(text, ReplaySettings(seed=9))
    simulations = run_cases(log, cases, 1, lambda _: None, keep_records=True)
    return log, document(log, [case.label for case in cases], simulations), simulations


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.images, self.outside = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "src":
                self.images.append(value)
            if name in ("src", "href") and not value.startswith("data:"):
                self.outside.append(value)


def test_a_report_is_one_page_with_pictures_in_it(tmp_path):
    log, made, simulations = simulated("easy,easy+lottery")
    write_report(tmp_path / "new" / "out", log, made, simulations)
    page = (tmp_path / "new" / "out" / "index.html").read_text()
    reader = Reader()
    reader.feed(page)
    assert reader.outside == []
    assert reader.tags.count("img") == 4 + 2 * 2
    for image in reader.images:
        svg = base64.b64decode(image.partition("base64,")[2])
        assert ET.fromstring(svg).tag.endswith("svg")
    assert "easy+lottery" in page
    assert (tmp_path / "new" / "out" / "metrics.json").read_bytes() == encoded(made)


def test_a_long_log_has_no_chart_of_who_ran_where(tmp_path):
    log, made, simulations = simulated("easy", jobs=400)
    write_report(tmp_path, log, made, simulations)
    assert "Who ran where" not in (tmp_path / "index.html").read_text()


def test_names_from_a_log_are_text_not_markup(tmp_path):
    log, made, simulations = simulated("easy", jobs=10)
    from dataclasses import replace

    write_report(tmp_path, replace(log, name="<b>a&b</b>"), made, simulations)
    assert "<b>" not in (tmp_path / "index.html").read_text()


def test_the_same_seed_gives_the_same_bytes_on_every_python():
    """The file holds what 3.11.7, 3.12.1 and 3.13.0 wrote; another order of sums would show."""
    made = simulated("easy,easy+lottery,easy+paper000,easy+stride,conservative+lottery,fcfs")[1]
    assert encoded(made) == (Path(__file__).parent / "metrics.json").read_bytes()


def test_a_report_over_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    log, made, simulations = simulated("easy", jobs=10)
    with pytest.raises(UsageProblem, match="is not a directory"):
        write_report(tmp_path / "file", log, made, simulations)
