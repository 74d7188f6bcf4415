"""What every machine has done for every account, as each broker needs to know it (spec 006, 6).

Forward-decay counters (Cormode, Shkapenyuk, Srivastava, Xu: Forward Decay, ICDE 2009; see
`policy.fairshare`): they only grow within an incarnation, so merging two copies is taking the
larger, in any order, any number of times. Input: batches, which arrive as entries of kind `ledger`.
Output: usage, rows that are new, machines whose clock is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from iriai.model.account import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.policy.fairshare import DecayedUsage, UsageSum

CLOCK_OFF_S_MAX = 3600.0
"""More is no drift but a clock that was never set; at the default half-life an hour is 0.4 %."""
ACCOUNTS_MAX = 2_000
"""In one batch; it then has some 200 kB."""
NAME_CHARACTERS_MAX = 64
"""Of a group or user; Unix has 32."""
COUNTER_S_MAX = 1e15
"""A thousand cpus for thirty thousand years: beyond it doubles no longer count seconds."""
LISTEN_S = 30.0
"""After coming up, before anything is published: some tens of exchanges."""
FALL = 1e-9
"""Relative; a counter that is lower by less was rounded, not rolled back."""


class BatchRow(msgspec.Struct, frozen=True, array_like=True):
    """`model.records.LedgerRow`, short."""

    group: str
    user: str
    counter: float
    epoch_wall_s: float
    runs: int
    run_s: float
    advance: float

    @staticmethod
    def of(row: LedgerRow) -> BatchRow:
        """The same, short."""
        return BatchRow(
            *row.account, row.counter, row.epoch_wall_s, row.runs, row.run_s, row.advance
        )

    @property
    def row(self) -> LedgerRow:
        """The same, as nodes and brokers have it."""
        account = Account(self.group, self.user)
        return LedgerRow(
            account, self.counter, self.epoch_wall_s, self.runs, self.run_s, self.advance
        )


class LedgerBatch(msgspec.Struct, frozen=True, array_like=True):
    """Every counter of one machine; the body of an entry of kind `ledger`."""

    incarnation: int
    """Of the counters: raised when the machine finds that they fell."""
    wall_s: float
    """The machine's clock when it was made."""
    half_life_s: float
    rows: tuple[BatchRow, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LedgerBatch).decode


def batch_body(batch: LedgerBatch) -> bytes:
    """As the body of an entry."""
    return _encode(batch)


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a batch."""

    rows: tuple[LedgerRow, ...] = ()
    """Those that are later than what was known, for the broker's draw."""
    code: str = ""
    """Why not, or what is strange: `malformed-batch`, `rolled-back-counter`, `clock-wrong`."""
    words: str = ""


def read_batch(body: bytes) -> LedgerBatch | Taken:
    """A batch, or what is wrong with it."""
    try:
        batch = _decode(body)
    except msgspec.MsgspecError as error:
        return Taken(code="malformed-batch", words=str(error))
    words = _malformed(batch)
    return Taken(code="malformed-batch", words=words) if words else batch


def _malformed(batch: LedgerBatch) -> str:
    if len(batch.rows) > ACCOUNTS_MAX:
        return f"{len(batch.rows)} accounts; at most {ACCOUNTS_MAX}"
    if not (math.isfinite(batch.wall_s) and math.isfinite(batch.half_life_s)):
        return "a clock or half-life that is no number"
    if batch.half_life_s <= 0 or batch.incarnation < 0:
        return f"half-life {batch.half_life_s} s, incarnation {batch.incarnation}"
    for row in batch.rows:
        if max(len(row.group), len(row.user)) > NAME_CHARACTERS_MAX:
            return f"a name of more than {NAME_CHARACTERS_MAX} characters"
        numbers = (row.counter, row.advance, row.run_s, float(row.runs))
        if not all(0.0 <= number <= COUNTER_S_MAX for number in numbers):
            return f"{row.group}/{row.user}: {numbers}; from 0 to {COUNTER_S_MAX:g}"
        if not 0.0 <= row.epoch_wall_s <= batch.wall_s + batch.half_life_s:
            return f"{row.group}/{row.user}: an epoch that has not begun ({row.epoch_wall_s})"
    return ""


class _Machine:
    __slots__ = ("incarnation", "usage")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.usage: dict[Account, DecayedUsage] = {}


class Ledger:
    """The counters of all machines under one half-life; see the module."""

    def __init__(self, half_life_s: float) -> None:
        self.half_life_s = half_life_s
        self.clocks_off_s: dict[str, float] = {}
        """Machines whose clock is wrong, and by how much (positive: ahead of ours)."""
        self._clocks_right: dict[str, None] = {}
        self._machines: dict[str, _Machine] = {}
        self._sums: dict[Account, UsageSum[str]] = {}

    def __iter__(self) -> Iterator[Account]:
        return iter(self._sums)

    @property
    def is_own_clock_wrong(self) -> bool:
        """Whether most machines' clocks are off from ours: then it is ours."""
        return len(self.clocks_off_s) > max(1, len(self._clocks_right))

    def take(self, machine: str, body: bytes, age_s: float, now: Instant) -> Taken:
        """Take the body of an entry of kind `ledger`, published so long ago."""
        batch = read_batch(body)
        if isinstance(batch, Taken):
            return batch
        off_s = batch.wall_s + age_s - now.wall_s
        if abs(off_s) > CLOCK_OFF_S_MAX:
            self.clocks_off_s[machine] = off_s
            self._clocks_right.pop(machine, None)
            words = f"its clock is {off_s:+.0f} s from ours; its usage is kept aside"
            return Taken(code="clock-wrong", words=words)
        self.clocks_off_s.pop(machine, None)
        self._clocks_right[machine] = None
        return self.merge(machine, batch)

    def merge(self, machine: str, batch: LedgerBatch) -> Taken:
        """Merge a batch: a higher incarnation replaces, within one the larger stays."""
        known = self._machines.get(machine)
        if known is not None and batch.incarnation < known.incarnation:
            words = f"incarnation {batch.incarnation} after {known.incarnation}"
            return Taken(code="rolled-back-counter", words=words)
        usage = {row.row.account: self._usage(row) for row in batch.rows}
        if known is None or batch.incarnation > known.incarnation:
            self._replace(machine, batch.incarnation, usage)
            return Taken(tuple(row.row for row in batch.rows))
        fell = [str(account) for account, new in usage.items() if _fell(known.usage, account, new)]
        later = [
            row.row for row in batch.rows if self._grew(machine, known, row.row.account, usage)
        ]
        if fell:
            words = f"the counters of {', '.join(fell[:3])} fell within an incarnation"
            return Taken(tuple(later), "rolled-back-counter", words)
        return Taken(tuple(later))

    def usage(self, wall_s: float) -> dict[Account, float]:
        """Every account's decayed usage on all machines, in charged seconds."""
        return {account: total.at(wall_s) for account, total in self._sums.items()}

    def usage_of(self, account: Account, wall_s: float) -> float:
        """One account's; 0 of one that is not known."""
        total = self._sums.get(account)
        return total.at(wall_s) if total is not None else 0.0

    def counters(self, machine: str) -> Mapping[Account, DecayedUsage]:
        """What is known of one machine's counters."""
        known = self._machines.get(machine)
        return known.usage if known is not None else {}

    def _usage(self, row: BatchRow) -> DecayedUsage:
        return DecayedUsage.restored(self.half_life_s, row.counter, row.epoch_wall_s)

    def _grew(
        self,
        machine: str,
        known: _Machine,
        account: Account,
        usage: Mapping[Account, DecayedUsage],
    ) -> bool:
        """Merge one account's counter; whether it is another than before."""
        before = known.usage.get(account)
        merged = usage[account] if before is None else before.merged(usage[account])
        if merged == before:
            return False
        known.usage[account] = merged
        self._sum(account).merge(machine, merged)
        return True

    def _replace(
        self, machine: str, incarnation: int, usage: Mapping[Account, DecayedUsage]
    ) -> None:
        """A new incarnation: what was known of the machine's counters is void."""
        before = self._machines.pop(machine, None)
        self._machines[machine] = _Machine(incarnation)
        self._machines[machine].usage.update(usage)
        for account in dict.fromkeys((*usage, *(before.usage if before else ()))):
            if before is not None and account in before.usage:
                self._sums[account] = UsageSum(self.half_life_s)
                for name, each in self._machines.items():
                    if account in each.usage:
                        self._sums[account].merge(name, each.usage[account])
            else:
                self._sum(account).merge(machine, usage[account])

    def _sum(self, account: Account) -> UsageSum[str]:
        return self._sums.setdefault(account, UsageSum(self.half_life_s))


def _fell(known: Mapping[Account, DecayedUsage], account: Account, new: DecayedUsage) -> bool:
    before = known.get(account)
    return before is not None and _is_below(new, before)


def _is_below(new: DecayedUsage, before: DecayedUsage) -> bool:
    """Whether a counter is lower than another, by more than rounding, at the same time."""
    wall_s = max(new.epoch_wall_s, before.epoch_wall_s)
    return new.at(wall_s) < before.at(wall_s) * (1 - FALL)


class OwnCounters:
    """This machine's counters as it publishes them.

    What others hold of it may be more than what it remembers: its disk was restored or replaced.
    Then it starts a new incarnation, with what they hold and what it has counted since it came up.
    So nothing is to be published before others had time to say what they hold.
    """

    def __init__(self, half_life_s: float, rows: Iterable[LedgerRow], now: Instant) -> None:
        """`rows` as the node's store has them when it comes up."""
        self.incarnation = 0
        self._half_life_s = half_life_s
        self._listens_until_s = now.steady_s + LISTEN_S
        self._at_start = {row.account: self._usage(row) for row in rows}
        self._lost: dict[Account, DecayedUsage] = {}
        """What others hold beyond what was remembered when we came up."""

    def may_publish(self, now: Instant) -> bool:
        """Whether others had time to say what they hold."""
        return now.steady_s >= self._listens_until_s

    def batch(self, rows: Iterable[LedgerRow], now: Instant) -> LedgerBatch:
        """To publish, from the node's rows as they are now."""
        kept = {row.account: BatchRow.of(row) for row in rows}
        for account, lost in self._lost.items():
            kept[account] = self._with_lost(account, kept.get(account), lost)
        return LedgerBatch(
            self.incarnation, now.wall_s, self._half_life_s, tuple(kept.values())[:ACCOUNTS_MAX]
        )

    def echo(self, body: bytes) -> bool:
        """A batch of ours that others hold; whether it started a new incarnation."""
        batch = read_batch(body)
        if isinstance(batch, Taken):
            return False
        lost = {}
        for row in batch.rows:
            account = row.row.account
            theirs = self._usage(row.row)
            ours = self._at_start.get(account, DecayedUsage(self._half_life_s))
            if _is_below(ours, theirs):
                lost[account] = _difference(theirs, ours)
        self.incarnation = max(self.incarnation, batch.incarnation)
        if not lost or lost == self._lost:
            return False
        self._lost = lost
        self.incarnation += 1
        return True

    def _usage(self, row: LedgerRow) -> DecayedUsage:
        return DecayedUsage.restored(self._half_life_s, row.counter, row.epoch_wall_s)

    def _with_lost(self, account: Account, row: BatchRow | None, lost: DecayedUsage) -> BatchRow:
        usage = self._usage(row.row) if row else DecayedUsage(self._half_life_s)
        epoch = max(usage.epoch, lost.epoch)
        counter = usage.in_epoch(epoch).counter + lost.in_epoch(epoch).counter
        epoch_wall_s = epoch * self._half_life_s
        if row is None:
            return BatchRow(*account, counter, epoch_wall_s, 0, 0.0, 0.0)
        return msgspec.structs.replace(row, counter=counter, epoch_wall_s=epoch_wall_s)


def _difference(larger: DecayedUsage, smaller: DecayedUsage) -> DecayedUsage:
    epoch = max(larger.epoch, smaller.epoch)
    counter = larger.in_epoch(epoch).counter - smaller.in_epoch(epoch).counter
    return DecayedUsage(larger.half_life_s, epoch, max(0.0, counter))
