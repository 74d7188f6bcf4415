"""What is understood, in which order it holds together, and what is refused with its place."""

from __future__ import annotations

import pytest
from hypothesis import given

from iriai.classad.expression import EXPRESSION_BYTES_MAX, LEVELS_MAX, parse_expression
from iriai.classad.parser import DEPTH_MAX, parse
from iriai.classad.unparse import text_of
from iriai.model.problem import UsageProblem
from tests.classad.generated import nodes


def canonical(text: str) -> str:
    return parse_expression(text, "a test").text


def problem(text: str) -> UsageProblem:
    with pytest.raises(UsageProblem) as caught:
        parse_expression(text, "--requirements")
    return caught.value


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a&&(b&&c)||!d", "a && b && c || !d"),
        ("(a || b) && c", "(a || b) && c"),
        ("1+2*3==7", "1 + 2 * 3 == 7"),
        ("(1+2)*3", "(1 + 2) * 3"),
        ("2-(3-4)", "2 - (3 - 4)"),
        ("- -3", "- -3"),
        ("a is undefined", "a =?= undefined"),
        ("A isnt TRUE", "A =!= true"),
        ("my.Cpus > target.RequestCpus", "MY.Cpus > TARGET.RequestCpus"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("2 * a ?: 3", "2 * a ?: 3"),
        ('ISUNDEFINED(a) || "say \\"x\\""==b', 'isUndefined(a) || "say \\"x\\"" == b'),
        ('member(Arch, {"X86_64","ARM"})', 'member(Arch, {"X86_64", "ARM"})'),
        ("1e20 > .5", "1.0e+20 > 0.5"),
    ],
)
def test_one_meaning_has_one_text(text: str, same: str):
    assert canonical(text) == same
    assert canonical(same) == same


@given(nodes)
def test_the_text_of_a_tree_is_read_as_that_tree(node):
    assert parse(text_of(node)) == node


@pytest.mark.parametrize(
    ("text", "where", "hint"),
    [
        ("", "a value is missing at its end", "go on with a value"),
        ("Memory >", "a value is missing at its end", "go on with a value"),
        ("Memory > 4G", "'G' where an operator belongs at character 11", "MiB"),
        ("Arch = 1", "= at character 6", "write == to compare"),
        ('Arch == "X86', "a text that is not closed at character 9", "close it with"),
        ("(Cpus > 1", "')' is missing at its end", "go on with ')'"),
        ("Cpus > 1)", "')' where an operator belongs at character 9", "write an operator"),
        ("'Arch'", "a name in quotes at character 1", "double quotes"),
        ("Ads[1]", "a record or a subscript at character 4", "member()"),
        ("slot.Cpus > 1", "the scope 'slot' at character 1", "MY (its own ad) or TARGET"),
        ("TARGET", "TARGET alone at character 1", "TARGET.NAME"),
        ("time() > 5", "time() reads the clock, at character 1", "use one of: ceiling"),
        ("random() < 0.5", "random() draws random numbers, at character 1", "use one of:"),
        ("cosh(1)", "there is no function cosh(), at character 1", "use one of:"),
        ('regexp("(a+)+", Name)', "regexp() matches a pattern", "use one of:"),
        ('eval("1")', "there is no function eval()", "use one of:"),
        (
            "TARGET.Requirements",
            "Requirements, which is an expression itself,",
            "the expression itself",
        ),
        ("010", "010, which would be octal,", "leave the 0 out"),
        ("9223372036854775808", "9223372036854775808, which is too large,", "go up to"),
        ("1e999", "1e999, which is too large,", "go up to"),
        ('"\\q"', "'\\q' at character 2", 'there are \\"'),
        ("Cpus > 1 # now", "'#', which has no meaning here at character 10", "operators"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, where: str, hint: str):
    found = problem(text)
    assert found.message.startswith("--requirements: ")
    assert where in found.message
    assert hint in found.hint


def test_a_person_who_asks_once_may_look_for_a_pattern():
    found = parse_expression('regexp("^gpu", Machine)', "EXPR", patterns=True)
    assert found.text == 'regexp("^gpu", Machine)'


def test_an_expression_has_an_end():
    longest = "x" * EXPRESSION_BYTES_MAX
    assert canonical(longest) == longest
    assert f"{EXPRESSION_BYTES_MAX + 1} bytes" in problem(longest + "x").message


def test_levels_have_an_end():
    assert canonical("(" * (DEPTH_MAX - 1) + "x" + ")" * (DEPTH_MAX - 1)) == "x"
    for deep in ("(" * DEPTH_MAX + "x", "-" * 60 + "x", "1" + "+1" * 60, "a ? " * 60 + "b"):
        assert f"more than {DEPTH_MAX} levels" in problem(deep).message


def test_a_chain_has_an_end():
    parts = LEVELS_MAX - 2
    assert canonical(" && ".join(["x"] * parts)).count("x") == parts
    found = problem(" || ".join(["x"] * (LEVELS_MAX + 2)))
    assert f"more than {LEVELS_MAX} operators" in found.message


def test_clauses_are_what_must_all_hold():
    both = parse_expression('Cpus > 1 && (Arch == "ARM" || Gpus > 0)', "a test")
    assert [each.text for each in both.clauses()] == ["Cpus > 1", 'Arch == "ARM" || Gpus > 0']
    one = parse_expression("Cpus > 1 || Gpus > 0", "a test")
    assert one.clauses() == (one,)
