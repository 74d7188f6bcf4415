"""What a job may take of memory and disk, by its queue and the pools in which it could run."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iriai.config.reader import Configuration, parse_configuration
from iriai.jobs.admitted_limits import admitted, has_limits
from iriai.model.ids import Account, JobId
from iriai.model.pool_room import MachineLimits, PoolRoom
from iriai.model.problem import Refused
from iriai.model.ranks import ONE, RankShape
from iriai.model.resources import Resources
from iriai.protocol.messages.scheduling import Want

GIB = 1 << 30
BLADE = PoolRoom("blade", 8, 64 * GIB, 100 * GIB)
DESK = PoolRoom("desk", 4, 16 * GIB, 0)
CONFIGURATION = parse_configuration(
    """
[queues.0]
memory_percent = 50
disk_percent = 10
[queues.1]
memory_percent = 12.5
[queues.2]
memory_percent = 0
[pools.blade]
memory = "32G"
""",
    "iriai.toml",
)


def want(queue: int, memory: int = 0, disk: int = 0, shape: RankShape = ONE, cpus: int = 1) -> Want:
    resources = Resources(cpus).with_limits(memory * GIB, disk * GIB)
    return Want(
        JobId("ume", 0), Account("g", "u"), resources, None, 1.0, 0.0, 1, shape=shape, queue=queue
    )


def test_a_limit_is_a_part_of_what_the_pool_has():
    found = admitted(CONFIGURATION, want(0), [BLADE])
    assert found.limits == MachineLimits(16 * GIB, 10 * GIB)
    assert found.resources == Resources().with_limits(16 * GIB, 10 * GIB)
    assert found.warnings == ()


def test_what_is_declared_counts_if_it_is_less():
    found = admitted(CONFIGURATION, want(0, 3, 20), [BLADE])
    assert (found.resources.memory_bytes, found.resources.disk_bytes) == (3 * GIB, 10 * GIB)
    assert found.limits == MachineLimits(16 * GIB, 10 * GIB)
    assert found.warnings == ("queue 0 permits 10G of disk on a machine: less than was asked for",)


def test_memory_and_disk_have_nothing_to_do_with_each_other():
    found = admitted(CONFIGURATION, want(1, disk=7), [BLADE])
    assert (found.limits, found.resources.disk_bytes) == (MachineLimits(4 * GIB, 0), 7 * GIB)


def test_a_queue_without_parts_has_no_limits():
    assert [has_limits(CONFIGURATION, number) for number in (0, 1, 3, 99)] == [
        True,
        True,
        False,
        False,
    ]


def test_where_a_pool_has_none_no_limit_is_in_force():
    assert admitted(CONFIGURATION, want(0), [DESK]).limits == MachineLimits(8 * GIB, 0)


def test_of_several_pools_the_least_counts():
    assert admitted(CONFIGURATION, want(0), [BLADE, DESK]).limits.memory_bytes == 8 * GIB


@pytest.mark.parametrize(
    ("shape", "cpus", "ranks"),
    [
        (RankShape(8, 8, per_node=2), 1, 2),
        (RankShape(7, 7, nodes=2), 1, 4),
        (RankShape(64, 64), 1, 8),
        (RankShape(64, 64), 3, 2),
        (RankShape(2, 3), 1, 3),
        (RankShape(2, 3), 99, 1),
    ],
)
def test_ranks_of_a_machine_have_the_limit_together(shape: RankShape, cpus: int, ranks: int):
    found = admitted(CONFIGURATION, want(0, shape=shape, cpus=cpus), [BLADE])
    assert found.limits.memory_bytes == 16 * GIB
    assert found.resources.memory_bytes == 16 * GIB // ranks


def test_a_limit_of_nothing_is_refused_with_the_numbers():
    with pytest.raises(Refused, match="queue 2 permits 0B of memory on a machine"):
        admitted(CONFIGURATION, want(2), [BLADE])


def test_without_any_machine_a_job_is_not_admitted_without_limits():
    with pytest.raises(Refused, match="not known now"):
        admitted(CONFIGURATION, want(0), [])


def configuration(memory_percent: float, disk_percent: float) -> Configuration:
    text = f"[queues.0]\nmemory_percent = {memory_percent}\ndisk_percent = {disk_percent}"
    return parse_configuration(text, "iriai.toml")


AMOUNTS = st.integers(0, 1 << 44)
PERCENT = st.decimals(0, 100, places=3).map(float)
POOLS = st.lists(
    st.builds(PoolRoom, st.sampled_from("ab"), st.integers(1, 256), AMOUNTS, AMOUNTS), min_size=1
)
SHAPES = st.builds(
    lambda least, more, per_node: RankShape(least, least + more, per_node=per_node),
    st.integers(1, 64),
    st.integers(0, 64),
    st.none() | st.integers(1, 64),
).filter(lambda shape: shape.is_possible)


@given(PERCENT, PERCENT, POOLS, SHAPES, AMOUNTS, AMOUNTS, st.integers(1, 64))
def test_no_machine_gives_a_job_more_than_its_part(
    memory_percent, disk_percent, pools, shape, memory_bytes, disk_bytes, cpus
):
    asked = Resources(cpus).with_limits(memory_bytes, disk_bytes)
    wanted = Want(JobId("ume", 0), Account("g", "u"), asked, None, 1.0, 0.0, 1, shape=shape)
    try:
        found = admitted(configuration(memory_percent, disk_percent), wanted, pools)
    except Refused:
        assume(False)
    for pool in pools:
        ranks = shape.per_node or min(shape.most, max(1, pool.cpus // cpus))
        seat = found.resources.times(ranks)
        for percent, there, taken, declared in (
            (memory_percent, pool.memory_bytes, seat.memory_bytes, memory_bytes),
            (disk_percent, pool.disk_bytes, seat.disk_bytes, disk_bytes),
        ):
            if there:
                assert 0 < taken <= there * Fraction(str(percent)) / 100
            if declared:
                assert taken <= ranks * declared
