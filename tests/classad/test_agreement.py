"""Columns answer as HTCondor's own library does, whatever is asked of whatever ads."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iriai.classad.ad_table import AdTable
from iriai.classad.column_evaluator import ColumnEvaluator
from iriai.classad.columns import ColumnVector, NotCovered, ValueType
from iriai.classad.expression import LEVELS_MAX, Expression, parse_expression
from iriai.classad.reference_evaluator import evaluate
from iriai.classad.syntax_tree import ERROR, UNDEFINED, Result, holds, rank
from iriai.classad.unparse import text_of
from tests.classad.generated import ads, nodes


def value_at(column: ColumnVector, row: int, texts: list[str]) -> Result:
    def here(array):
        return array[0 if len(array) == 1 else row]

    if column.error is not None and here(column.error):
        return ERROR
    if column.undefined is not None and here(column.undefined):
        return UNDEFINED
    if column.kind is ValueType.TEXT:
        return texts[here(column.data)] if column.text is None else column.text
    return here(column.data).item()


def evaluated(node, rows, one, *, rows_are_my: bool) -> list[Result | None] | None:
    """What columns say of each row; None: the library is to be asked."""
    table = AdTable()
    for ad in rows:
        table.add(ad)
    other = {name.lower(): value for name, value in one.items()}
    evaluator = ColumnEvaluator(table.texts, table.column, other, rows_are_my=rows_are_my)
    try:
        column = evaluator.evaluate(node)
    except NotCovered:
        return None
    doubtful = evaluator.doubtful
    texts = list(table.texts.codes)
    return [
        None
        if doubtful is not None and doubtful[0 if len(doubtful) == 1 else row]
        else value_at(column, row, texts)
        for row in range(len(rows))
    ]


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(nodes, st.lists(ads, min_size=1, max_size=4), ads, st.booleans())
def test_columns_agree_with_the_library(node, rows, one, rows_are_my):
    found = evaluated(node, rows, one, rows_are_my=rows_are_my)
    expression = Expression(text_of(node), node)
    for row, mine in enumerate(found or ()):
        if mine is not None:
            both = (rows[row], one) if rows_are_my else (one, rows[row])
            truth = evaluate(expression, *both)
            assert type(mine) is type(truth)
            assert mine == truth


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Cpus > 1 && Gpu", [True, UNDEFINED, False]),
        ("Cpus > 2 || Gpu", [True, UNDEFINED, True]),
        ("!Gpu", [False, UNDEFINED, True]),
        ('arch == "x86_64" || Arch > 3', [True, ERROR, UNDEFINED]),
        ('Arch =?= "x86_64"', [False, False, False]),
        ('Arch < "b"', [False, True, UNDEFINED]),
        ("Gpu =?= undefined", [False, True, False]),
        ("-7 / Cpus", [-1, -3, 0]),
        ("Cpus % 3 + 0.5", [1.5, 2.5, 0.5]),
        ("Gpu ? Cpus : 0", [4, UNDEFINED, 0]),
        ("Gpu ?: false", [True, False, False]),
        ("Memory >= TARGET.Cpus", [True, True, False]),
        ("isUndefined(Arch) || Arch == Wanted", [True, False, True]),
        ("Cpus / (Cpus - 2)", [2, ERROR, 1]),
        ('Wanted == "PPC" || Wanted < "PPC"', [False, False, False]),
    ],
)
def test_columns_cover_what_people_write(text, values):
    node = parse_expression(text, "a test").node
    rows = [
        {"Arch": "X86_64", "Cpus": 4, "Gpu": True},
        {"Arch": "arm", "Cpus": 2},
        {"Cpus": 9, "Gpu": False},
    ]
    job = {"Memory": 8, "Wanted": "X86_64"}
    found = evaluated(node, rows, job, rows_are_my=False)
    assert found == values


def test_one_kind_of_value_here_and_another_there_is_for_the_library():
    node = parse_expression("Odd == 1", "a test").node
    assert evaluated(node, [{"Odd": 1}, {"Odd": "one"}], {"A": 1}, rows_are_my=False) is None


def test_a_division_by_nothing_is_for_the_library():
    node = parse_expression("1.0 / LoadAvg", "a test").node
    found = evaluated(node, [{"LoadAvg": 0.5}, {"LoadAvg": 0.0}], {"A": 1}, rows_are_my=False)
    assert found == [2.0, None]


def test_the_longest_chain_is_not_too_long_for_the_library():
    chain = parse_expression(" && ".join(["x"] * (LEVELS_MAX - 2)), "a test")
    assert evaluate(chain, {"x": True}, {"y": 1}) is True
    deep = parse_expression("(" * 40 + "x" + " || x) && x" * 40, "a test")
    assert evaluate(deep, {"x": True}, {"y": 1}) is True


def test_a_bare_name_is_looked_up_in_both_ads_its_own_first():
    name = parse_expression("Cpus", "a test")
    assert evaluate(name, {"A": 1}, {"Cpus": 2}) == 2
    assert evaluate(name, {"Cpus": 1}, {"Cpus": 2}) == 1


def test_numbers_count_as_truth_and_what_is_no_number_ranks_as_nothing():
    assert [holds(each) for each in (True, 2, 0.5, 0, "yes", UNDEFINED, ERROR)] == [
        *[True] * 3,
        *[False] * 4,
    ]
    assert [rank(each) for each in (True, 2, 0.5, "yes", UNDEFINED, float("nan"))] == [
        1.0,
        2.0,
        0.5,
        *[0.0] * 3,
    ]


def test_rows_change_and_are_emptied():
    table = AdTable()
    first, second = table.add({"Cpus": 1, "Arch": "ARM"}), table.add({"Cpus": 2})
    assert table.put(second, {"cpus": 3, "Gpu": True}) == ["cpus", "gpu"]
    assert table.change(first, "cpus", 5)
    assert not table.change(first, "cpus", 5)
    assert table.column("cpus").data.tolist() == [5, 3]
    table.put(second, {})
    assert table.column("gpu") is None
    assert table.column("cpus").undefined.tolist() == [False, True]
    assert [table.add({"Cpus": row}) for row in range(40)] == list(range(2, 42))
    assert table.column("cpus").data.tolist()[2:] == list(range(40))
