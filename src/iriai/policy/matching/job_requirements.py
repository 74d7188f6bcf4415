"""Keys, ranks and arrays in which requirements of jobs are matched; see `match`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iriai.classad.expression import Expression, parse_expression
from iriai.model.ad import Value
from iriai.model.problem import UsageProblem

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]
Ranks = NDArray[np.float64]


class DemandKey(NamedTuple):
    """The properties that make jobs match alike."""

    requirements: str
    rank: str
    traits: tuple[tuple[str, Value], ...]
    """Attributes of the job that its own expressions or some owner's policy look at, by key."""


class MatchRank(NamedTuple):
    """The rank of a machine among those that match; smaller comes first."""

    less_liked: float
    """By the job's rank."""
    likes_less: float
    """By the machine's."""


def rank_of(text: str) -> Expression | None:
    """A rank that can be used; None: all machines are alike."""
    if not text:
        return None
    try:
        return parse_expression(text, "rank")
    except UsageProblem:
        return None
