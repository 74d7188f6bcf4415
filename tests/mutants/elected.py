"""Small mistakes in what elects, refills and acknowledges; each is found from a seed.

What is not here cannot be found, because it does no harm: two machines that stay broker, a broker
that starts at once, matches that are never told again, a gap in reports that nobody sees, wants and
reports that are not said again within seconds, counters that come before their report, or receipts
that never come cost time and messages; what is said each half-minute, or another broker, makes it
good.
"""

from __future__ import annotations

from typing import Any

from iriai.broker.intake.sessions import Sessions
from iriai.broker.state.reserved_heads import ReservedHeads
from iriai.home.request_publisher import RequestPublisher
from iriai.machine.core import Machine
from iriai.node.admission import Admission
from iriai.node.core import Node
from iriai.node.offer_builder import Capabilities
from iriai.node.settings import admit_everybody
from iriai.protocol.messages.effects import Send
from iriai.protocol.messages.elections import AskBroker, BrokerIs
from iriai.protocol.messages.scheduling import Counted
from tests.mutants.mutants import Patch, around, instead, lost_message, nothing


def _still_good(whole: Any, capabilities: Capabilities, capability: Any) -> float | None:
    minted_s = whole(capabilities, capability)
    if minted_s is not None:
        capabilities._outstanding[capability.slot] = capability
        capabilities._minted_s[capability.slot] = minted_s
    return minted_s


def _nothing_counted_so_far(whole: Any, node: Node, now: Any) -> Any:
    """What comes with a whole report is lost; what changes later is told."""
    is_whole = node._report.is_whole
    made = whole(node, now)
    if not is_whole:
        return made
    return [e for e in made if not (type(e) is Send and type(e.message) is Counted)]


def _judges_nobody(whole: Any, admission: Admission, run: Any, wall_s: float) -> Any:
    admission._judge_user = admit_everybody
    return whole(admission, run, wall_s)


ELECTED: dict[str, tuple[Patch, int]] = {
    "AskBroker is never sent": (lost_message(AskBroker), 2),
    "BrokerIs is never sent": (lost_message(BrokerIs), 2),
    "a machine tells a new broker nothing": (instead(Machine, "_resend_all", nothing), 3),
    "a node tells a new broker nothing": (
        around(
            Machine, "_resend_all", lambda _whole, self: self._home and self._home.resend_requests()
        ),
        3,
    ),
    "a home tells a new broker nothing": (instead(RequestPublisher, "resend", nothing), 43),
    "a machine does not see that its broker began anew": (
        instead(Machine, "_is_of_term", nothing),
        3,
    ),
    "a capability is taken twice": (around(Capabilities, "redeem", _still_good), 14),
    "a new broker hears nothing of what a node counted so far": (
        around(Node, "end_turn", _nothing_counted_so_far),
        1,
    ),
    "a new broker keeps places for jobs that do not wait": (
        instead(ReservedHeads, "withdraw_absent", nothing),
        51568,
    ),
    "a new broker waits for ever": (
        instead(Sessions, "is_complete", lambda self, _now_s: self.until_s < 0.0),
        1,
    ),
    "a node runs everybody's tasks": (around(Admission, "judge", _judges_nobody), 9),
}
"""With each a seed that found it when this was written."""
