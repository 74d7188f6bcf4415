"""A parallel head keeps places at one moment: never later, and nothing that delays it starts."""

from hypothesis import assume, given
from hypothesis import strategies as st

from iriai.model.ids import JobId
from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import Calendar
from iriai.policy.placement.pool_plan import FitCounts, PoolHead, has_room, plan_head
from iriai.policy.placement.seats import rank_fit

JOB = JobId("ume", 1)
ONE_CPU = Resources(cpus=1)
Claims = list[tuple[int, int, float]]


def calendars(machines: int, cpus: int, claims: Claims) -> dict[str, Calendar[int]]:
    """Machines alike, on which each (machine, cpus, stay) that fits has a claim."""
    made: dict[str, Calendar[int]] = {
        f"m{number}": Calendar(Resources(cpus=cpus)) for number in range(machines)
    }
    for key, (machine, taken, stay_s) in enumerate(claims):
        calendar = made[f"m{machine % machines}"]
        if taken <= calendar.free.cpus:
            calendar.add(key, Resources(cpus=taken), 0.0, stay_s)
    return made


def planned(shape: RankShape, of: dict[str, Calendar[int]]) -> PoolHead:
    head = plan_head(JOB, ONE_CPU, shape, of, 0.0)
    assert head is not None
    return head


def test_it_starts_when_enough_places_are_free_on_whatever_machines():
    machines = calendars(4, 1, [(0, 1, 10.0), (1, 1, 20.0), (2, 1, 30.0), (3, 1, 40.0)])

    assert planned(RankShape(2, 2), machines).start_s == 20.0
    assert planned(RankShape(4, 4), machines).start_s == 40.0
    assert plan_head(JOB, ONE_CPU, RankShape(5, 5), machines, 0.0) is None


def test_what_ends_before_it_or_takes_what_it_leaves_may_start_beside_it():
    machines = calendars(3, 1, [(0, 1, 10.0), (1, 1, 10.0)])
    head = planned(RankShape(2, 2), machines)

    assert head.start_s == 10.0
    assert head.tolerates("m2", ONE_CPU, 10.0, 0.0)
    assert head.tolerates("m2", ONE_CPU, None, 0.0)
    head.filled("m2", ONE_CPU, None, 0.0)
    assert not head.tolerates("m0", ONE_CPU, None, 0.0)
    assert head.tolerates("m0", ONE_CPU, 10.0, 0.0)
    assert head.tolerates("elsewhere", ONE_CPU, None, 0.0)


def test_what_takes_no_place_of_a_rank_costs_the_head_nothing():
    free = Resources(cpus=5)
    head = PoolHead(JOB, Resources(cpus=2), RankShape(2, 2), 10.0, {"m": free})

    assert head.tolerates("m", ONE_CPU, None, 0.0)
    head.filled("m", ONE_CPU, None, 0.0)
    assert not head.tolerates("m", ONE_CPU, None, 0.0)


def test_each_kind_of_resource_bounds_the_ranks():
    free = Resources(cpus=8, memory_bytes=6, gpus=2, named=(("licence", 3),))

    assert rank_fit(Resources(cpus=1, memory_bytes=2), free) == 3
    assert rank_fit(Resources(cpus=1, gpus=1), free) == 2
    assert rank_fit(Resources(cpus=1, named=(("licence", 2),)), free) == 1
    assert rank_fit(Resources(cpus=1, named=(("other", 1),)), free) == 0
    assert rank_fit(ONE_CPU, free) == 8
    assert rank_fit(ONE_CPU, free.minus(Resources(cpus=9))) == 0


MACHINES = st.integers(1, 4)
CPUS = st.integers(1, 4)
CLAIMS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from([1.0, 2.0, 3.0])), max_size=8
)
SHAPES = (
    st.tuples(
        st.integers(1, 8),
        st.integers(0, 3),
        st.none() | st.integers(1, 4),
        st.none() | st.integers(1, 3),
    )
    .map(lambda drawn: RankShape(drawn[0], drawn[0] + drawn[1], drawn[2], drawn[3]))
    .filter(lambda shape: shape.is_possible)
)


def has_room_at(machines: dict[str, Calendar[int]], shape: RankShape, at_s: float) -> bool:
    """Whether the task fits when every claim that ends by then is over."""
    fits = {}
    for name, calendar in machines.items():
        free = calendar.free
        for _, resources, end_s in calendar.in_order():
            free = free.plus(resources) if end_s <= at_s else free
        fits[name] = rank_fit(ONE_CPU, free)
    return has_room(fits, shape)


@given(MACHINES, CPUS, CLAIMS, SHAPES)
def test_it_starts_at_the_first_moment_with_room(machines, cpus, claims, shape):
    there = calendars(machines, cpus, claims)

    head = plan_head(JOB, ONE_CPU, shape, there, 0.0)

    moments = [at_s for at_s in (0.0, 1.0, 2.0, 3.0) if has_room_at(there, shape, at_s)]
    assert (head.start_s if head else None) == (moments[0] if moments else None)


@given(MACHINES, CPUS, CLAIMS, SHAPES, st.lists(st.integers(0, 3), max_size=8), st.integers(1, 2))
def test_nothing_that_is_tolerated_delays_it(machines, cpus, claims, shape, fillers, taken):
    there = calendars(machines, cpus, claims)
    head = plan_head(JOB, ONE_CPU, shape, there, 0.0)
    assume(head is not None)
    assert head is not None
    filler = Resources(cpus=taken)

    for key, number in enumerate(fillers):
        name = f"m{number % machines}"
        calendar = there[name]
        if not head.allows(filler, 1, None, 0.0):
            assert not any(head.tolerates(each, filler, None, 0.0) for each in there)
        if filler.fits_in(calendar.free) and head.tolerates(name, filler, None, 0.0):
            calendar.add(1000 + key, filler, 0.0, None)
            head.filled(name, filler, None, 0.0)

    assert has_room_at(there, shape, head.start_s)


@given(SHAPES, st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_counts_that_are_kept_say_what_looking_at_every_machine_says(shape, fits, data):
    counts = FitCounts({f"m{number}": fit for number, fit in enumerate(fits)}, shape)

    for name in data.draw(st.lists(st.sampled_from(list(counts.by_machine)), max_size=6)):
        fit = data.draw(st.integers(0, 4))
        assert counts.is_enough_with({name: fit}) == has_room(
            {**counts.by_machine, name: fit}, shape
        )
        counts.put(name, fit)
        assert counts.is_enough() == has_room(counts.by_machine, shape)
