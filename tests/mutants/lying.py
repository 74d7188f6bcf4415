"""Mendings against members that lie, each taken out; a world with a liar finds it from a seed."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from iriai.protocol.directory import entry_table
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.ledger.use_bounds import UseBounds
from iriai.protocol.membership.doubts import Doubts
from iriai.protocol.membership.membership import Membership
from iriai.protocol.membership.probes import Probes
from iriai.protocol.messages.members import MemberState
from tests.mutants.mutants import Patch, around, instead


def _hears_of_any_incarnation(whole: Any, membership: Any, sender: Any, doubt: Any, now: Any):
    """As if it were of the one that the machine published; the machine goes beyond it."""
    publisher, peer = membership._publisher, membership._peers.get(doubt.machine)
    if doubt.machine == publisher.name and doubt.incarnation > publisher.incarnation:
        publisher.incarnation = doubt.incarnation
    if peer is not None and doubt.incarnation > peer.member.incarnation:
        doubt = replace(doubt, incarnation=peer.member.incarnation)
    whole(membership, sender, doubt, now)


def _is_dead_at_once(whole: Any, membership: Any, peer: Any, doubt: Any, now: Any) -> None:
    whole(membership, peer, doubt, now)
    if doubt.is_dead:
        membership._become(peer, replace(peer.member, state=MemberState.DEAD))


def _refutes_at_once(whole: Any, membership: Any, now: Any) -> None:
    if membership._refutes_s < inf:
        membership._refutes_s = now.steady_s
    whole(membership, now)


def _is_answered_by_all(whole: Any, probes: Any, number: int, sender: str) -> Any:
    own = probes.own
    is_own = own is not None and own.number == number
    return whole(probes, number, own.machine if is_own else sender)


def _forgets_its_certificate(whole: Any, table: Any, *args: Any) -> None:
    whole(table, *args)
    table._verifier.known.pop(table._own, None)


def _no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_table, "AHEAD_S_MAX", 1e15)


LYING: dict[str, tuple[Patch, int]] = {
    "a doubt counts for any incarnation": (
        around(Membership, "_receive_suspicion", _hears_of_any_incarnation),
        1,
    ),
    "a doubt needs no signature": (
        instead(Doubts, "is_believed", lambda _self, doubt, *_: doubt.by != _self._own),
        1,
    ),
    "whoever doubts again and again is believed": (
        instead(Doubts, "refuted", lambda *_: None),
        1,
    ),
    "a machine is dead when one says so": (around(Membership, "_suspect", _is_dead_at_once), 1),
    "an incarnation may be ahead of all clocks": (_no_bound, 1),
    "anybody answers a probe": (around(Probes, "answered", _is_answered_by_all), 1),
    "a machine does not know its own certificate": (
        around(EntryTable, "put", _forgets_its_certificate),
        194,
    ),
    "a machine counts what it says": (instead(UseBounds, "excess", lambda *_: ""), 1),
}
"""With each a seed that found it when this was written."""
