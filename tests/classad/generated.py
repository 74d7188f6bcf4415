"""Expressions and ads drawn at random, over few names and values, so that they meet."""

from __future__ import annotations

from hypothesis import strategies as st

from iriai.classad.functions import ALLOWED
from iriai.classad.parser import LEVELS, joined
from iriai.classad.syntax_tree import (
    ERROR,
    UNDEFINED,
    Attribute,
    Binary,
    Call,
    Conditional,
    Default,
    Items,
    Literal,
    Node,
    Unary,
)

NAMES = ("Arch", "Cpus", "LoadAvg", "Gpu", "owner", "Memory", "Odd")
TEXTS = ("X86_64", "x86_64", "ARM", "_", "é", "É", "", 'a"b\\')
INTEGERS = st.sampled_from([0, 1, 2, 3, 7, 64, -1, 2**63 - 1, -(2**63), 2**53 + 1])
REALS = st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0, -3.25, 1e300, 2.0**53])
VALUES = st.one_of(st.booleans(), INTEGERS, REALS, st.sampled_from(TEXTS))
OF_NAME = {
    "Arch": st.sampled_from(TEXTS),
    "Cpus": INTEGERS,
    "LoadAvg": REALS,
    "Gpu": st.booleans(),
    "owner": st.sampled_from(TEXTS),
    "Memory": INTEGERS,
    "Odd": VALUES,
}
"""Each of one kind, but `Odd`."""
ads = st.fixed_dictionaries({"MyType": st.just("Any")}, optional=OF_NAME)
attributes = st.builds(
    Attribute, st.sampled_from(["", "", "MY", "TARGET"]), st.sampled_from([*NAMES, "ARCH", "no"])
)
# A negative number is written with a minus sign: it is not a literal.
literals = st.builds(
    Literal,
    st.one_of(VALUES, st.sampled_from([UNDEFINED, ERROR])).filter(
        lambda value: isinstance(value, str) or str(value)[0] != "-"
    ),
)
OPERATORS = [operator for level in LEVELS[2:] for operator in level]


def _larger(node: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    some = st.lists(node, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Binary, st.sampled_from(OPERATORS), node, node),
        st.builds(Binary, st.sampled_from(OPERATORS), node, node),
        st.builds(joined, st.sampled_from(["&&", "||"]), node, node),
        st.builds(joined, st.sampled_from(["&&", "||"]), node, node),
        st.builds(Unary, st.sampled_from("!-+~"), node),
        st.builds(Conditional, node, node, node),
        st.builds(Default, node, node),
        st.builds(Call, st.sampled_from(["isUndefined", "isError"]), st.tuples(node)),
        st.builds(Call, st.just("ifThenElse"), st.tuples(node, node, node)),
        st.builds(Call, st.sampled_from(sorted(ALLOWED.values())), some),
        st.builds(lambda item, items: Call("member", (item, Items(items))), node, some),
    )


nodes = st.recursive(st.one_of(attributes, attributes, literals), _larger, max_leaves=8)
