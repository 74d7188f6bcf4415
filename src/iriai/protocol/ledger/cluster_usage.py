"""The usage of a whole cluster, as its first gateway publishes it for the others (spec 006, 6).

Input: the counters of all machines of the cluster that were accepted here, and the own ones.
Output: one row for each account. Sums of counters that only grow only grow, so of two copies the
larger is the later, whichever gateway published it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow, Refunds
from iriai.policy.accounting.decay import Counter, Decay
from iriai.policy.accounting.runtime_estimates import NO_RUNS, RECENT_RUNS, RunSums, RunTimes
from iriai.protocol.ledger.ledger import (
    CLUSTER_RATE_MAX,
    LedgerBatch,
    batch_body,
    within_limits,
)

BYTES_MAX = 48 << 10
"""Of the rows: some 750 accounts, those that used most; an entry may have 64 KiB."""
LEAST_S = 600.0
"""Between two publications of one cluster."""
SITE_BYTES_PER_S = 100.0
"""What all clusters together publish of this in a second, on average: each machine gets it all."""


def pace_s(body_bytes: int, clusters: int) -> float:
    """Return the interval between two publications, in a site of `clusters`."""
    return max(LEAST_S, body_bytes * clusters / SITE_BYTES_PER_S)


def sums_of(rows: Iterable[LedgerRow], fading: Decay) -> list[LedgerRow]:
    """Return one row for each account, with the sum of what all rows count for it."""
    counters: dict[Account, Counter] = {}
    runs: dict[Account, RunSums] = {}
    returned: dict[Account, Refunds] = {}
    for row in rows:
        counter, known = fading.restored(row), counters.get(row.account)
        counters[row.account] = counter if known is None else known.plus(counter)
        if row.refunds:
            from iriai.policy.accounting.refunds import plus

            returned[row.account] = plus(returned.get(row.account, ()), row.refunds)
        times = RunTimes(row.runs, row.run_s)
        runs[row.account] = runs.get(row.account, RunSums()).replaced(NO_RUNS, times)
    sums = []
    for account, counter in counters.items():
        row = counter.row(account, _times_of(runs[account]))
        sums.append(replace(row, refunds=returned.get(account, ())))
    return sums


def _times_of(sums: RunSums) -> RunTimes:
    """Return run times with the mean of all machines, as of one."""
    mean_s = sums.recent_s / sums.recent_runs if sums.recent_runs else 0.0
    return RunTimes(sums.runs, mean_s * min(sums.runs, RECENT_RUNS))


def sums_body(rows: Iterable[LedgerRow], fading: Decay, rate: float, now: Instant) -> bytes:
    """Return the batch of a cluster whose machines can charge `rate` in a second together."""
    kept = within_limits(sums_of(rows, fading), fading, now, BYTES_MAX)
    return batch_body(LedgerBatch(0, now.wall_s, kept, min(rate, CLUSTER_RATE_MAX)))
