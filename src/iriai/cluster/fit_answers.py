"""What brokers answered lately to whether a job could ever run."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from msgspec.structs import replace

from iriai.cluster.broker_questions import ClusterReply
from iriai.model.instant import Instant
from iriai.protocol.messages.scheduling import Want
from iriai.wire.inquiries import Declined, Fit

REMEMBERED_S = 10.0
"""An answer is taken for true so long: of many like jobs submitted together one is asked for."""
REMEMBERED_MAX = 1_000
SILENT_S = 5.0
"""After a question without an answer no other is asked for so long: by then there is another
broker, and whoever submits many jobs does not wait for each."""
CLUSTERS_TOLD_MAX = 3
"""Other clusters of which a refusal says what is wrong there: a few lines for people."""


class _Known(NamedTuple):
    until_s: float
    refusal: Declined | None


class FitAnswers:
    """Answers of brokers, each remembered for a while."""

    def __init__(self) -> None:
        self._known: OrderedDict[Want, _Known] = OrderedDict()
        self._silent_until_s = 0.0

    def asks(self, want: Want, now: Instant) -> bool:
        """Return whether the broker has to be asked, and may be."""
        known = self._known.get(want)
        is_known = known is not None and now.steady_s < known.until_s
        return not is_known and now.steady_s >= self._silent_until_s

    def silent(self, now: Instant) -> None:
        """A question was not answered."""
        self._silent_until_s = now.steady_s + SILENT_S

    def learn(self, want: Want, refusal: Declined | None, now: Instant) -> None:
        """Remember an answer."""
        self._known[want] = _Known(now.steady_s + REMEMBERED_S, refusal)
        self._known.move_to_end(want)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)

    def refusal(self, want: Want, now: Instant) -> Declined | None:
        """Return why no machine could ever run it, if that was answered lately."""
        known = self._known.get(want)
        return known.refusal if known is not None and now.steady_s < known.until_s else None


def refusal_of_all(here: Declined, replies: list[ClusterReply[Fit]]) -> Declined | None:
    """Return the refusal of all clusters, from `here` of the own; None if one may accept."""
    told = [here.message]
    for reply in replies:
        refusal = None if reply.answer is None else reply.answer.refusal or reply.answer.here
        if refusal is None:
            return None
        told.append(f"in cluster {reply.cluster}: {refusal.message}")
    more = len(replies) - CLUSTERS_TOLD_MAX
    if more > 0:
        told[CLUSTERS_TOLD_MAX + 1 :] = [f"nor in {more} other clusters"]
    return replace(here, message="; ".join(told)) if replies else None
