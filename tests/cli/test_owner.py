"""`iriai owner`: which words it takes, and what a daemon takes from any client."""

from __future__ import annotations

import msgspec
import pytest

from iriai.cli.machine.owner import _headline, _request, _steps_text
from iriai.model.owner import OwnerWord
from iriai.model.problem import UsageProblem
from iriai.wire.envelopes import RequestBody
from iriai.wire.owner import AskOwner, OwnerReport, SayOwner

REPORT = OwnerReport(
    "ume",
    None,
    "",
    "",
    None,
    (("suspend", 0.0), ("continue", 300.0), ("vacate", None)),
    (),
    (),
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("", "", False), AskOwner()),
        (("here", "", True), SayOwner(OwnerWord.HERE, None, True)),
        (("away", "2h", False), SayOwner(OwnerWord.AWAY, 7200.0, False)),
        (("auto", "", False), SayOwner(None, None, False)),
    ],
)
def test_it_asks_what_was_meant(words, expected):
    assert _request(*words) == expected


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("gone", "", False), "say here, away or auto"),
        (("", "2h", False), "iriai owner here"),
        (("away", "", True), "iriai owner here --now"),
        (("auto", "2h", False), "iriai owner here --now"),
        (("here", "31d", False), "--for 2h"),
        (("here", "0.5", False), "--for 2h"),
        (("here", "soon", False), "write 90s"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(words, hint):
    with pytest.raises(UsageProblem) as refused:
        _request(*words)
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    "fields",
    [
        {"word": "gone"},
        {"word": "here", "for_s": 0.0},
        {"word": "here", "for_s": -1.0},
        {"word": "here", "for_s": 1e9},
        {"word": "here", "for_s": "2h"},
        {"word": "here", "vacates": 1},
        {},
    ],
)
def test_a_word_beyond_its_bounds_is_no_message(fields):
    content = msgspec.msgpack.encode({"type": "say-owner", **fields})
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(content, type=RequestBody)


def test_a_person_can_read_what_it_says():
    replace = msgspec.structs.replace
    assert _headline(REPORT) == "ume is not in use."
    used = replace(REPORT, in_use_s=60.0, why="its owner typed at a terminal")
    assert _headline(used) == "ume has been in use for 1m00s: its owner typed at a terminal."
    said = replace(used, word="here", word_left_s=90.0)
    assert _headline(said).endswith("its owner said here for 1m30s more.")
    assert _steps_text(REPORT) == (
        "After a sign: suspend at once, vacate never; tasks go on 5m00s after the last."
    )
