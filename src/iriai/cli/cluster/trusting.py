"""Trust in words: for which users a home is trusted on other machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from iriai.model.admission_rules import ALL
from iriai.model.home_trust import HomeTrust
from iriai.model.units import printable

if TYPE_CHECKING:
    from iriai.wire.joining import ClusterReport


def trust_of(report: ClusterReport) -> HomeTrust:
    """Return the trust documents of the cluster's operators."""
    return HomeTrust({row.home: row.users for row in report.trusted})


def users_text(users: Iterable[str]) -> str:
    """Return the users as a part of a sentence."""
    names = tuple(users)
    if ALL in names:
        return "every user with an ordinary id"
    return ", ".join(printable(name) for name in names) or "nobody"
