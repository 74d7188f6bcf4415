"""Machines ejected from the cluster. The list only grows, so merging is union.

An ejection names a machine and a moment: certificates issued to it until then are refused by
everybody for ever, whether they are renewed or not. A machine of that name that joins again with a
new token has a newer certificate, and is welcome.
"""

from __future__ import annotations

import msgspec

from iriai.identity.documents.signed_document import DocumentKind, read_body, read_document
from iriai.model.bounds import Name, Seconds, Words
from iriai.model.problem import Refused

REASON_LENGTH_MAX = 200
"""The longest reason: a line."""
EJECTIONS_MAX = 10_000
"""Ejections over the life of a cluster; more are not plausible."""

RENEWED_S = 0.001
"""How much later an ejection is that another operator signs anew: one of the same moment is no
news, and nobody joins in between."""


class Ejection(msgspec.Struct, frozen=True):
    """The ejection of a machine."""

    machine: Name
    at_wall_s: Seconds
    """Certificates issued to the machine until then are refused."""
    reason: Words = ""


class SignedEjection(msgspec.Struct, frozen=True):
    """An ejection, and the signed document of it."""

    ejection: Ejection
    operator: str
    document: bytes
    key: bytes
    """The operator's public key."""


def read_ejection(document: bytes, authority_der: bytes) -> SignedEjection:
    """The ejection that `document` holds, signed by an operator of this cluster.

    Raises:
        Refused: it is malformed, or nobody who may say so signed it.
    """
    read = read_document(document, DocumentKind.EJECTION, authority_der)
    what = f"an ejection signed by {read.operator}"
    ejection = read_body(Ejection, read.body, "bad-ejection", what)
    return SignedEjection(ejection, read.operator, document, read.key)


class Ejections:
    """All ejections known to this machine, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, SignedEjection] = {}

    def rows(self) -> list[SignedEjection]:
        """Return all ejections, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def until(self, machine: str) -> float | None:
        """Return until when certificates of `machine` are refused; None if it was never ejected."""
        held = self._by_name.get(machine)
        return held.ejection.at_wall_s if held else None

    def words(self, machine: str) -> str:
        """Return who ejected a machine and why, for messages; empty if nobody did."""
        held = self._by_name.get(machine)
        if held is None:
            return ""
        why = f" ({held.ejection.reason})" if held.ejection.reason else ""
        return f"by operator {held.operator}{why}"

    def add(self, signed: SignedEjection) -> bool:
        """Take `signed` in; returns whether it says anything new.

        Raises:
            Refused: there are too many already.
        """
        name = signed.ejection.machine
        held = self._by_name.get(name)
        if held is not None and held.ejection.at_wall_s >= signed.ejection.at_wall_s:
            return False
        if held is None and len(self._by_name) >= EJECTIONS_MAX:
            raise Refused(
                "too-many-ejections",
                f"{EJECTIONS_MAX} machines are ejected already",
                "create a new cluster",
            )
        self._by_name[name] = signed
        return True
