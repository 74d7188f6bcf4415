"""The ledger's exchange with the directory: what it publishes, and what it learns.

In: entries of kind `ledger`, and the node's own rows. Out: `UsageLearned` for the machine, whose
broker draws with it, `UsageForgotten`, and bodies to publish. A machine that is gone counts on, as
long as the directory keeps its last batch (docs/spec/006, section 6).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Decay
from iriai.protocol.ledger import cluster_usage
from iriai.protocol.ledger.ledger import Ledger, OwnCounters, batch_body
from iriai.protocol.messages.effects import PeerNoticed, UsageForgotten, UsageLearned
from iriai.protocol.messages.entries import Carried, EntryKind
from iriai.protocol.messages.members import ClusterUsage
from iriai.protocol.misbehaviour import Incidents

PUBLISH_S = 30.0
"""The least between two batches of a machine; the pace of the kind (`publisher.PACES`)."""
SITE_PUBLISHES_S = 10.0
"""Between two batches of all machines together, on average, where there are many. Each batch goes
to everybody, some two kilobytes with the rows that tell of it. The own broker hears from its nodes
themselves within a minute; other clusters, and whoever comes after a machine is gone, from these.
"""


def pace_s(members: int) -> float:
    """Return the interval between two batches of a machine in a site of `members`."""
    return max(PUBLISH_S, SITE_PUBLISHES_S * members)


class LedgerSync:
    """Exchanges the ledger's counters with the directory."""

    def __init__(
        self,
        machine: str,
        fading: Decay,
        rows: Iterable[LedgerRow],
        now: Instant,
        *,
        rate: float = 1.0,
        cluster: str = "",
    ) -> None:
        """`machine` is this one; `rows` as its node's store has them when it comes up.

        `rate` is what it can charge in a second at most, `cluster` its part of the site.
        """
        self._cluster = cluster
        self._machine = machine
        self._rate = rate
        self._fading = fading
        self.ledger = Ledger(fading)
        self._own = OwnCounters(fading, rows, now)
        self._published: tuple[LedgerRow, ...] = ()
        self._due_s = -inf
        self._rows: dict[str, dict[Account, LedgerRow]] = {}
        """The accepted rows of each other machine of the own cluster."""
        self._rates: dict[str, float] = {}
        self._summed: list[LedgerRow] = []
        """The rows of all machines of the cluster that were published last."""
        self._sums_due_s = -inf
        self._gateways: dict[str, str] = {}
        """The cluster whose usage each gateway published."""
        self._incidents = Incidents()

    def learned(self, carried: Iterable[Carried], now: Instant) -> list[UsageLearned]:
        """Merge the ledger entries among `carried`, and return the usage learned."""
        news = []
        for entry, age_s in ((each.entry, each.age_s) for each in carried):
            if entry.kind is not EntryKind.LEDGER:
                continue
            if entry.machine == self._machine:
                self._own.echo(entry.body)
                continue
            taken = self.ledger.merge_entry(entry.machine, entry.body, age_s, now)
            if taken.code:
                self._incidents.note(taken.code, entry.machine, taken.words)
            if taken.rows:
                known = self._rows.setdefault(entry.machine, {})
                known.update((row.account, row) for row in taken.rows)
                self._rates[entry.machine] = taken.rate
                news.append(UsageLearned(entry.machine, taken.rows))
        return news

    def usage_learned(
        self, usage: ClusterUsage, gateway: str, age_s: float, now: Instant
    ) -> list[UsageLearned | UsageForgotten]:
        """Merge the usage of another cluster; its own a machine knows better.

        A gateway speaks for one cluster at a time: what it said of another before is forgotten.
        """
        cluster = usage.cluster
        gone = self._drop_sums(gateway) if self._gateways.get(gateway) != cluster else []
        if cluster == self._cluster:
            return [*gone]
        self._gateways[gateway] = cluster
        taken = self.ledger.merge_cluster(cluster, gateway, usage.batch, age_s, now)
        if taken.code:
            self._incidents.note(taken.code, gateway, f"the usage of {cluster}: {taken.words}")
        return [*gone, *([UsageLearned(f"{cluster}/", taken.rows)] if taken.rows else [])]

    def usage_gone(self, gateway: str) -> list[UsageForgotten]:
        """Forget what a gateway published of its cluster, and which the directory has dropped."""
        self.ledger.forget_gateway(gateway)
        return self._drop_sums(gateway)

    def _drop_sums(self, gateway: str) -> list[UsageForgotten]:
        """Forget the sums that a gateway published, unless another speaks for the same cluster."""
        cluster = self._gateways.pop(gateway, None)
        if cluster is None or cluster in self._gateways.values():
            return []
        self.ledger.forget(f"{cluster}/")
        return [UsageForgotten(f"{cluster}/")]

    def forgotten(self, machine: str) -> list[UsageForgotten]:
        """Forget a machine whose batch the directory has dropped."""
        if machine == self._machine:
            return []
        self.ledger.forget(machine)
        self._rows.pop(machine, None)
        self._rates.pop(machine, None)
        return [UsageForgotten(machine)]

    def drain_incidents(self) -> list[PeerNoticed]:
        """Return reports of invalid batches since the last call."""
        return self._incidents.drain()

    def body(self, rows: Iterable[LedgerRow], now: Instant, members: int) -> bytes | None:
        """Return the body to publish now, in a site of `members`; None if nothing is due."""
        own = tuple(rows)
        if now.steady_s < self._due_s or not self._own.may_publish(now) or own == self._published:
            return None
        self._published, self._due_s = own, now.steady_s + pace_s(members)
        return batch_body(self._own.batch(own, now, self._rate))

    def sums(self, rows: Iterable[LedgerRow], now: Instant, clusters: int) -> bytes | None:
        """Return the batch of the whole cluster to publish now; None if nothing is due.

        `rows` are the node's own, `clusters` are those of the site.
        """
        if now.steady_s < self._sums_due_s or not self._own.may_publish(now):
            return None
        its = [*rows, *(row for known in self._rows.values() for row in known.values())]
        rate = self._rate + sum(self._rates.values())
        if its == self._summed:
            return None
        self._summed = its
        body = cluster_usage.sums_body(its, self._fading, rate, now)
        self._sums_due_s = now.steady_s + cluster_usage.pace_s(len(body), clusters)
        return body
