"""The ledger: counters of every machine for every account, for each broker (spec 006, 6).

Counters (`policy.accounting.decay`: forward decay, or a window in buckets) only grow within an
incarnation, so merging two copies is taking the larger, in any order, any number of times. Input:
batches, which arrive as entries of kind `ledger`. Output: rows that are new, which the broker draws
with, and machines whose clock is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import msgspec

from iriai.model.bounds import Amount, Count, Many, Name, Seconds, decoded
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import BUCKETS, DAY_S, REFUND_DAYS, Bucket, LedgerRow, Refunds
from iriai.policy.accounting.decay import Counter, Decay
from iriai.policy.accounting.runtime_estimates import RunTimes
from iriai.protocol.ledger.use_bounds import RATE_MAX, UseBounds

CLOCK_OFF_S_MAX = 3600.0
"""More is no drift but a clock that was never set; at the default half-life an hour is 0.4 %."""
ACCOUNTS_MAX = 2_000
"""Accounts in one batch, which then has some 150 kB."""
ROW_BYTES, BUCKET_BYTES = 64, 28
"""Approximate sizes of a row without buckets, and of a bucket or a day of refunds."""
ACCOUNTS_KEPT_MAX = 10_000
"""Of one machine, whatever its incarnation: five times what a batch has. Whose counters come after
that are not counted, since only someone who invents names comes so far."""
BATCH_BYTES_MAX = 200 << 10
"""Less than an entry may have. Under a window a row is longer, and a batch has 200 accounts."""
NAME_CHARACTERS_MAX = 64
"""The longest name of a group or user; Unix has 32."""
COUNTER_S_MAX = 1e15
"""A thousand cpus for thirty thousand years: beyond it doubles no longer count seconds."""
CLUSTER_RATE_MAX = 100_000.0
"""Charged seconds that a cluster may say it can charge in one: 500 machines of 200 cpus."""
LISTEN_S = 30.0
"""The time after the start before anything is published: some tens of exchanges."""
FALL = 1e-9
"""Relative; a counter that is lower by less was rounded, not rolled back."""


class BatchRow(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A `model.records.LedgerRow` as it is published: the same fields after the account."""

    group: Name
    user: Name
    counter: Amount
    epoch_wall_s: Seconds
    runs: Count
    run_s: Amount
    advance: Amount = 0.0
    bucket_s: Seconds = 0.0
    buckets: Annotated[tuple[Bucket, ...], Many] = ()
    refunds: Annotated[Refunds, Many] = ()

    @staticmethod
    def of(row: LedgerRow) -> BatchRow:
        """Return `row` in its published form."""
        _, *counts = msgspec.structs.astuple(row)
        return BatchRow(*row.account, *counts)

    @property
    def row(self) -> LedgerRow:
        """The row as nodes and brokers keep it."""
        _, _, *counts = msgspec.structs.astuple(self)
        return LedgerRow(self.account, *counts)

    @property
    def account(self) -> Account:
        """The account that the row counts."""
        return Account(self.group, self.user)


class LedgerBatch(msgspec.Struct, frozen=True, array_like=True):
    """Every counter of one machine; the body of an entry of kind `ledger`."""

    incarnation: Count
    """Of the counters: raised when the machine finds that they fell."""
    wall_s: Seconds
    """The machine's clock when it was made."""
    rows: Annotated[tuple[BatchRow, ...], Many]
    rate: Amount = 1.0
    """What the machine can charge in a second, at most and without urgency (`ChargeRule.rate` of
    all of it, times its speed)."""


_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[LedgerBatch] = msgspec.msgpack.Decoder(LedgerBatch)


def batch_body(batch: LedgerBatch) -> bytes:
    """Return a batch as the body of an entry."""
    return _encode(batch)


@dataclass(frozen=True, slots=True)
class Taken:
    """The result for a received batch."""

    rows: tuple[LedgerRow, ...] = ()
    """Rows that are later than the known ones, for the broker's draw."""
    code: str = ""
    """Why not, or what is strange: `malformed-batch`, `rolled-back-counter`, `clock-wrong`,
    `use-beyond-size`, `too-many-accounts`."""
    words: str = ""
    rate: float = 0.0
    """What the machine can charge in a second, as the batch says."""


def read_batch(body: bytes, rate_max: float = RATE_MAX) -> LedgerBatch | Taken:
    """Decode and check a batch; return `Taken` with a code if it is malformed."""
    try:
        batch = decoded(_decoder, body)
    except msgspec.MsgspecError as error:
        return Taken(code="malformed-batch", words=str(error))
    words = _malformed(batch, rate_max)
    return Taken(code="malformed-batch", words=words) if words else batch


def _malformed(batch: LedgerBatch, rate_max: float) -> str:
    if len(batch.rows) > ACCOUNTS_MAX:
        return f"{len(batch.rows)} accounts; at most {ACCOUNTS_MAX}"
    if not math.isfinite(batch.wall_s) or batch.incarnation < 0:
        return f"clock {batch.wall_s}, incarnation {batch.incarnation}"
    if not 0.0 <= batch.rate <= rate_max:
        return f"it claims to charge {batch.rate:g} s in a second; the limit is {rate_max:g}"
    return next(filter(None, (malformed_row(row, batch.wall_s) for row in batch.rows)), "")


def malformed_row(row: BatchRow, wall_s: float) -> str:
    """Return what makes a row impossible for a machine of any size; else empty."""
    if max(len(row.group), len(row.user)) > NAME_CHARACTERS_MAX:
        return f"a name of more than {NAME_CHARACTERS_MAX} characters"
    numbers = [row.counter, row.advance, row.run_s, float(row.runs), row.bucket_s]
    numbers += [amount for bucket in row.buckets for amount in bucket[1:]]
    for number in numbers:
        if not 0.0 <= number <= COUNTER_S_MAX:
            return f"{row.account}: an amount that is not from 0 to {COUNTER_S_MAX:g}"
    latest_wall_s = max((b.number * row.bucket_s for b in row.buckets), default=row.epoch_wall_s)
    if not 0.0 <= latest_wall_s <= wall_s + CLOCK_OFF_S_MAX:
        return f"{row.account}: usage in the future ({latest_wall_s:.0f})"
    if len(row.buckets) > BUCKETS + 1 or (row.buckets and not row.bucket_s):
        return f"{row.account}: {len(row.buckets)} buckets of {row.bucket_s} s"
    return malformed_refunds(row, wall_s) if row.refunds else ""


def malformed_refunds(row: BatchRow, wall_s: float) -> str:
    """Return what makes the refunds of a row impossible; else empty.

    Readers bound what they return by day: what a liar can give is no more than that.
    """
    if len(row.refunds) > REFUND_DAYS:
        return f"{row.account}: refunds of {len(row.refunds)} days; the limit is {REFUND_DAYS}"
    days = [each.day for each in row.refunds]
    if days != sorted(dict.fromkeys(days)):
        return f"{row.account}: refunds whose days do not follow each other"
    if days[-1] * DAY_S > wall_s + CLOCK_OFF_S_MAX:
        return f"{row.account}: refunds in the future (day {days[-1]})"
    if not all(0.0 <= each.counts_s <= each.charge_s <= COUNTER_S_MAX for each in row.refunds):
        return f"{row.account}: refunds that are not from 0 to {COUNTER_S_MAX:g}"
    return ""


class KnownAccounts:
    """The accounts that each machine has counted, up to a limit."""

    def __init__(self) -> None:
        self._by_machine: dict[str, dict[Account, None]] = {}

    def takes(self, machine: str, account: Account) -> bool:
        """Return whether counters of the account are kept, and remember the account."""
        known = self._by_machine.setdefault(machine, {})
        if account not in known:
            if len(known) >= ACCOUNTS_KEPT_MAX:
                return False
            known[account] = None
        return True

    def forget(self, machine: str) -> Iterable[Account]:
        """Forget the accounts of a machine, and return them."""
        return self._by_machine.pop(machine, {})


@dataclass(slots=True)
class MachineCounters:
    """The counters of one machine, of one incarnation."""

    incarnation: int
    by_account: dict[Account, Counter] = field(default_factory=dict)
    refunds: dict[Account, Refunds] = field(default_factory=dict)


class Ledger:
    """The counters of all machines under one rule of decay."""

    def __init__(self, fading: Decay) -> None:
        self.fading = fading
        self.machines: dict[str, MachineCounters] = {}
        """The latest counters of each machine."""
        self._bounds = UseBounds(fading)
        self._known = KnownAccounts()

    def merge_entry(self, machine: str, body: bytes, age_s: float, now: Instant) -> Taken:
        """Merge the body of an entry of kind `ledger` that was published `age_s` ago."""
        return self._merge(machine, machine, read_batch(body), age_s, now, RATE_MAX)

    def merge_cluster(
        self, cluster: str, gateway: str, body: bytes, age_s: float, now: Instant
    ) -> Taken:
        """Merge the usage of a whole cluster, as a gateway of it published it.

        Each gateway has one allowance, whatever it speaks for: one that lies uses up its own.
        """
        batch = read_batch(body, CLUSTER_RATE_MAX)
        sums, author = f"{cluster}/", f"/{gateway}"
        return self._merge(sums, author, batch, age_s, now, CLUSTER_RATE_MAX)

    def _merge(
        self,
        machine: str,
        author: str,
        batch: LedgerBatch | Taken,
        age_s: float,
        now: Instant,
        rate_max: float,
    ) -> Taken:
        """Merge the counters of `machine` as `author` sent them, if they can be right."""
        if isinstance(batch, Taken):
            return batch
        off_s = batch.wall_s + age_s - now.wall_s
        if abs(off_s) > CLOCK_OFF_S_MAX:
            words = f"its clock is {off_s:+.0f} s off ours; its usage is kept aside"
            return Taken(code="clock-wrong", words=words)
        rows = [row.row for row in batch.rows]
        words = self._bounds.excess(author, rows, batch.rate, now, rate_max)
        if words:
            return Taken(code="use-beyond-size", words=words)
        return self.merge(machine, batch, is_sum=machine != author)

    def merge(self, machine: str, batch: LedgerBatch, *, is_sum: bool = False) -> Taken:
        """Merge a batch: a higher incarnation replaces, within one the larger counter stays.

        `is_sum`: of a cluster; a gateway that knows fewer of its machines tells less.
        """
        known = self.machines.get(machine)
        if known is not None and batch.incarnation < known.incarnation:
            words = f"incarnation {batch.incarnation} after {known.incarnation}"
            return Taken(code="rolled-back-counter", words=words)
        fell: list[str] = []
        if known is None or batch.incarnation > known.incarnation:
            known = self.machines[machine] = MachineCounters(batch.incarnation)
        elif not is_sum:
            fell = [str(row.account) for row in batch.rows if self._fell(known, row, batch.wall_s)]
        rows = [row for row in batch.rows if self._known.takes(machine, row.account)]
        later = tuple(row.row for row in rows if self._grew(known, row))
        if fell:
            words = f"the counters of {', '.join(fell[:3])} fell within an incarnation"
            return Taken(later, "rolled-back-counter", words, batch.rate)
        if len(rows) < len(batch.rows):
            more = len(batch.rows) - len(rows)
            words = (
                f"{ACCOUNTS_KEPT_MAX} accounts are counted, which is the limit; {more} more are not"
            )
            return Taken(later, "too-many-accounts", words, batch.rate)
        return Taken(later, rate=batch.rate)

    def forget_gateway(self, gateway: str) -> None:
        """Forget a gateway that published the usage of its cluster."""
        self._bounds.forget(f"/{gateway}")

    def forget(self, machine: str) -> None:
        """Forget the counters of a machine, which are too old to count."""
        self.machines.pop(machine, None)
        self._bounds.forget(machine)
        self._known.forget(machine)

    def _fell(self, known: MachineCounters, row: BatchRow, wall_s: float) -> bool:
        before = known.by_account.get(row.account)
        return before is not None and _is_beyond(before, self.fading.restored(row.row), wall_s)

    def _grew(self, known: MachineCounters, row: BatchRow) -> bool:
        """Merge one account's counter and refunds; return whether either changed."""
        before, counter = known.by_account.get(row.account), self.fading.restored(row.row)
        merged = counter if before is None else before.merged(counter)
        known.by_account[row.account] = merged
        return _refunds_grew(known, row) or merged != before


def _with_refunds(row: LedgerRow, own: Refunds, lost: Refunds) -> LedgerRow:
    if not lost:
        return msgspec.structs.replace(row, refunds=own) if own else row
    from iriai.policy.accounting.refunds import plus

    return msgspec.structs.replace(row, refunds=plus(own, lost))


def _more_refunds(theirs: Refunds, ours: Refunds) -> Refunds:
    if not theirs:
        return ()
    from iriai.policy.accounting.refunds import beyond

    return beyond(theirs, ours)


def _refunds_grew(known: MachineCounters, row: BatchRow) -> bool:
    if not row.refunds:
        return False
    from iriai.policy.accounting.refunds import merged

    before = known.refunds.get(row.account, ())
    known.refunds[row.account] = merged(before, row.refunds)
    return known.refunds[row.account] != before


def _is_beyond(one: Counter, other: Counter, wall_s: float) -> bool:
    """Return whether `one` exceeds `other` by more than rounding."""
    return one.beyond(other).at(wall_s) > FALL * one.at(wall_s)


def _row_bytes(row: LedgerRow) -> int:
    return ROW_BYTES + BUCKET_BYTES * (len(row.buckets) + len(row.refunds))


def within_limits(
    rows: list[LedgerRow], fading: Decay, now: Instant, bytes_max: int = BATCH_BYTES_MAX
) -> tuple[BatchRow, ...]:
    """Return all rows, or those of the largest users if they are too many for a batch."""
    room = bytes_max - sum(map(_row_bytes, rows))
    if len(rows) > ACCOUNTS_MAX or room < 0:
        rows = sorted(rows, key=lambda row: fading.restored(row).at(now.wall_s), reverse=True)
        longest = max(map(_row_bytes, rows))
        rows = rows[: min(ACCOUNTS_MAX, bytes_max // longest)]
    return tuple(map(BatchRow.of, rows))


class _Counts(NamedTuple):
    """Of one account."""

    counter: Counter
    refunds: Refunds


class OwnCounters:
    """This machine's counters as it publishes them.

    What others hold of it may be more than what it remembers: its disk was restored or replaced.
    Then it starts a new incarnation, with what they hold and what it has counted since it came up.
    So nothing is to be published before others had time to say what they hold.
    """

    def __init__(self, fading: Decay, rows: Iterable[LedgerRow], now: Instant) -> None:
        """`rows` are the node's stored rows at the start."""
        self.incarnation = 0
        self._fading = fading
        self._listens_until_s = now.steady_s + LISTEN_S
        self._at_start: dict[Account, _Counts] = {
            row.account: _Counts(fading.restored(row), row.refunds) for row in rows
        }
        self._lost: dict[Account, _Counts] = {}
        """What other machines hold beyond the stored counters of this one."""

    def may_publish(self, now: Instant) -> bool:
        """Return whether other machines had time to send what they hold."""
        return now.steady_s >= self._listens_until_s

    def batch(self, rows: Iterable[LedgerRow], now: Instant, rate: float = 1.0) -> LedgerBatch:
        """Return the batch to publish, from the node's current rows; `rate` as in `LedgerBatch`."""
        own = {row.account: row for row in rows}
        for account, lost in self._lost.items():
            row = own.get(account)
            counter = self._fading.restored(row) if row else self._fading.counter()
            times = RunTimes(row.runs, row.run_s) if row else RunTimes()
            plain = counter.plus(lost.counter).row(account, times)
            own[account] = _with_refunds(plain, row.refunds if row else (), lost.refunds)
        kept = within_limits(list(own.values()), self._fading, now)
        return LedgerBatch(self.incarnation, now.wall_s, kept, min(rate, RATE_MAX))

    def echo(self, body: bytes) -> bool:
        """Merge a batch of this machine that others hold; return whether an incarnation began."""
        batch = read_batch(body)
        if isinstance(batch, Taken):
            return False
        lost = {}
        for row in batch.rows:
            theirs = self._fading.restored(row.row)
            ours, returned = self._at_start.get(row.account) or (self._fading.counter(), ())
            more = _more_refunds(row.refunds, returned)
            if more or _is_beyond(theirs, ours, batch.wall_s):
                lost[row.account] = _Counts(theirs.beyond(ours), more)
        self.incarnation = max(self.incarnation, batch.incarnation)
        if not lost or lost == self._lost:
            return False
        self._lost = lost
        self.incarnation += 1
        return True
