"""The report of a simulation as somebody sees it who opens the file in a browser."""

from __future__ import annotations

import pytest

from tests.support.browser import seen

pytestmark = pytest.mark.long

LOG = ("--generate", "lublin", "--jobs", "120", "--processors", "32")
RULES = ("--compare", "easy,easy+lottery", "--workers", "1")


@pytest.fixture
def looked_at(tmp_path):
    """Opens a page."""
    scratch = tmp_path / "browser"
    scratch.mkdir()
    return lambda page: seen(page, scratch)


def complete(shown):
    """Whether the page is all there by itself, without a complaint."""
    header, *rows = shown.rows
    assert rows
    assert all([*header[1:], *(cell for row in rows for cell in row)])
    for name, width, ink in shown.pictures:
        assert width > 0, f"the picture {name} does not load"
        assert ink > 0, f"the picture {name} is white"
    assert shown.fetched == []
    assert shown.console == []
    return True


def test_a_report_shows_its_table_and_every_picture(shell, looked_at, tmp_path):
    said = shell("simulate", *LOG, *RULES, "--report", str(tmp_path / "out"), "--json")
    shown = looked_at(tmp_path / "out" / "index.html")
    assert complete(shown)
    assert shown.title == f"iriai: {said.document['log']['name']}"
    header, *rows = shown.rows
    assert header[0] == "simulation"
    assert [(row[0], len(row)) for row in rows] == [
        ("easy", len(header)),
        ("easy+lottery", len(header)),
    ]
    used = [each["metrics"]["utilisation"] for each in said.document["simulations"]]
    assert [row[header.index("processors used")] for row in rows] == [
        f"{u * 100:.1f} %" for u in used
    ]
    assert [name for name, _, _ in shown.pictures] == [
        *("Use", "Queue", "Waiting by width", "Waiting by account"),
        *("Shares: easy", "Who ran where: easy"),
        *("Shares: easy+lottery", "Who ran where: easy+lottery"),
    ]


def test_what_is_wrong_with_a_page_does_not_escape(looked_at, tmp_path):
    picture = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>{}</svg>"
    (tmp_path / "beside.svg").write_text(picture.format("<rect width='9' height='9'/>"))
    page = tmp_path / "page.html"
    page.write_text(
        "<title>a &amp; b</title><table><tr><td>full<td></table>"
        f'<img alt="cut off" src="data:image/svg+xml,{picture[:-9]}">'
        f'<img alt="white" src="data:image/svg+xml,{picture.format("")}">'
        '<img alt="beside" src="beside.svg"><script src="http://127.0.0.1:9/drawing.js"></script>'
        "<script>nothing.there()</script>"
    )
    shown = looked_at(page)
    assert shown.title == "a & b"
    assert shown.rows == [["full", ""]]
    assert shown.pictures == [("cut off", 0, 0), ("white", 9, 0), ("beside", 0, 0)]
    assert shown.fetched == ["http://127.0.0.1:9/drawing.js"]
    assert any("nothing is not defined" in line for line in shown.console)
