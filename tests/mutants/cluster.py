"""Small mistakes in what a machine makes of its cluster; each is found from a seed.

What is not here cannot be found, because it does no harm: a message that its sender may not send
and that is let in. The parts look once more at what it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iriai.cluster.member import ClusterMember
from iriai.machine.core import Machine
from iriai.protocol.election.site_view import SiteView
from iriai.protocol.ledger.ledger_sync import LedgerSync
from iriai.protocol.messages.effects import MembersChanged, UsageForgotten
from iriai.protocol.messages.members import MemberState
from iriai.protocol.rpc.inquiries import Inquiries
from iriai.sim.world.keyed_signatures import KeyedVerifier
from tests.mutants.mutants import Patch, around, instead
from tests.sim.lying import peers as lying_peers
from tests.sim.lying import world as lying_world


def _only_the_first(whole: Any, member: ClusterMember, entries: Any, now: Any) -> Any:
    return whole(member, entries[:1], now)


def _forgets_the_dead(whole: Any, member: ClusterMember, effects: Any, now: Any) -> Any:
    effects = list(effects)
    for each in (
        e for effect in effects if isinstance(effect, MembersChanged) for e in effect.members
    ):
        if each.state is MemberState.DEAD:
            member._events.append(UsageForgotten(each.name))
    return whole(member, effects, now)


def _of_who_is_there(whole: Any, site: SiteView, members: Any) -> None:
    whole(site, [member for member in members if member.is_present])


def _as_if_sent_here(whole: Any, machine: Machine, sender: str, part: Any, message: Any) -> bool:
    return whole(machine, machine.name, part, message)


def _as_if_asked(whole: Any, inquiries: Inquiries, sender: str, inform: Any) -> None:
    question = inquiries._open.get(inform.number)
    whole(inquiries, question.machine if question is not None else sender, inform)


CLUSTER: dict[str, tuple[Patch, int, Callable[[int], str | None]]] = {
    "only the first of the entries that changed is handled": (
        around(ClusterMember, "_entries_changed", _only_the_first),
        1,
        lying_peers.fails,
    ),
    "an entry that changed is not given to the ledger": (
        instead(LedgerSync, "learned", lambda *_: []),
        1,
        lying_peers.fails,
    ),
    "counters are forgotten with a machine that is dead": (
        around(ClusterMember, "_apply", _forgets_the_dead),
        2,
        lying_peers.fails,
    ),
    "the site view is not told who is gone": (
        around(SiteView, "update", _of_who_is_there),
        1,
        lying_peers.fails,
    ),
    "a machine speaks for any cluster": (
        instead(ClusterMember, "_speaks_for_its_cluster", lambda *_: True),
        1,
        lying_peers.fails,
    ),
    "a document of an operator is not verified": (
        instead(KeyedVerifier, "check_document", lambda *_: ""),
        1,
        lying_peers.fails,
    ),
    "an answer counts from whoever gives it": (
        around(Inquiries, "_informed", _as_if_asked),
        1,
        lying_peers.fails,
    ),
    "a message is judged as if this machine had sent it": (
        around(Machine, "takes", _as_if_sent_here),
        1,
        lying_world.fails,
    ),
}
"""With each a seed that found it when this was written, and the world that it was found in."""
