"""A task that went on in a lower queue, after its time of residence, counts in that one."""

from __future__ import annotations

from msgspec.structs import replace

from tests.broker.turning_machines import TurningMachines

EXCLUSIVE, GANG, LOWER_GANG = 1, 2, 3


def moved(story: TurningMachines, number: int, queue: int) -> None:
    """Its machine tells in which queue it is now."""
    [node] = story.nodes.values()
    [claim] = [each for each in node.running.values() if each.attempt.number == number]
    node.running[claim.attempt] = now = replace(claim, queue=queue)
    story.tell(story.idle(node, changed=(now,)))


def test_it_stands_for_a_queue_that_was_lower_than_its_own():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    story.submit(2, GANG)
    assert (story.running(), story.standing()) == ([1], [])
    moved(story, 1, LOWER_GANG)
    assert (story.running(), story.standing()) == ([2], [1])
    story.end(2)
    assert (story.running(), story.standing()) == ([1], [])


def test_it_takes_turns_where_its_new_queue_does():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    moved(story, 1, GANG)
    story.submit(2, GANG)
    assert story.rows() == {1: 0b01, 2: 0b10}


def test_no_machine_raises_it():
    story = TurningMachines()
    story.submit(1, GANG)
    moved(story, 1, 0)
    story.submit(2, EXCLUSIVE)
    assert (story.running(), story.standing()) == ([2], [1])
