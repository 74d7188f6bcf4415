"""What clients ask about ads and who would match; part of `requests`."""

from __future__ import annotations

import msgspec

from iriai.model.ad import Value


class AskAds(msgspec.Struct, frozen=True, tag="ask-ads"):
    """The ads of all machines that this one knows, or of one."""

    machine: str = ""


class AdRow(msgspec.Struct, frozen=True):
    """One machine's ad, as it is now."""

    name: str
    attributes: dict[str, Value]
    """By HTCondor's names (docs/spec/007)."""
    requirements: str
    """What its owner requires of jobs; empty: nothing."""
    rank: str
    cluster: str = ""
    """Of a site of several clusters that which it belongs to."""


class AdList(msgspec.Struct, frozen=True, tag="ad-list"):
    """Answer to `AskAds`, by name."""

    rows: tuple[AdRow, ...]
    note: str = ""
    """Whose are missing, and why; empty: these are all."""


class AskMatch(msgspec.Struct, frozen=True, tag="ask-match"):
    """Which machines a job of the asking user with these requirements could run on now."""

    requirements: str


class ClauseRow(msgspec.Struct, frozen=True):
    """One of the clauses that must all hold."""

    text: str
    machines: int
    """On how many it holds, whatever the others do."""


class MatchRow(msgspec.Struct, frozen=True):
    """One machine."""

    machine: str
    matches: bool
    failing: tuple[tuple[str, str], ...]
    """Clauses that do not hold there, and what they saw."""
    owner: tuple[tuple[str, str], ...]
    """The same of what its owner requires of the job."""
    cluster: str = ""
    """Of a site of several clusters that which it belongs to."""


class MatchTable(msgspec.Struct, frozen=True, tag="match-table"):
    """Answer to `AskMatch`; machines that match first, then by how little is missing."""

    requirements: str
    """As it was understood."""
    clauses: tuple[ClauseRow, ...]
    rows: tuple[MatchRow, ...]
    note: str = ""
    """Which clusters' machines are missing, and why; empty: none are."""
