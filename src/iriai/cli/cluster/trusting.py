"""What several commands say of trust: for which users a home speaks on other machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from iriai.model.admission_rules import ALL
from iriai.model.home_trust import HomeTrust
from iriai.model.units import printable

if TYPE_CHECKING:
    from iriai.wire.joining import ClusterReport


def trust_of(report: ClusterReport) -> HomeTrust:
    """What operators of the cluster said."""
    return HomeTrust({row.home: row.users for row in report.trusted})


def users_words(users: Iterable[str]) -> str:
    """For whom, in a sentence."""
    names = tuple(users)
    if ALL in names:
        return "every user with an ordinary id"
    return ", ".join(printable(name) for name in names) or "nobody"
