"""Small mistakes in the cores of links; a story of links finds each from a seed."""

from __future__ import annotations

from typing import Any

from iriai.links.address_book import AddressBook
from iriai.links.attempt import Attempt, NotReached
from iriai.links.circuits import Circuits
from iriai.links.core import LinkCore
from iriai.links.keepalive import Keepalive
from iriai.links.peer_connection import PeerConnection
from iriai.links.relay import Relay
from tests.mutants.mutants import Patch, around, instead


def _gives_up_at_somebody_else(whole: Any, attempt: Any, missed: Any) -> None:
    is_refusal = missed.is_refusal or missed.code == "other-machine"
    whole(attempt, NotReached(missed.code, missed.message, is_refusal=is_refusal))


def _tries_one_way(whole: Any, attempt: Any, missed: Any) -> None:
    whole(attempt, missed)
    attempt.ways = []


def _yields_never(whole: Any, core: Any, machine: str, *args: Any, **more: Any) -> Any:
    peer = core.peers.get(machine)
    attempt = peer.attempt if peer is not None else None
    if peer is not None:
        peer.attempt = None
    refusal = whole(core, machine, *args, **more)
    if peer is not None:
        peer.attempt, peer.answered_until_s = attempt, 0.0
    return refusal


def _knows_no_instance(whole: Any, peer: Any, link: Any, now_wall_s: float) -> None:
    peer.instance = link.instance
    whole(peer, link, now_wall_s)


def _loses_nothing(whole: Any, core: Any, peer: Any, *args: Any) -> None:
    whole(core, peer, *args)
    peer.is_lossy = False


def _drops_unnoticed(whole: Any, core: Any, peer: Any, now: Any) -> None:
    was_lossy = peer.is_lossy
    whole(core, peer, now)
    peer.is_lossy = was_lossy


LINKS: dict[str, tuple[Patch, int]] = {
    "somebody else at an address ends the attempt": (
        around(Attempt, "fail", _gives_up_at_somebody_else),
        5,
    ),
    "only the first address is tried": (around(Attempt, "fail", _tries_one_way), 2),
    "where a machine was reached is forgotten": (
        instead(AddressBook, "reached", lambda *_: None),
        1,
    ),
    "two that dial each other both go on": (around(LinkCore, "decide", _yields_never), 92),
    "a machine that started again is taken for the one before": (
        around(PeerConnection, "begin", _knows_no_instance),
        61,
    ),
    "messages that a broken link lost are not reported": (
        around(LinkCore, "_lose", _loses_nothing),
        2,
    ),
    "messages held too long are lost unnoticed": (
        around(LinkCore, "_poll_unlinked", _drops_unnoticed),
        29,
    ),
    "held messages are not sent": (instead(PeerConnection, "release", lambda *_: []), 1),
    "who waits for a relay waits for ever": (
        instead(LinkCore, "_relay_settled", lambda *_: None),
        2,
    ),
    "an attempt that failed is never repeated": (
        instead(LinkCore, "_retry_later", lambda *_: None),
        59,
    ),
    "the end of a link ends no circuits": (
        instead(LinkCore, "_close_circuits", lambda *_: None),
        2,
    ),
    "a relay tells no end that the other is gone": (instead(Relay, "link_over", lambda *_: []), 2),
    "a circuit opens only from one side": (instead(Circuits, "_is_incoming", lambda *_: False), 2),
    "an idle link is closed at one end": (instead(LinkCore, "bye", lambda *_: []), 2),
    "a silent link is kept": (instead(Keepalive, "is_silent", lambda *_: False), 1),
    "a quiet link is asked nothing": (instead(Keepalive, "is_ping_due", lambda *_: False), 1),
}
