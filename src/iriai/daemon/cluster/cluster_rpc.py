"""What the brokers of the site's other clusters know, asked of all of them at once.

A site of one cluster has none. Whoever is silent costs a wait once, and is left out for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.model.instant import Instant
from iriai.model.problem import Problem
from iriai.wire.inquiries import Question, Told

log = logging.getLogger(__name__)

CLUSTERS_ASKED_MAX = 64
"""For one question: of 500 machines each they are more than a site has."""
SILENT_S = 5.0
"""A cluster that did not answer is asked nothing for so long: it has a new broker by then, and
nobody waits for it again and again."""

T = TypeVar("T", bound=Told)


@dataclass(frozen=True, slots=True)
class ClusterReply(Generic[T]):
    """Of one other cluster."""

    cluster: str
    told: T | None
    """None: there is no answer."""
    missing: str = ""
    """Why not."""


def words_missing(words: list[ClusterReply[T]]) -> str:
    """Which clusters did not answer, and why; empty: all did."""
    return "; ".join(f"cluster {w.cluster}: {w.missing}" for w in words if w.told is None)


class ClusterRpc:
    """See the module."""

    def __init__(self, engine: Engine, inquirer: BrokerRpc) -> None:
        self._engine = engine
        self._inquirer = inquirer
        self._silent: dict[str, tuple[float, str]] = {}
        """By cluster: until when it is not asked, and what was missing."""

    @property
    def exist(self) -> bool:
        """Whether there are any."""
        return self._engine.machine.has_neighbours

    @property
    def own(self) -> str:
        """The name of this machine's cluster."""
        return self._engine.machine.cluster

    def ask(
        self,
        question: Question,
        kind: type[T],
        now: Instant,
        hear: Callable[[list[ClusterReply[T]], Instant], None],
    ) -> None:
        """Have `hear` called once with the word of each: at once where none is asked.

        Else in a later turn, when all have answered, or have not in time.
        """
        others = self._engine.machine.neighbours
        words: dict[str, ClusterReply[T]] = {}
        asked: list[tuple[str, str]] = []
        for number, other in enumerate(others):
            silent_until_s, missing = self._silent.get(other.cluster, (0.0, ""))
            if number >= CLUSTERS_ASKED_MAX:
                missing = f"no more than {CLUSTERS_ASKED_MAX} clusters are asked at once"
            elif not other.candidates:
                missing = "none of its machines is there"
            elif silent_until_s <= now.steady_s:
                asked.append((other.cluster, other.candidates[0]))
                continue
            words[other.cluster] = ClusterReply(other.cluster, None, missing)

        def have(cluster: str, told: T | None, missing: str, later: Instant) -> None:
            words[cluster] = ClusterReply(cluster, told, missing)
            if len(words) == len(others):
                hear([words[each.cluster] for each in others], later)

        if not asked:
            hear([words[each.cluster] for each in others], now)
        for cluster, machine in asked:
            self._ask_one(cluster, machine, question, kind, partial(have, cluster))

    def _ask_one(
        self,
        cluster: str,
        machine: str,
        question: Question,
        kind: type[T],
        have: Callable[[T | None, str, Instant], None],
    ) -> None:
        def hear(told: T, later: Instant) -> None:
            self._silent.pop(cluster, None)
            have(told, "", later)

        def fail(problem: Problem, later: Instant) -> None:
            have(None, problem.message, later)

        def miss(missing: str, later: Instant) -> None:
            log.info("cluster %s did not answer a question: %s", cluster, missing)
            self._silent[cluster] = (later.steady_s + SILENT_S, missing)
            have(None, missing, later)

        self._inquirer.ask_at(machine, question, kind, hear, fail, miss)
