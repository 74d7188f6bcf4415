"""A broker's state with tasks of several ranks on machines of two pools, in virtual time.

Every promise, start and running cap is looked at: seats are as the task asked for, a promise is
never moved later, and no account runs more than its cap.
"""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.scheduling.plan_policy import planning_of
from iriai.broker.scheduling.scheduling_pass import SchedulingPass
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.state import BrokerSettings, BrokerState
from iriai.broker.usage.usage import UsageAccounts
from iriai.config.reader import Configuration
from iriai.config.sections import JobSection, OrderSection
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.ranks import RankShape, has_shape
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import OrderSettings
from iriai.policy.placement.seats import Seat
from iriai.protocol.messages.scheduling import Want

ROUNDING_S = 1e-6
SHAPES = (
    RankShape(1, 1),
    RankShape(2, 2),
    RankShape(3, 3),
    RankShape(5, 5),
    RankShape(2, 6),
    RankShape(4, 4, 2),
    RankShape(3, 3, 2),
    RankShape(4, 4, None, 2),
    RankShape(2, 2, None, 1),
)


class WaitingRanks:
    """Tasks that come at random; `run` goes on until all have started and ended."""

    def __init__(self, seed: int, order: OrderSection, *, is_alike: bool = False) -> None:
        self.rng = Random(seed)
        self.cap_cpus = order.running_cap_cpus
        jobs = JobSection(end_slack_s=0.0, kill_grace_s=0.0, time_limit_s=None)
        configuration = Configuration(order=order, jobs=jobs)
        named = order_named(order.name, OrderSettings(order.usage_floor_s))
        usage = UsageAccounts(decay_of(order), ChargeRule.of(order))
        self.state = BrokerState(BrokerSettings(configuration, named, None), usage)
        self.planning = planning_of(self.state) if self.state.settings.is_planned else None
        self.draws = DecisionRng(Random(seed))
        for number in range(self.rng.randint(3, 7)):
            pool = "ab"[number % 2]
            capacity = Resources(cpus=self.rng.randint(4, 8))
            view = MachineView(f"m{number}", capacity, mints=False, pool=pool)
            self.state.add_machine(view)
        self.wants: dict[JobId, Want] = {}
        self.promised_s: dict[JobId, float] = {}
        self.started_s: dict[JobId, float] = {}
        self.ends: list[tuple[float, int, tuple]] = []
        self.arrivals = sorted(
            (self.rng.choice((0.0, 1.0, self.rng.randint(0, 30))), number) for number in range(25)
        )
        self.is_alike = is_alike
        self.must_keep_promises = self.planning is None or self.cap_cpus is None
        """A plan knows no caps: what one holds up is late."""
        self.may_take_whole = self.planning is None and self.cap_cpus is None
        """A plan knows no whole machines, and a cap counts what is asked for."""
        self.count = 0

    def run(self) -> None:
        now_s = 0.0
        while self.arrivals or self.ends or self.wants.keys() - self.started_s.keys():
            now_s = self._next_s(now_s)
            while self.ends and self.ends[0][0] <= now_s:
                _, _, seats = heappop(self.ends)
                for view, _, key in seats:
                    self.state.end(view, key)
            while self.arrivals and self.arrivals[0][0] <= now_s:
                self._arrive(heappop(self.arrivals)[1], now_s)
            self._pass(now_s)
            self.state.check()

    def lose(self, machine: str, now_s: float) -> None:
        """Take a machine away, with what runs there."""
        self.state.drop_machine(self.state.machines[machine], now_s)
        self.promised_s.clear()

    def queue_of_next(self) -> int:
        """Return the queue of the next task that comes."""
        return 0

    def _next_s(self, now_s: float) -> float:
        wake_s = self.planning.wake_s if self.planning is not None else None
        times = [self.arrivals[0][0]] if self.arrivals else []
        times += [self.ends[0][0]] if self.ends else []
        times += [wake_s] if wake_s is not None and wake_s > now_s else []
        assert times, f"{len(self.wants) - len(self.started_s)} tasks never start"
        return min(times)

    def _arrive(self, number: int, now_s: float) -> None:
        rng = self.rng
        limit_s = float(rng.randint(1, 20))
        need = Resources(cpus=1 if self.is_alike else rng.choice((1, 1, 2, 3)))
        shape = rng.choice(SHAPES[:5] if self.is_alike else SHAPES)
        if self.cap_cpus is not None and need.cpus * shape.most > self.cap_cpus:
            need, shape = Resources(cpus=1), SHAPES[1]
        account = Account("lab", f"user{rng.randint(1, 3)}")
        across = rng.random() < 0.2
        want = Want(
            JobId("ume", number), account, need, limit_s, 1.0, 0.0, 1, shape=shape,
            across_pools=across, exclusive=self.may_take_whole and rng.random() < 0.1,
            queue=self.queue_of_next(),
        )  # fmt: skip
        self.state.put(want, now_s)
        if self.state.queues.entries[want.job].kind.is_possible:
            self.wants[want.job] = want
        else:
            self.state.queues.remove(want.job)

    def _pass(self, now_s: float) -> None:
        now = Instant(now_s, now_s)
        if self.planning is not None:
            outcome = self.planning.run(self.draws, now)
        else:
            outcome = SchedulingPass(self.state, self.draws, now).run()
        for promise in outcome.promises:
            self._promised(promise.job, promise.start_in_s, now_s)
        for entry, seats in outcome.decisions:
            self._started(self.wants[entry.want.job], seats, now_s)

    def _promised(self, job: JobId, in_s: float | None, now_s: float) -> None:
        if in_s is None or not self.must_keep_promises:
            return
        known_s = self.promised_s.get(job)
        assert known_s is None or now_s + in_s <= known_s + ROUNDING_S, f"{job} is moved later"
        self.promised_s[job] = now_s + in_s

    def _started(self, want: Want, seats: tuple, now_s: float) -> None:
        assert has_shape([Seat(view.name, ranks) for view, ranks, _ in seats], want.shape)
        assert want.across_pools or len({view.pool for view, *_ in seats}) == 1
        assert now_s <= self.promised_s.get(want.job, now_s) + ROUNDING_S, f"{want.job} is late"
        self.started_s[want.job] = now_s
        self.count += 1
        ran_s = want.limit_s if self.rng.random() < 0.5 else want.limit_s * self.rng.random()
        heappush(self.ends, (now_s + ran_s, self.count, seats))
        if self.cap_cpus is not None:
            assert self.state.usage.running_cpus(want.account) <= self.cap_cpus
