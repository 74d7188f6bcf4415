"""Small mistakes in what passes tasks on between clusters; each is found from a seed.

What is not here cannot be found, because it does no harm: answers that are never given, tasks that
wait at two brokers, copies of summaries that are not counted down, places that are kept for what
another cluster passed on. That costs messages, matches that are declined, and ten seconds.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from iriai.broker.federation import forwarding
from iriai.broker.federation.forwarded_jobs import ForwardedJob
from iriai.protocol.messages.scheduling import Forward, Summary
from tests.mutants.mutants import Patch, around, instead, lost_message


def _as_if_new(whole: Any, guest: ForwardedJob, forward: Forward) -> None:
    whole(guest, forward)
    guest.forward = replace(forward, hops=0)


PARTED: dict[str, tuple[Patch, int]] = {
    "Forward is never sent": (lost_message(Forward), 3),
    "Summary is never sent": (lost_message(Summary), 3),
    "hops are not counted": (around(ForwardedJob, "__init__", _as_if_new), 8),
    "what only others could run is not passed on": (
        instead(forwarding, "_aside", lambda _state: iter(())),
        3,
    ),
    "what nobody answers never comes back": (instead(forwarding, "GIVE_UP_S", 1e9), 52),
}
"""With each a seed that found it when this was written."""
