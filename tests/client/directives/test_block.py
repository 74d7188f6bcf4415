"""Which lines of a script are directives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.client.directives.block import Dialect, read_block
from iriai.model.problem import Problem, UsageProblem
from tests.client.directives.reading import words


def lines(text: str) -> list[tuple[str, ...]]:
    return [each.words for each in read_block(text.encode(), "job").lines]


def test_directives_stand_in_the_leading_comments():
    block = read_block(
        b"#!/bin/bash -l\n# about it\n\n#SBATCH -n 1\n#IRIAI --hold\nmodule load r\n#SBATCH -c 4\n",
        "job",
    )
    assert block.interpreter == "/bin/bash -l"
    assert [(each.dialect, each.words, str(each.place)) for each in block.lines] == [
        (Dialect.SLURM, ("-n", "1"), "job, line 4"),
        (Dialect.IRIAI, ("--hold",), "job, line 5"),
    ]
    assert [str(each.place) for each in block.unread] == ["job, line 7"]


@pytest.mark.parametrize("line", ["##SBATCH -n 1", "# SBATCH -n 1", " #SBATCH -n 1", "#SBATCHES"])
def test_what_is_no_directive(line: str):
    assert lines(f"#!/bin/sh\n{line}\n") == []


def test_quotes_group_words_and_comments_end_them():
    assert lines('#SBATCH -J "two words" --comment=a#b # why\n#PBS\n') == [
        ("-J", "two words", "--comment=a#b"),
        (),
    ]


def test_a_quotation_has_to_end_on_its_line():
    with pytest.raises(UsageProblem, match="job, line 1: a quotation is not closed"):
        lines("#SBATCH -J 'two\n")


@given(
    st.lists(
        st.sampled_from(
            [
                "#SBATCH",
                "#PBS",
                "-",
                "--",
                "=",
                ":",
                ",",
                "%",
                "-l",
                "-o",
                "nodes",
                "1",
                "'",
                "gpu",
                "\\",
                "?",
            ]
        )
    )
)
def test_any_directive_is_understood_or_refused(parts: list[str]):
    for system in ("#SBATCH", "#PBS"):
        try:
            found = words(f"{system} {' '.join(parts)}", f"{system} {''.join(parts)}")
        except Problem as refused:  # anything else is a mistake of ours
            found = [f"-{refused.code}"]
        assert all(word.startswith("-") for word in found)
