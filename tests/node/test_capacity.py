"""What is set of a pool bounds what a machine gives away, but takes nothing from its claims."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.model.ad import attributes_of, capacity_attributes, machine_ad
from iriai.model.resources import Resources
from iriai.node.queues import NodeQueues
from tests.node.lone_node import LoneNode, exited
from tests.support.told import HOME, spec

GIB = 1 << 30
WHOLE = Resources(4, 8 * GIB)


def bounded(memory_bytes: int | None, **fields) -> NodeQueues:
    return NodeQueues(memory_max_bytes=memory_bytes, **fields)


def node(memory_bytes: int | None = None) -> LoneNode:
    ad = machine_ad(capacity_attributes(HOME, WHOLE, 1.0))
    return LoneNode(4, memory_bytes=8 * GIB, queues=bounded(memory_bytes), ad=ad)


def configured(story: LoneNode, memory_bytes: int | None) -> int:
    """Another bound is set; what is given away then, by the next report."""
    story.node.configured(bounded(memory_bytes))
    story.settle()
    assert story.idle.whole
    return story.idle.capacity.memory_bytes // GIB


def test_a_bound_holds_at_once_and_is_told():
    story = node()
    assert [configured(story, each) for each in (2 * GIB, 4 * GIB, 16 * GIB, None)] == [2, 4, 8, 8]


def test_a_machine_starts_with_the_bound_of_its_pool():
    assert node(2 * GIB).idle.capacity.memory_bytes == 2 * GIB


def test_what_a_claim_holds_stays_given_away_until_it_ends():
    story = node()
    story.run(1, replace(spec(), resources=Resources(1, 5 * GIB)))
    assert configured(story, 2 * GIB) == 5
    assert story.node.calendar.free.memory_bytes == 0
    story.tell(exited())
    assert (story.idle.whole, story.idle.capacity.memory_bytes) == (True, 2 * GIB)


def test_a_job_of_a_whole_machine_has_what_is_given_away():
    story = node()
    configured(story, 2 * GIB)
    story.run(1, replace(spec(), exclusive=True))
    assert story.node.claims()[0].resources == Resources(4, 2 * GIB)


def test_a_job_of_the_whole_machine_gives_it_back_as_it_is_now():
    story = node()
    story.run(1, replace(spec(), exclusive=True))
    assert configured(story, 2 * GIB) == 8
    story.tell(exited())
    assert story.idle.capacity.memory_bytes == 2 * GIB


def test_its_ad_says_the_same():
    story = node()
    configured(story, 2 * GIB)
    attributes = attributes_of(story.idle.ad)
    assert (attributes["Memory"], attributes["TotalMemory"], attributes["Cpus"]) == (2048, 2048, 4)


def test_a_bound_of_disk_is_one_more_amount():
    story = node()
    story.node.configured(NodeQueues(disk_max_bytes=GIB))
    story.settle()
    assert story.idle.capacity == WHOLE
