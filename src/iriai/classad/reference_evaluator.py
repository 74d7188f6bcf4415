"""The meaning of expressions: evaluation as HTCondor's own library does it.

Importing this module loads that library (15 MB): whoever has no expression in use leaves it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import classad2

from iriai.classad.expression import Expression
from iriai.classad.syntax_tree import ERROR, UNDEFINED, Result
from iriai.model.ad import Value

# The library looks a bare name up in the other ad as well, as HTCondor does when it matches, only
# after it has made an ad from text for the first time.
classad2.parseOne('MyType = "Machine"')

EXPRESSIONS_KEPT = 1024
"""Parsed, for the next time; a machine sees few different ones."""


@lru_cache(EXPRESSIONS_KEPT)
def _tree(text: str) -> classad2.ExprTree:
    return classad2.ExprTree(text)


def evaluate(
    expression: Expression, my: Mapping[str, Value], target: Mapping[str, Value]
) -> Result:
    """What it comes to in the ad `my`, with `target` on the other side; a list is an error."""
    scope, other = classad2.ClassAd(dict(my)), classad2.ClassAd(dict(target))
    found = _tree(expression.text).eval(scope, other)
    if isinstance(found, classad2.Value):
        return UNDEFINED if found == classad2.Value.Undefined else ERROR
    return found if isinstance(found, bool | int | float | str) else ERROR
