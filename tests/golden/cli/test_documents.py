"""What every command says with `--json` is as its golden file says: its keys, types and codes."""

from __future__ import annotations

import json

import pytest

from tests.golden.cli.golden_file import difference, left_over
from tests.golden.cli.help_pages import command_names, page_name
from tests.golden.cli.shape import Rules, shape_text
from tests.golden.cli.story import DOCUMENTS, told

RULES = Rules({"state": ".*", "id": "ume-.*"}, frozenset({"load"}), "has_.*")


@pytest.mark.long
def test_documents_are_as_they_were():
    said = told()
    names = command_names()
    # The others are called by what stands behind them, and say nothing themselves.
    groups = {words[:-1] for words in names if words}
    changed = [_change(words, said) for words in names if words not in groups]
    assert not any(changed), "\n\n".join(filter(None, changed))
    assert left_over(DOCUMENTS, said) == []


def _change(words: tuple[str, ...], said: dict[str, str]) -> str:
    name, what = page_name(words), " ".join(("iriai", *words))
    if name not in said:
        return f"tests/golden/cli/story.py does not call {what}"
    return difference(DOCUMENTS / f"{name}.txt", said[name], f"{what} --json")


@pytest.mark.parametrize(
    ("document", "shape"),
    [
        ({"state": "held", "user": "ann"}, {"state": "held", "user": "<text>"}),
        (
            {"id": "ume-1", "number": 1, "s": 0.5},
            {"id": "ume-1", "number": "<int>", "s": "<float>"},
        ),
        ({"id": "84be6a92", "more": True}, {"id": "<text>", "more": True}),
        ({"load": None, "has_avx": True}, {"load": "<of the machine>"}),
        ([{"a": 1}, {"a": None, "b": []}], [{"a": "<int> | None", "b?": []}]),
        ([{"state": each} for each in "baccde"], [{"state": {"<one of>": [*"abcde"]}}]),
        ([1, {"a": 1}], [{"<one of>": [{"a": "<int>"}, "<int>"]}]),
    ],
)
def test_a_shape_keeps_what_every_machine_says(document: object, shape: object):
    assert json.loads(shape_text(document, RULES)) == shape
