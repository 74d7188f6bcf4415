"""Queues by account: lines of alike tasks, in the order in which they may start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from iriai.broker.machines.matchmaking import Matchmaking
from iriai.broker.queue.ageing import Ageing
from iriai.broker.queue.entries import (
    Eligibility,
    Precedence,
    Queue,
    QueuedJob,
    SubQueue,
    TaskClass,
    TaskClassKey,
    is_guest,
)
from iriai.broker.queue.indices import SEVERAL, Mask, ShapeIndex, bins_of
from iriai.config.reader import Configuration
from iriai.model.ids import Account, JobId
from iriai.model.ranks import ONE
from iriai.model.reservation import EVICTABLE_MIN_S
from iriai.policy.placement.calendar import longest_stay_s
from iriai.protocol.messages.scheduling import Want


class TaskClasses:
    """The classes of all waiting tasks."""

    def __init__(self) -> None:
        self.shapes = ShapeIndex()
        self._classes: dict[TaskClassKey, TaskClass] = {}
        self._of_shape: dict[int, dict[TaskClass, None]] = {}
        """By position of the shape."""
        self.wide = 0
        """The number of classes whose tasks may take several machines."""
        self.gangs: dict[TaskClass, None] = {}
        """Those whose tasks take turns."""
        self.reserved: dict[TaskClass, None] = {}
        """Those whose tasks run in a reservation."""
        self._unsettled: dict[TaskClass, None] = {}
        self._shapes: dict[int, int] = {}
        """By position: the number of kinds of that shape that are not settled."""
        self.unsettled: Mask = 0
        """The shapes of those."""
        self.unsettlings = 0
        """Counts the calls of `unsettle`."""

    def __iter__(self) -> Iterator[TaskClass]:
        return iter(list(self._classes.values()))

    def get(self, key: TaskClassKey) -> TaskClass | None:
        """Return the kind with that key; None if no task of it waits."""
        return self._classes.get(key)

    def make(self, key: TaskClassKey) -> TaskClass:
        """Add a new kind, which is not possible yet."""
        total, together, is_wide = key.resources, -1, key.shape != ONE
        if is_wide:
            total, together = total.times(key.shape.least), SEVERAL
        elif key.exclusive:
            together = 0
        position = self.shapes.acquire(bins_of(total, key.stay_s, together))
        kind = self._classes[key] = TaskClass(key, position, total, is_wide=is_wide)
        self.wide += is_wide
        if key.is_gang:
            self.gangs[kind] = None
        if key.reservation is not None:
            self.reserved[kind] = None
        self._of_shape.setdefault(position, {})[kind] = None
        return kind

    def like(self, kind: TaskClass) -> Iterable[TaskClass]:
        """Return all classes of its shape, itself among them."""
        return self._of_shape[kind.position]

    def forget(self, kind: TaskClass) -> None:
        """Forget a class of which no task waits any more."""
        self.found_unplaceable(kind)
        self.shapes.release(kind.position)
        alike = self._of_shape[kind.position]
        del alike[kind]
        if not alike:
            del self._of_shape[kind.position]
        del self._classes[kind.key]
        self.wide -= kind.is_wide
        self.gangs.pop(kind, None)
        self.reserved.pop(kind, None)
        if kind.demand is not None:
            kind.demand.leave()

    def unsettle(self, kind: TaskClass) -> None:
        """Mark a class as one that may fit anywhere, by what is known."""
        kind.looked = -1
        self.unsettlings += 1
        if kind.is_settled:
            kind.is_settled = False
            self._unsettled[kind] = None
            self._shapes[kind.position] = self._shapes.get(kind.position, 0) + 1
            self.unsettled |= kind.bit

    def found_unplaceable(self, kind: TaskClass) -> None:
        """Mark a class as one that fits at most on machines with new room."""
        if not kind.is_settled:
            kind.is_settled = True
            del self._unsettled[kind]
            self._shapes[kind.position] -= 1
            if not self._shapes[kind.position]:
                del self._shapes[kind.position]
                self.unsettled ^= kind.bit

    def found_all_unplaceable(self) -> None:
        """Mark all classes as fitting nowhere: no machine is open."""
        for kind in self._unsettled:
            kind.is_settled = True
        self._unsettled.clear()
        self._shapes.clear()
        self.unsettled = 0


@dataclass(slots=True)
class AccountQueue:
    """The waiting tasks of one account."""

    account: Account
    queue: Queue
    ready: int = 0


class QueueRules(NamedTuple):
    """The rules by which requests become queues and classes."""

    end_slack_s: float
    is_shared: bool
    """True if all accounts wait in one queue."""
    is_capped: bool
    """True if cpus of each account have a cap."""
    tenant_of: Callable[[Account], str]
    """The name under which an account counts for one task on each machine; see `TaskClassKey`."""
    matching: Matchmaking
    """The requirements of jobs and machines."""
    turned_away: Callable[[Want], frozenset[str]]
    """Returns the machines that do not run tasks of the want's user."""
    age_s: float
    """After each of these a waiting task counts in a queue one higher; infinite: never."""
    starting: frozenset[int]
    """The queues of which tasks start."""
    gangs: frozenset[int] = frozenset()
    """The queues whose tasks take turns."""
    turning: frozenset[int] = frozenset()
    """Those, and the queues that tasks leave for such a one."""
    rows_max: int = 1
    """How many take turns on one machine, so for how much longer each may stay."""


class AccountQueues:
    """The queues of all requests, by account."""

    def __init__(self, rules: QueueRules, could_ever_run: Callable[[TaskClass], bool]) -> None:
        self._rules = rules
        self._could_ever_run = could_ever_run
        self.accounts: dict[Account, AccountQueue] = {}
        self.entries: dict[JobId, QueuedJob] = {}
        self.ready = 0
        """Waiting tasks of all accounts."""
        self.roster = 0
        """Incremented when an account begins or ceases to have a line."""
        self.classes = TaskClasses()
        self.shared: Queue | None = Queue() if rules.is_shared else None
        self.lower = 0
        """The number of entries that do not count in queue 0."""
        self.ageing = Ageing(rules.age_s)
        self.are_bounded = False
        """Whether requirements or ranks of a machine ever mattered, not only its resources."""

    def put(self, want: Want, now_s: float) -> None:
        """Replace the known want of the job."""
        old = self.entries.get(want.job)
        queued_at_s = now_s - want.waited_s
        level = self.ageing.level(want.queue, want.waited_s) if want.queue else 0
        precedence = Precedence(level, want.front <= 0, -want.urgency, queued_at_s, want.job)
        queue = self._account(want.account)
        queue.ready += want.count
        self.ready += want.count
        kind = self._kind(want)
        if old is not None and old.kind is not kind:  # no two lines may begin with the same task
            del self.entries[want.job]
            self._advance(old.line)
        line = self._line(queue.queue, kind, precedence)
        entry = self.entries[want.job] = QueuedJob(want, precedence, line, want.count, want.front)
        if old is not None:
            if old.precedence.level:
                self._leave_level(old)
            self._count_out(old, old.count)
            if old.kind is kind:
                self._advance(line)
        if level:
            self._enter_level(entry)

    def give_back(self, matched: QueuedJob) -> None:
        """Queue a task of the entry again, whose match failed."""
        want = matched.want
        entry = self.entries.get(want.job)
        queue = self._account(want.account)
        if entry is None:
            entry = matched
            entry.count = entry.front = 0
            entry.precedence = entry.precedence._replace(not_front=True)
            entry.line = self._line(queue.queue, self._kind(want), entry.precedence)
            self.entries[want.job] = entry
            if entry.precedence.level:
                self._enter_level(entry)
        entry.count += 1
        queue.ready += 1
        self.ready += 1

    def remove(self, job: JobId) -> bool:
        """Forget a job's want; return False if there is none."""
        entry = self.entries.get(job)
        if entry is None:
            return False
        self._count_out(entry, entry.count)
        self._forget(entry)
        return True

    def task_matched(self, entry: QueuedJob) -> None:
        """Remove one matched task from the entry."""
        self._count_out(entry, 1)
        if not entry.count:
            self._forget(entry)
        elif entry.front:
            entry.front -= 1
            if not entry.front:  # the others have not been started before
                entry.precedence = entry.precedence._replace(not_front=True)
                heappush(entry.line.heap, entry.precedence)
                self._advance(entry.line)

    def entry_of(self, line: SubQueue) -> QueuedJob:
        """The line's first."""
        return self.entries[line.first.job]

    @property
    def first_level(self) -> int:
        """Return the highest level of which a task could ever run."""
        firsts = [each.queue.first for each in self.accounts.values()]
        return min((line.first.level for line in firsts if line is not None), default=0)

    def level_of(self, job: JobId) -> int:
        """Return the level of a job; 0 if none of it waits."""
        entry = self.entries.get(job)
        return 0 if entry is None else entry.precedence.level

    def review(self) -> None:
        """Check again which kinds could run on some machine, after machines came or went."""
        for kind in self.classes:
            is_possible = self._could_ever_run(kind)
            if is_possible and not kind.is_possible:
                self._admit(kind)
            elif kind.is_possible and not is_possible:
                kind.is_possible = False
                self.roster += 1
                self.classes.found_unplaceable(kind)
                for line in kind.lines:
                    line.queue.leave(line)

    def regroup(self, concerns: Callable[[Want], bool] = bool) -> None:
        """Classify again the wants that `concerns` selects (default: all)."""
        for entry in [each for each in self.entries.values() if concerns(each.want)]:
            old, kind = entry.line, self._kind(entry.want)
            if kind is not old.kind:
                entry.precedence = Precedence(*entry.precedence)  # so the old line drops it
                self._advance(old)  # first: two lines in one queue have no equal first
                entry.line = self._line(old.queue, kind, entry.precedence)

    def configured(self, configuration: Configuration) -> None:
        """Let the queues be those of a configuration."""
        old = self._rules
        rules = self._rules = old._replace(
            starting=configuration.starting_queues,
            gangs=configuration.gang_queues,
            turning=configuration.turning_queues,
            rows_max=configuration.gang.rows_max,
        )
        changed = rules.starting ^ old.starting | rules.gangs ^ old.gangs
        changed |= rules.turning ^ old.turning
        if rules.rows_max != old.rows_max:
            changed |= rules.turning
        self.regroup(lambda want: want.queue in changed)

    def catch_up(self, queue: Queue) -> None:
        """Mark all kinds of an account as possibly fitting, after it was left out of passes."""
        queue.is_behind = False
        for line in queue.order:
            self.classes.unsettle(line.kind)

    def check(self) -> None:
        """Raise if the accounts' sums and lines do not agree with their entries."""
        ready: dict[Account, int] = {}
        for entry in self.entries.values():
            assert entry.count > 0
            assert 0 <= entry.front <= entry.count
            account = entry.want.account
            ready[account] = ready.get(account, 0) + entry.count
            line = entry.line
            assert line.queue.lines[line.kind] is line, f"{entry.want.job} stands in no line"
            assert line.first <= entry.precedence, f"{entry.want.job} is not behind its first"
            assert self.entries[line.first.job].precedence == line.first
        for queue in self.accounts.values():
            lines = queue.queue.lines.values()
            possible = sorted(line.first for line in lines if line.kind.is_possible)
            assert [line.first for line in queue.queue.order] == possible
            assert all(queue.queue.lines[line.kind] is line for line in queue.queue.order)
        assert self.ready == sum(ready.values())
        assert ready == {account: queue.ready for account, queue in self.accounts.items()}

    def age(self, now_s: float) -> bool:
        """Let what has waited long enough count in a higher queue; return whether any does."""
        risen = self.ageing.risen(now_s)
        for job in risen:
            entry = self.entries[job]
            old, want = entry.precedence, entry.want
            # Rounded, the time may be a little short of what it was noted for.
            level = min(old.level - 1, self.ageing.level(want.queue, now_s - old.queued_at_s))
            self._leave_level(entry)
            entry.precedence = old._replace(level=level)
            if level:
                self._enter_level(entry)
            self._line(entry.line.queue, entry.kind, entry.precedence)
            self._advance(entry.line)
        return bool(risen)

    # --- lines -----------------------------------------------------------------------------------

    def _account(self, account: Account) -> AccountQueue:
        queue = self.accounts.get(account)
        if queue is None:
            queue = AccountQueue(account, self.shared or Queue())
            self.accounts[account] = queue
            self.roster += 1
        return queue

    def _kind(self, want: Want) -> TaskClass:
        rules = self._rules
        turned_away = rules.turned_away(want)
        problem = rules.matching.problem_of(want)
        is_free = not (turned_away or problem)
        bounds = None if is_free else Eligibility(turned_away, problem)
        self.are_bounded |= bounds is not None
        key = TaskClassKey(
            want.resources,
            longest_stay_s(want.limit_s, want.grace_s, rules.end_slack_s),
            want.exclusive,
            rules.tenant_of(want.account),
            want.account if rules.is_shared and rules.is_capped else None,
            rules.matching.key(want),
            bounds,
            is_guest=is_guest(want),
        )
        if want.is_evictable or want.reservation is not None:
            key = _endable(key, want, rules.end_slack_s)
        if want.queue not in rules.starting:
            key = key._replace(is_stopped=True)
        if (
            want.queue in rules.turning
            and want.resources.memory_bytes
            and not want.exclusive
            and want.reservation is None
        ):
            stay_s = longest_stay_s(
                want.limit_s, want.grace_s, rules.end_slack_s, parts=rules.rows_max
            )
            key = key._replace(stay_s=stay_s, is_gang=want.queue in rules.gangs)
        if want.shape is not ONE:
            key = key._replace(shape=want.shape, across_pools=want.across_pools)
        kind = self.classes.get(key)
        if kind is None:
            kind = self.classes.make(key)
            if key.demand is not None:
                kind.demand = rules.matching.begin().demand(key.demand).enter()
            if self._could_ever_run(kind):
                self._admit(kind)
        return kind

    def _admit(self, kind: TaskClass) -> None:
        """Let the kind contend from now on."""
        kind.is_possible = True
        self.roster += bool(kind.lines)
        self.classes.unsettle(kind)
        for line in kind.lines:
            line.queue.enter(line)

    def _line(self, queue: Queue, kind: TaskClass, precedence: Precedence) -> SubQueue:
        """Return the line of that kind, for one more entry."""
        line = queue.lines.get(kind)
        if line is None:
            line = queue.lines[kind] = SubQueue(queue, kind, precedence)
            kind.lines.append(line)
            if kind.is_possible:
                self.roster += queue.first is None
                queue.enter(line)
        elif precedence < line.first:
            self._move(line, precedence)
        heappush(line.heap, precedence)
        return line

    def _forget(self, entry: QueuedJob) -> None:
        del self.entries[entry.want.job]
        if entry.precedence.level:
            self._leave_level(entry)
        self._advance(entry.line)

    def _enter_level(self, entry: QueuedJob) -> None:
        """Count an entry that does not count in queue 0."""
        precedence, want = entry.precedence, entry.want
        self.lower += 1
        self.ageing.note(want.job, want.queue, precedence.level, precedence.queued_at_s)

    def _leave_level(self, entry: QueuedJob) -> None:
        self.lower -= 1
        self.ageing.forget(entry.want.job)

    def _move(self, line: SubQueue, first: Precedence) -> None:
        if line.kind.is_possible:
            line.queue.move(line, first)
        line.first = first

    def _count_out(self, entry: QueuedJob, count: int) -> None:
        entry.count -= count
        self.ready -= count
        queue = self.accounts[entry.want.account]
        queue.ready -= count
        if not queue.ready:
            del self.accounts[entry.want.account]
            self.roster += 1

    def _advance(self, line: SubQueue) -> None:
        """Update the line after its first entry left or moved."""
        heap = line.heap
        while heap:
            entry = self.entries.get(heap[0].job)
            if entry is not None and entry.precedence is heap[0]:
                if heap[0] is not line.first:
                    self._move(line, heap[0])
                return
            heappop(heap)
        if line.kind.is_possible:
            line.queue.leave(line)
            self.roster += line.queue.first is None
        del line.queue.lines[line.kind]
        line.kind.lines.remove(line)
        if not line.kind.lines:
            self.classes.forget(line.kind)


def _endable(key: TaskClassKey, want: Want, slack_s: float) -> TaskClassKey:
    """Return the key of tasks that may be ended before they have used up their stay."""
    least_s = want.grace_s + slack_s
    if want.reservation is not None:
        return key._replace(reservation=want.reservation, least_s=least_s)
    least_s += EVICTABLE_MIN_S
    is_longer = key.stay_s is None or key.stay_s > least_s
    return key._replace(least_s=least_s) if is_longer else key
