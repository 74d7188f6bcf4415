"""A small world and its events, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from msgspec.structs import replace as with_fields

from iriai.config.reader import Configuration
from iriai.config.sections import (
    Even,
    GangSection,
    JobSection,
    OrderSection,
    PoolSection,
    QueueMode,
    QueueSection,
)
from iriai.model.ad import POOL, capacity_attributes, machine_ad
from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from iriai.model.submission import Layout
from iriai.protocol.messages.effects import Part
from iriai.sim.faults.actions import (
    BOUNDED_POOL,
    KINDS,
    OF_NODES,
    PHASE_STEPS,
    Happening,
)
from iriai.sim.faults.clock_steps import broken_reserving
from iriai.sim.faults.contested import contested, with_machines_for_all
from iriai.sim.faults.owners import skipping, visits, with_conditions, with_owner
from iriai.sim.faults.promising import reserved_beside_promises, with_limits, with_promises
from iriai.sim.faults.reservations import (
    ASKED_UNTIL_S,
    closer,
    disciplined,
    evictable,
    reservations_of,
    rivals,
    with_rules,
)
from iriai.sim.faults.series import with_horizon, with_series
from iriai.sim.faults.user_requests import Submission
from iriai.sim.world.clock import Clock
from iriai.sim.world.machine_model import EVERYBODY, MachinePlan
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import FAILURE, SUCCESS, Work
from iriai.sim.world.world import World

BEGIN_S = 10.0
"""The time by which all links are up."""
FAULTS_UNTIL_S = 200.0
"""The end of all faults; from then on every feasible job must end."""
ORDERS: tuple[tuple[str, Even], ...] = (
    ("lottery", "total"),
    ("lottery", "rate"),
    ("stride", "total"),
    ("fifo", "total"),
)
"""The name of the order, and what it evens."""
DRIFT_MAX = 0.004
"""Two clocks differ by less than the hundredth that leases allow for."""
SHORT_CHANCE = 0.2
"""The chance that a seed has many short tasks as well."""
PARALLEL_CHANCE = 0.4
"""The chance that a seed has tasks of several ranks."""
SUSPEND_CHANCE = 0.3
"""The chance that in a seed users suspend tasks, and machines freeze what they run."""
SUSPEND_MAX_S = 60.0
"""How long a user may keep a task suspended."""
REFUND_MAX_S = 60.0
"""How much is returned to an account a day: less than many lose."""
OWNER_CHANCE = 0.25
"""The chance that machines of a seed have owners, for whom tasks give way."""
RESERVATION_CHANCE = 0.25
"""The chance that users of a seed reserve machines ahead."""
CONTESTED_CHANCE = 0.1
"""The chance that two of these reservations are changed to the same time, at once."""
QUEUE_CHANCE = 0.3
"""The chance that the jobs of a seed are in several queues."""
PREEMPTION_CHANCE = 0.5
"""The chance that running tasks of these queues may be frozen."""
RESIDENCES_S = (None, None, 5.0, 20.0)
MEMORY_BYTES = (0, 1 << 26, 1 << 26, 1 << 28)
"""Of each rank, where tasks take turns: machines have a gibibyte."""
POOL_CHANCE = 0.2
"""The chance that the back ends of a seed are a pool with a bound on the tasks that run there."""
QUEUES = (0, 0, 1, 2)
AGE_S = 30.0
HOLE_CHANCE = 0.2
"""The chance that a seed has a machine on which many tasks fail at once."""
FRONT = "front"
PEOPLE = ("cancel", "cancel-running", "hold")
OF_THEIR_OWN = (
    *("submit", "gone", "forgotten", "prolog-fails", "program-missing"),
    *("reserve", "modify-reservation", "cancel-reservation", "end-reservation", "clock-steps"),
    "dies-reserving",
    *("dies-in-phase", "suspend", "freezes", "queue-stops", "pool-has-less"),
    *("owner-comes", "owner-says", "sensor-fails", "condition-holds", "machine-sleeps"),
)
"""Kinds that are drawn apart from the others."""
FAULTS = tuple(kind for kind in KINDS if kind not in (*OF_THEIR_OWN, *PEOPLE))
CPU_PARTS = (1.0, 1.0, 0.1, 2.0)
"""The part of the claimed cpus that tasks use."""
CLAIMED_BYTES = 1 << 28
"""Of memory, by a third of the jobs: a machine of the world has room for four such tasks."""
GROWTHS_BYTES_PER_S = (0.0, float(1 << 20), float(1 << 26))
"""The fastest is at `CLAIMED_BYTES` after 4 s; the middle one never is."""
SYNCS_S = (0.0, 0.005, 0.05, 1.0)
"""Seconds that commits take; calm scenarios leave out the last."""

LAN = NetworkPlan(latency_s=0.001, jitter_s=0.004, notice_s=1.0)
SLOW = NetworkPlan(latency_s=0.1, jitter_s=1.0, notice_s=10.0)
SCRAMBLED = NetworkPlan(0.01, 0.2, 5.0, loss=0.1, repeat=0.1, late=0.15)
NETWORKS = (LAN, LAN, SLOW, SCRAMBLED)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The machines, the network and the events of one simulated world."""

    seed: int
    network: NetworkPlan
    through_wire: bool
    plans: tuple[MachinePlan, ...]
    clocks: tuple[Clock, ...]
    """The clocks of the machines, in the order of `plans`."""
    happenings: tuple[Happening, ...]
    is_calm: bool

    def world(self) -> World:
        """Return a world with the machines of the scenario, at its beginning."""
        world = World(self.seed, self.network, through_wire=self.through_wire)
        for plan, clock in zip(self.plans, self.clocks, strict=True):
            world.add(plan, clock)
        return world


def scenario_of(
    seed: int, arranged: Callable[[list[MachinePlan]], list[MachinePlan]] = list
) -> Scenario:
    """Return the scenario of a seed; in one of six nothing breaks (it is calm).

    One machine is the front end, unless `arranged` makes other machines of those of the seed.
    """
    shape = Rng(seed, "shape")
    is_calm = shape.chance(1 / 6)
    network = LAN if is_calm else shape.pick(NETWORKS)
    plans = arranged(_plans(shape, is_calm))
    clocks = _clocks(Rng(seed, "clocks"), len(plans))
    names = [plan.name for plan in plans]
    homes = [plan.name for plan in plans if Part.HOME in plan.parts]
    nodes = [plan.name for plan in plans if Part.NODE in plan.parts]
    gone = _gone(shape, plans) if not is_calm else ""
    lasting = [plan for plan in plans if Part.NODE in plan.parts and plan.name != gone]
    cpus = max(plan.capacity.cpus for plan in lasting)
    happenings = _work(Rng(seed, "work"), Rng(seed, "use"), homes, cpus)
    sizes = _sizes(lasting)
    short = Rng(seed, "short")
    if short.chance(SHORT_CHANCE):
        happenings += _short_work(short, homes, cpus)
    parallel = Rng(seed, "parallel")
    if parallel.chance(PARALLEL_CHANCE):
        happenings += _parallel_work(parallel, homes, sizes)
        happenings += _deaths_in_phases(parallel, names) if not is_calm else []
    suspensions = Rng(seed, "suspensions")
    if suspensions.chance(SUSPEND_CHANCE):
        happenings += _suspensions(suspensions, homes, nodes, is_calm=is_calm)
    plans, happenings = _with_queues(seed, plans, happenings, homes, sizes)
    if not is_calm:
        plans = _with_owners(seed, plans, happenings)
    pools = Rng(seed, "pools")
    if pools.chance(POOL_CHANCE):
        plans = [_in_pool(plan, pools.pick((1, 2, 3))) for plan in plans]
        happenings += _shortages(pools, homes)
    reserving = Rng(seed, "reservations")
    if reserving.chance(RESERVATION_CHANCE):
        plans = with_rules(Rng(seed, "no-shows"), plans)
        clocks = disciplined(reserving, clocks)
        happenings = [evictable(reserving, each) for each in happenings]
        repeating = Rng(seed, "series")
        plans = with_horizon(repeating, plans)
        asked = reservations_of(reserving, homes, len(nodes), cpus, sizes, BEGIN_S)
        happenings += with_series(repeating, asked)
        happenings += rivals(Rng(seed, "rivals"), asked, len(nodes))
        happenings += [] if is_calm else broken_reserving(seed, reserving, plans, BEGIN_S)
        rng = Rng(seed, "contested")
        if rng.chance(CONTESTED_CHANCE):
            plans, clocks = with_machines_for_all(plans), closer(clocks)
            happenings = contested(rng, happenings, homes, nodes, BEGIN_S, is_calm=is_calm)
        if is_calm:  # promises are checked there alone
            promising = Rng(seed, "promising")
            plans, happenings = with_promises(promising, plans), with_limits(happenings)
            happenings += reserved_beside_promises(promising, homes, sizes, BEGIN_S, ASKED_UNTIL_S)
    if not is_calm:
        happenings += _breaking(seed, homes, names, nodes)
    if gone:
        happenings.append(Happening(shape.between(BEGIN_S, FAULTS_UNTIL_S), "gone", gone))
    happenings.sort(key=lambda each: each.at_s)
    parts = tuple(plans), tuple(clocks), tuple(happenings)
    return Scenario(seed, network, shape.chance(0.2), *parts, is_calm)


def _with_queues(
    seed: int,
    plans: list[MachinePlan],
    happenings: list[Happening],
    homes: list[str],
    sizes: list[int],
) -> tuple[list[MachinePlan], list[Happening]]:
    """Return machines and what happens to them, with queues where the seed has some."""
    queues = Rng(seed, "queues")
    if not queues.chance(QUEUE_CHANCE):
        return plans, happenings
    plans = [_with_age(plan) for plan in plans]
    happenings = [_in_queue(queues, each) for each in happenings]
    happenings += _stops(queues, homes)
    modes = Rng(seed, "modes")
    if modes.chance(PREEMPTION_CHANCE):
        plans = _with_modes(modes, plans)
        happenings += _whole_clusters(modes, homes, sizes)
        happenings = [_with_memory(modes, each) for each in happenings]
    return plans, happenings


def _breaking(seed: int, homes: list[str], names: list[str], nodes: list[str]) -> list[Happening]:
    """Return what users take back, and what breaks, where anything does."""
    happenings = _people(Rng(seed, "people"), homes)
    happenings += _faults(Rng(seed, "faults"), names, nodes)
    happenings += _prologs(Rng(seed, "prologs"), nodes)
    happenings += _forgotten(Rng(seed, "forgotten"), homes, nodes)
    hole = Rng(seed, "hole")
    if hole.chance(HOLE_CHANCE):
        happenings += _hole(hole, homes, nodes)
    return happenings


def _gone(shape: Rng, plans: list[MachinePlan]) -> str:
    """Return a back end that leaves for ever, where other machines run tasks; else nothing."""
    alone = [plan.name for plan in plans if plan.parts == (Part.NODE,)]
    nodes = [plan for plan in plans if Part.NODE in plan.parts]
    return shape.pick(alone) if alone and len(nodes) > 1 and shape.chance(0.3) else ""


def _plans(shape: Rng, is_calm: bool) -> list[MachinePlan]:
    name, even = shape.pick(ORDERS)
    configuration = Configuration(
        order=OrderSection(
            name=name,
            even=even,
            refund_max_s=REFUND_MAX_S,
            half_life_s=604_800.0,
            offpeak_factor=1.0,
        ),
        jobs=JobSection(end_slack_s=5.0, user_suspend_max_s=SUSPEND_MAX_S),
    )
    front = (Part.HOME, Part.BROKER)
    parts: list[tuple[Part, ...]] = [(Part.NODE, *front) if shape.chance(0.3) else front]
    back_ends = 1 + shape.below(3)
    parts += [(Part.NODE, Part.HOME)[: 1 + shape.chance(0.2)] for _ in range(back_ends)]
    return [
        MachinePlan(
            f"b{number}" if number else FRONT,
            Resources(shape.pick((1, 2, 4)), 1 << 30),
            its,
            FRONT if number else "",
            configuration,
            load_max=1.0,
            outward_only=number > 0 and shape.chance(0.3) and Part.HOME not in its,
            sync_s=shape.pick(SYNCS_S[: 3 if is_calm else 4]),
        )
        for number, its in enumerate(parts)
    ]


def _clocks(rng: Rng, count: int) -> list[Clock]:
    return [
        Clock(
            rng.between(0.0, 1e6),
            rng.between(-100.0, 100.0),
            rng.between(-DRIFT_MAX, DRIFT_MAX),
        )
        for _ in range(count)
    ]


def _work(rng: Rng, use: Rng, homes: list[str], cpus_max: int) -> list[Happening]:
    happenings = []
    for _ in range(4 + rng.below(9)):
        run_s = rng.pick((0.0, 0.5, 3.0, 10.0, 40.0))
        work = Work(run_s, FAILURE if rng.chance(0.1) else SUCCESS, rng.chance(0.2))
        submission = Submission(
            user=rng.pick(("ann", "bob", "eve")),
            cpus=min(cpus_max, rng.pick((1, 1, 1, 2, 4))),
            tasks=rng.pick((1, 1, 1, 2, 5)),
            work=work._replace(
                cpu_part=use.pick(CPU_PARTS),
                memory_bytes_per_s=use.pick(GROWTHS_BYTES_PER_S),
            ),
            memory_bytes=use.pick((0, 0, CLAIMED_BYTES)),
            limit_s=rng.pick((None, 5.0, 20.0, 60.0)),
            lease_s=rng.pick((12.0, 20.0, 40.0)),
            urgency=rng.pick((1.0, 1.0, 1.0, 2.0)),
            max_restarts=rng.pick((None, None, None, 0, 1)),
        )
        at_s = rng.between(BEGIN_S, FAULTS_UNTIL_S * 0.8)
        happenings.append(Happening(at_s, "submit", rng.pick(homes), submission=submission))
    return happenings


def _short_work(rng: Rng, homes: list[str], cpus_max: int) -> list[Happening]:
    """Return submissions of short tasks, which are prefetched; some turn out to be long."""
    happenings = []
    for _ in range(1 + rng.below(3)):
        is_limited = rng.chance(0.5)
        submission = Submission(
            user=rng.pick(("ann", "bob", "sam")),
            cpus=rng.pick((1, 1, 1, 2)) if cpus_max > 1 else 1,
            tasks=6 + rng.below(12),
            work=Work(rng.pick((0.3, 1.0, 2.0)), SUCCESS),
            limit_s=4.0 if is_limited else None,
            lease_s=rng.pick((12.0, 20.0, 40.0)),
        )
        at_s = rng.between(BEGIN_S, FAULTS_UNTIL_S * 0.8)
        happenings.append(Happening(at_s, "submit", rng.pick(homes), submission=submission))
        if not is_limited:  # as short as the others, by all that is known of them
            late = replace(submission, tasks=2, work=Work(25.0, SUCCESS))
            at_s += rng.between(0.0, 5.0)
            happenings.append(Happening(at_s, "submit", rng.pick(homes), submission=late))
    return happenings


def _sizes(plans: list[MachinePlan]) -> list[int]:
    """Return the cpus of machines that every cluster has which runs the tasks of all users."""
    led = {plan.cluster for plan in plans if not (plan.cluster and plan.outward_only)}
    clusters: dict[str, list[int]] = {}
    for plan in plans:
        if plan.rules is EVERYBODY:
            name = plan.cluster if plan.cluster in led else plan.name
            clusters.setdefault(name, []).append(plan.capacity.cpus)
    sizes = list(clusters.values())
    return sizes[0] if len(sizes) == 1 else [min(map(min, sizes))] * min(map(len, sizes))


def _parallel_work(rng: Rng, homes: list[str], sizes: list[int]) -> list[Happening]:
    """Return submissions of tasks with several ranks, which machines of these sizes can hold."""
    happenings = []
    for _ in range(1 + rng.below(4)):
        cpus = 1 if min(sizes) < 2 else rng.pick((1, 1, 2))
        each = [size // cpus for size in sizes]
        most = 1 + rng.below(sum(each))
        least = rng.pick((most, most, 1 + rng.below(most)))
        nodes = per_node = None
        if rng.chance(0.3):
            nodes = 1 + rng.below(len(sizes))
            least = most = nodes * min(each)
        elif rng.chance(0.2):
            per_node = 1 + rng.below(min(each))
            least = most = per_node * (1 + rng.below(len(sizes)))
        end = FAILURE if rng.chance(0.2) else SUCCESS
        run_s = rng.pick((0.5, 3.0, 10.0, 40.0))
        work = Work(run_s, end, rng.chance(0.2), spread=0.4)
        submission = Submission(
            user=rng.pick(("ann", "bob", "eve")),
            cpus=cpus,
            tasks=rng.pick((1, 1, 2)),
            work=work,
            limit_s=rng.pick((None, 20.0, 60.0)),
            lease_s=rng.pick((12.0, 20.0, 40.0)),
            max_restarts=rng.pick((None, None, None, 0, 1)),
            shape=RankShape(least, most, nodes, per_node),
            keep_going=rng.chance(0.2),
            layout=Layout.FIRST if rng.chance(0.2) else Layout.RANKS,
        )
        at_s = rng.between(BEGIN_S, FAULTS_UNTIL_S * 0.8)
        happenings.append(Happening(at_s, "submit", rng.pick(homes), submission=submission))
    return happenings


def _deaths_in_phases(rng: Rng, names: list[str]) -> list[Happening]:
    """Return daemons that die at one of the steps from hold to start, and come back."""
    return [
        Happening(
            rng.between(BEGIN_S, FAULTS_UNTIL_S * 0.8),
            "dies-in-phase",
            rng.pick(names),
            rng.pick((rng.between(0.0, 2.0), rng.between(2.0, 60.0))),
            number=PHASE_STEPS * rng.below(4) + rng.pick((*range(PHASE_STEPS), 3, 3, 3)),
        )
        for _ in range(rng.below(13))
    ]


def _prologs(rng: Rng, nodes: list[str]) -> list[Happening]:
    """Return failures of prologs, after each of which the machine is resumed."""
    return [
        Happening(
            rng.between(BEGIN_S, FAULTS_UNTIL_S),
            "prolog-fails",
            rng.pick(nodes),
            rng.between(2.0, 40.0),
        )
        for _ in range(rng.below(3) if nodes else 0)
    ]


def _hole(rng: Rng, homes: list[str], nodes: list[str]) -> list[Happening]:
    """Return a large array whose program is missing on one machine for a while."""
    submission = Submission(
        user=rng.pick(("ann", "bob", "eve")),
        cpus=1,
        tasks=15 + rng.below(15),
        work=Work(rng.pick((5.0, 8.0)), SUCCESS),
        lease_s=rng.pick((12.0, 20.0, 40.0)),
    )
    at_s = rng.between(BEGIN_S, FAULTS_UNTIL_S * 0.6)
    missing_s = rng.between(at_s, at_s + 10.0)
    lasts_s = rng.between(20.0, 80.0)
    return [
        Happening(at_s, "submit", rng.pick(homes), submission=submission),
        Happening(missing_s, "program-missing", rng.pick(nodes), lasts_s),
    ]


def _forgotten(rng: Rng, homes: list[str], nodes: list[str]) -> list[Happening]:
    """Return repeated requests to forget machines, refused while these are online."""
    return [
        Happening(rng.between(BEGIN_S, FAULTS_UNTIL_S), "forgotten", rng.pick(homes), 0.0, other)
        for other in nodes
        if rng.chance(0.5)
        for _ in range(6)
    ]


def _suspensions(rng: Rng, homes: list[str], nodes: list[str], *, is_calm: bool) -> list[Happening]:
    """Return suspensions by users, and by machines where something may put promises off."""
    happenings = []
    for _ in range(2 + rng.below(12)):
        is_users = is_calm or rng.chance(0.6)
        happenings.append(
            Happening(
                rng.between(BEGIN_S, FAULTS_UNTIL_S),
                "suspend" if is_users else "freezes",
                rng.pick(homes if is_users else nodes),
                rng.pick((rng.between(0.0, 1.0), rng.between(1.0, 20.0), rng.between(20.0, 90.0))),
                number=1 + rng.below(10),
            )
        )
    return happenings


def _with_owners(
    seed: int, plans: list[MachinePlan], happenings: list[Happening]
) -> list[MachinePlan]:
    """Return the machines, of which some may have owners; add what these do."""
    rng = Rng(seed, "owners")
    if not rng.chance(OWNER_CHANCE):
        return plans
    plans = [with_owner(rng, plan) for plan in plans]
    happenings += visits(rng, plans, BEGIN_S, FAULTS_UNTIL_S)
    happenings[:] = [skipping(rng, each) for each in happenings]
    plans, further = with_conditions(Rng(seed, "conditions"), plans, BEGIN_S, FAULTS_UNTIL_S)
    happenings += further
    return plans


def _with_age(plan: MachinePlan) -> MachinePlan:
    order = with_fields(plan.configuration.order, age_s=AGE_S)
    return replace(plan, configuration=with_fields(plan.configuration, order=order))


def _with_modes(rng: Rng, plans: list[MachinePlan]) -> list[MachinePlan]:
    """Return the machines, with the same queues in which tasks give way or take turns."""
    modes: tuple[QueueMode, ...] = ("shared", "exclusive", "gang", "gang")
    queues = {
        str(number): QueueSection(mode=rng.pick(modes), residence_s=rng.pick(RESIDENCES_S))
        for number in range(QUEUES[-1] + 1)
    }
    gang = GangSection(rng.pick((1.0, 1.0, 5.0)), rng.pick((1, 2, 4)))
    return [
        replace(plan, configuration=with_fields(plan.configuration, queues=queues, gang=gang))
        for plan in plans
    ]


def _whole_clusters(rng: Rng, homes: list[str], sizes: list[int]) -> list[Happening]:
    """Return submissions to lower queues of tasks with a rank on each cpu.

    All others are in their way, so they stand for a part of their time, or take turns.
    """
    happenings = []
    for _ in range(1 + rng.below(3)):
        submission = Submission(
            user=rng.pick(("ann", "bob", "eve")),
            cpus=1,
            tasks=1,
            work=Work(rng.pick((10.0, 40.0)), SUCCESS),
            lease_s=rng.pick((12.0, 20.0, 40.0)),
            shape=RankShape(sum(sizes), sum(sizes)),
            queue=rng.pick(QUEUES[2:]),
        )
        at_s = rng.between(BEGIN_S, FAULTS_UNTIL_S * 0.6)
        happenings.append(Happening(at_s, "submit", rng.pick(homes), submission=submission))
    return happenings


def _with_memory(rng: Rng, happening: Happening) -> Happening:
    """Return the same, with a limit of memory if it submits a job that has none."""
    submission = happening.submission
    if submission is None or submission.memory_bytes:
        return happening
    limited = replace(submission, memory_bytes=rng.pick(MEMORY_BYTES))
    return replace(happening, submission=limited)


def _in_pool(plan: MachinePlan, jobs_max: int) -> MachinePlan:
    attributes = capacity_attributes(plan.name, plan.capacity, plan.speed)
    pools = {BOUNDED_POOL: PoolSection(jobs_max=jobs_max)}
    return replace(
        plan,
        ad=machine_ad(attributes | {POOL: BOUNDED_POOL}),
        configuration=with_fields(plan.configuration, pools=pools),
    )


def _shortages(rng: Rng, homes: list[str]) -> list[Happening]:
    """Return when jobs of the pool have less."""
    return [_for_a_while(rng, "pool-has-less", homes) for _ in range(rng.below(2))]


def _stops(rng: Rng, homes: list[str]) -> list[Happening]:
    """Return when a queue starts nothing for a while."""
    return [
        replace(_for_a_while(rng, "queue-stops", homes), number=rng.pick(QUEUES))
        for _ in range(rng.below(3))
    ]


def _for_a_while(rng: Rng, kind: str, homes: list[str]) -> Happening:
    begin_s = rng.between(BEGIN_S, FAULTS_UNTIL_S * 0.8)
    return Happening(begin_s, kind, rng.pick(homes), rng.between(1.0, 40.0))


def _in_queue(rng: Rng, happening: Happening) -> Happening:
    """Return the same, in a queue if it submits a job."""
    if happening.submission is None:
        return happening
    submission = replace(happening.submission, queue=rng.pick(QUEUES))
    return replace(happening, submission=submission)


def _people(rng: Rng, homes: list[str]) -> list[Happening]:
    return [
        Happening(
            rng.between(BEGIN_S, FAULTS_UNTIL_S),
            rng.pick(PEOPLE),
            rng.pick(homes),
            rng.between(1.0, 30.0),
            number=1 + rng.below(8),
        )
        for _ in range(rng.below(4))
    ]


def _faults(rng: Rng, names: list[str], nodes: list[str]) -> list[Happening]:
    happenings = []
    for _ in range(1 + rng.below(9)):
        kind = rng.pick(FAULTS)
        machine = rng.pick(nodes if kind in OF_NODES else names)
        other = ""
        if kind.startswith("link"):
            other = rng.pick([name for name in names if name != machine])
        happenings.append(
            Happening(
                rng.between(BEGIN_S, FAULTS_UNTIL_S),
                kind,
                machine,
                rng.pick((rng.between(0.0, 2.0), rng.between(2.0, 60.0))),
                other,
                rng.below(4) if kind in ("daemon-dies", "power-fails", "dies-writing") else 0,
            )
        )
    return happenings
