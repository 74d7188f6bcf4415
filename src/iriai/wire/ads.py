"""What clients ask about ads and who would match; part of `requests`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.ad import Value
from iriai.model.bounds import Count, Expression, Many, Name, Text, Words
from iriai.wire.exchange import ClientAnswer, Query


class AdRow(msgspec.Struct, frozen=True):
    """One machine's ad, as it is now."""

    name: Name
    attributes: Annotated[dict[Words, Value], Many]
    """By HTCondor's names (docs/spec/007)."""
    requirements: Expression
    """What its owner requires of jobs; empty: nothing."""
    rank: Expression
    cluster: Name = ""
    """Of a site of several clusters that which it belongs to."""


class AdList(ClientAnswer, frozen=True, tag="ad-list"):
    """Answer to `AskAds`, by name."""

    rows: Annotated[tuple[AdRow, ...], Many]
    note: Words = ""
    """Whose are missing, and why; empty: these are all."""


class AskAds(Query[AdList], frozen=True, tag="ask-ads"):
    """The ads of all machines that this one knows, or of one."""

    machine: Expression = ""


class ClauseRow(msgspec.Struct, frozen=True):
    """One of the clauses that must all hold."""

    text: Words
    machines: Count
    """On how many it holds, whatever the others do."""


class MatchRow(msgspec.Struct, frozen=True):
    """One machine."""

    machine: Name
    matches: bool
    failing: Annotated[tuple[tuple[Words, Words], ...], Many]
    """Clauses that do not hold there, and what they saw."""
    owner: Annotated[tuple[tuple[Words, Words], ...], Many]
    """The same of what its owner requires of the job."""
    cluster: Name = ""
    """Of a site of several clusters that which it belongs to."""


class MatchTable(ClientAnswer, frozen=True, tag="match-table"):
    """Answer to `AskMatch`; machines that match first, then by how little is missing."""

    requirements: Expression
    """As it was understood."""
    clauses: Annotated[tuple[ClauseRow, ...], Many]
    rows: Annotated[tuple[MatchRow, ...], Many]
    note: Words = ""
    """Which clusters' machines are missing, and why; empty: none are."""


class AskMatch(Query[MatchTable], frozen=True, tag="ask-match"):
    """Which machines a job of the asking user with these requirements could run on now."""

    requirements: Text
