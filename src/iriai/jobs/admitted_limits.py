"""What a job may take of memory and disk, by its queue and pools (docs/spec/014, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from iriai.config.reader import Configuration
from iriai.config.sections import PoolSection
from iriai.model.pool_room import MachineLimits, PoolRoom
from iriai.model.problem import Refused
from iriai.model.ranks import RankShape
from iriai.model.resources import DISK, MEMORY, Resources, amount_words
from iriai.protocol.messages.scheduling import Want

Amount = Callable[[PoolSection | PoolRoom], int | None]


class AdmittedAmounts(NamedTuple):
    """A request with the amounts that its queue permits."""

    resources: Resources
    """Of each rank."""
    limits: MachineLimits
    """Of all its ranks on a machine."""
    warnings: tuple[str, ...]
    """Amounts that were declared and are more than is permitted."""


def has_limits(configuration: Configuration, number: int) -> bool:
    """Return whether jobs of a queue may take a part of what pools have."""
    queue = configuration.queue(number)
    return queue is not None and not (queue.memory_percent is None and queue.disk_percent is None)


def admitted(
    configuration: Configuration, want: Want, pools: Sequence[PoolRoom]
) -> AdmittedAmounts:
    """Return what a job may take that is submitted to a queue with limits.

    `pools` are those in which it could run. It takes the least limit of these: it may start in any.

    Raises:
        Refused: a limit is so small that nothing could run, or no pool is known.
    """
    queue = configuration.queue(want.queue)
    if queue is None:
        return AdmittedAmounts(want.resources, MachineLimits(), ())
    if not pools:
        raise Refused(
            "limits-unknown",
            f"queue {want.queue} permits a part of what machines have, and what they have is not "
            "known now",
            "submit it again in a moment, or use another queue; see 'iriai queues'",
        )
    ranks = most_on_a_machine(want.shape, want.resources.cpus, pools)
    memory = _limit(configuration, want, MEMORY.name, queue.memory_percent, pools, _memory_of)
    disk = _limit(configuration, want, DISK.name, queue.disk_percent, pools, _disk_of)
    asked, warnings, amounts = want.resources, [], []
    for name, limit, declared in (
        (MEMORY.name, memory, asked.memory_bytes),
        (DISK.name, disk, asked.disk_bytes),
    ):
        part = None if limit is None else limit // ranks
        if part == 0:
            raise _nothing_left(want, name, limit or 0, ranks)
        if part is not None and declared > part:
            each = "" if ranks == 1 else f", {amount_words(name, part)} of each of {ranks} ranks"
            warnings.append(
                f"queue {want.queue} permits {amount_words(name, limit or 0)} of {name} on a "
                f"machine{each}: less than was asked for"
            )
        amounts.append(declared if part is None else min(declared or part, part))
    resources = asked.with_limits(*amounts)
    return AdmittedAmounts(resources, MachineLimits(memory or 0, disk or 0), tuple(warnings))


def most_on_a_machine(shape: RankShape, cpus: int, pools: Iterable[PoolRoom]) -> int:
    """Return how many ranks of so many CPUs a machine has at most."""
    if shape.per_node is not None:
        return shape.per_node
    if shape.nodes is not None:
        return -(-shape.most // shape.nodes)
    return max(1, min(shape.most, max((pool.cpus for pool in pools), default=0) // cpus))


def _memory_of(pool: PoolSection | PoolRoom) -> int | None:
    return pool.memory_bytes


def _disk_of(pool: PoolSection | PoolRoom) -> int | None:
    return pool.disk_bytes


def _limit(
    configuration: Configuration,
    want: Want,
    name: str,
    percent: float | None,
    pools: Sequence[PoolRoom],
    of: Amount,
) -> int | None:
    """Return the least limit of the pools; None: none is in force."""
    if percent is None:
        return None
    given = [of(configuration.pool(pool.name)) or of(pool) for pool in pools]
    part = Fraction(str(percent)) / 100  # as it was written: 0.1 is no tenth of a double
    limits = [int(amount * part) for amount in given if amount]
    if limits and not min(limits):
        raise _nothing_left(want, name, 0, 1)
    return min(limits, default=None)


def _nothing_left(want: Want, name: str, limit: int, ranks: int) -> Refused:
    among = "" if ranks == 1 else f" among {ranks} ranks"
    return Refused(
        "limit-too-small",
        f"queue {want.queue} permits {amount_words(name, limit)} of {name} on a machine{among}",
        "use another queue; see 'iriai queues'",
    )
