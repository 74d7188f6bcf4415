"""Tables on terminals of different widths."""

import re
import sys
from operator import itemgetter

import pytest

from iriai.cli.framework.table import Column, print_table

COLUMNS = (
    Column("Machine", itemgetter(0)),
    Column("State", itemgetter(1)),
    Column("Speed", itemgetter(2), right=True, wide=True),
    Column("Why", itemgetter(3), folds=True, below=True),
)
WORDS = "tasks failed within a second, the last 5, of 2 jobs: it swallows jobs"
ROWS = [("ume", "up", "1", ""), ("momo", "up", "2", WORDS)]


@pytest.fixture
def printed(monkeypatch, capsys):
    """What a terminal of so many columns shows, its lines without what stands at their ends."""

    def show(width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        print_table(COLUMNS, ROWS)
        text = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
        return [line.strip() for line in text.splitlines() if line.strip()]

    return show


def test_on_a_wide_terminal_everything_stands_in_the_table(printed):
    head, _, _, momo = printed(120)
    assert head.split() == ["Machine", "State", "Speed", "Why"]
    assert momo.endswith(WORDS)


def test_on_a_narrow_terminal_sentences_stand_below_it_and_keep_their_words(printed):
    head, _, ume, momo, *below = printed(60)
    assert head.split() == ["Machine", "State"]
    assert (ume.split(), momo.split()) == (["ume", "up"], ["momo", "up"])
    assert below[0].startswith("momo  tasks failed")
    assert " ".join(" ".join(below).split()) == f"momo {WORDS}"
