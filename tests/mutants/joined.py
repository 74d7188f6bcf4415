"""Small mistakes about back ends as members of a cluster; each is found from a seed."""

from __future__ import annotations

from typing import Any

from iriai.protocol.election.election import Election
from tests.mutants.mutants import Patch, around


def _may_lead(whole: Any, election: Election, *given: Any, **named: Any) -> None:
    whole(election, *given, **named)
    election._may_lead = True


def _follows_nobody(whole: Any, election: Election, *given: Any, **named: Any) -> None:
    whole(election, *given, **(named | {"follows": ""}))


JOINED: dict[str, tuple[Patch, int]] = {
    "a back end leads where it knows no broker": (around(Election, "__init__", _may_lead), 5),
    "a back end follows itself at first": (around(Election, "__init__", _follows_nobody), 6),
}
