"""Memory and disk of resources, replaced and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.resources import Resources

AMOUNTS = st.integers(0, 1 << 50)
RESOURCES = st.builds(
    lambda memory, disk, licences: Resources(
        2, memory, 1, (("licence", licences),) if licences else ()
    ).with_limits(memory, disk),
    AMOUNTS,
    AMOUNTS,
    st.integers(0, 3),
)


@given(RESOURCES, AMOUNTS, AMOUNTS)
def test_amounts_are_replaced_and_others_stay(resources: Resources, memory: int, disk: int):
    new = resources.with_limits(memory, disk)
    assert (new.memory_bytes, new.disk_bytes) == (memory, disk)
    assert (new.cpus, new.gpus) == (resources.cpus, resources.gpus)
    assert dict(new.named).get("licence") == dict(resources.named).get("licence")
    assert new.named == tuple(sorted(new.named))
    assert all(amount for _, amount in new.named)


@given(RESOURCES, AMOUNTS, AMOUNTS)
def test_what_is_bounded_is_no_more_than_before_or_than_the_bound(
    resources: Resources, memory: int, disk: int
):
    bounded = resources.within(memory, disk)
    for before, bound, after in (
        (resources.memory_bytes, memory, bounded.memory_bytes),
        (resources.disk_bytes, disk, bounded.disk_bytes),
    ):
        assert after == (min(before, bound) if before and bound else before or bound)
