"""Expressions of a machine's file are checked when it is read, and what is wrong is told."""

from __future__ import annotations

import pytest

from iriai.config.reader import BadConfiguration, parse_configuration
from iriai.config.values import EXPRESSION_LENGTH_MAX
from iriai.host.owner_expressions import check_expressions

NEITHER = "is neither a delay nor a condition"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('suspend = "nevr"', NEITHER),
        ('vacate = "-5s"', NEITHER),
        ('discard = "10mni"', NEITHER),
        ('suspend = "KeyboardIdle <"', "owner.suspend: a value is missing"),
        ('reclaim = "time() > 5"', "owner.reclaim"),
        ('continue = "KeyboardIdle > 300"', "owner.suspend is none"),
        ('suspend = "0s"\ncontinue = "KeyboardIdle > 300"', "owner.suspend is none"),
        (f'vacate = "{"!" * 400}true"', "owner.vacate"),
        (f'vacate = "{"x" * (EXPRESSION_LENGTH_MAX + 1)}"', "a ClassAd expression"),
    ],
)
def test_what_is_no_step_is_refused_with_its_key(lines: str, words: str):
    with pytest.raises(BadConfiguration) as caught:
        check_expressions(parse_configuration(f"[owner]\n{lines}\n", "iriai.toml"))
    told = f"{caught.value.message} {caught.value.hint}"
    assert words in told
    assert "owner." in told


@pytest.mark.parametrize(
    "lines",
    [
        'suspend = "KeyboardIdle < 60"\ncontinue = "KeyboardIdle > 300"',
        'suspend = "KeyboardIdle < 60"\ncontinue = "5min"\nvacate = "never"',
        'suspend = "true"',
        'profile = "desk"\nvacate = "TARGET.RequestMemory > 4096"',
    ],
)
def test_delays_and_expressions_may_stand_beside_each_other(lines: str):
    check_expressions(parse_configuration(f"[owner]\n{lines}\n", "iriai.toml"))
