"""A node checks the job steps that homes order, and keeps their ends until these have them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.node.steps import ENDS_MAX, LIVE_MAX, NOT_HERE
from iriai.protocol.messages.effects import (
    AttemptStarted,
    ForgetAttempt,
    LauncherAttached,
    LauncherLost,
    LaunchStep,
    LinkUp,
    StepExited,
    StepStarted,
    TerminateAttempt,
)
from iriai.protocol.messages.scheduling import Stop
from iriai.protocol.messages.steps import ForgetStep, Step, StepBegun, StepEnded, StopStep
from tests.node.lone_node import LoneNode, exited
from tests.support.told import HOME, WALL_S, attempt

STEP = attempt(1).of_step(1)
BEGUN = StepBegun(STEP, HOME)


def order(number: int = 1, rank: int = 0, job: int = 1, **more) -> Step:
    name = attempt(job).of_step(number)
    return Step(name, rank, ("hostname",), Interaction.STREAM, **more)


def step_exit(number: int = 1, cause=EndCause.COMPLETED, code: int | None = 0) -> StepExited:
    return StepExited(attempt(1).of_step(number), cause, code, None, "")


def ended(number: int = 1, cause=EndCause.COMPLETED, code: int | None = 0, why="") -> StepEnded:
    return StepEnded(attempt(1).of_step(number), HOME, cause, code, None, why)


@pytest.fixture
def node() -> LoneNode:
    """With a seat that runs."""
    made = LoneNode()
    made.run(1)
    made.tell(AttemptStarted(attempt(1), WALL_S))
    return made


def test_a_step_is_started_beside_its_seat_and_its_end_is_told_until_it_is_forgotten(node):
    assert node.tell(order()).others == [LaunchStep(order())]
    assert node.tell(StepStarted(STEP)).home == [BEGUN]
    assert node.tell(order()).home == [BEGUN]
    assert node.tell(step_exit(code=3)).home == [ended(code=3)]
    assert node.tell(order()).home == [ended(code=3)]
    assert node.tell(ForgetStep(STEP)).others == [ForgetAttempt(STEP)]
    assert node.tell(ForgetStep(STEP)).others == []
    assert attempt(1) in node.node.calendar


def test_what_was_ordered_and_not_begun_is_ordered_again_when_it_is_repeated(node):
    node.tell(order())
    assert node.tell(order()).others == [LaunchStep(order())]


@pytest.mark.parametrize("what", ["unknown", "over", "stopping", "other attempt"])
def test_a_step_beside_a_seat_that_does_not_run_is_refused(node, what):
    asked = order()
    match what:
        case "unknown":
            asked = order(job=2)
        case "over":
            node.tell(exited(1))
        case "stopping":
            node.tell(Stop(attempt(1), EndCause.CANCELLED, 5.0))
        case "other attempt":
            asked = Step(attempt(1, attempt=2).of_step(1), 0, ("true",), Interaction.STREAM)
    said = node.tell(asked)
    assert said.home == [StepEnded(asked.attempt, HOME, EndCause.REFUSED, message=NOT_HERE)]
    assert said.others == []


def test_a_rank_of_another_seat_is_refused(node):
    [end] = node.tell(order(rank=1)).home
    assert end.cause is EndCause.REFUSED
    assert "has 0 to 0" in end.message


def test_a_step_has_the_ranks_of_its_seat():
    first = LoneNode()
    first.run(1)
    seat = attempt(1).seat(4)
    claims = [replace(each, attempt=seat, ranks=2) for each in first.node.claims()]
    node = LoneNode(claims=claims, attached=False)
    node.tell(LauncherAttached(((seat, WALL_S),)))
    steps = [Step(seat.of_step(n), 3 + n, ("true",), Interaction.STREAM) for n in (1, 2, 3)]
    assert [type(each) for each in node.tell(*steps).others] == [LaunchStep, LaunchStep]


def test_a_flood_of_steps_is_refused_beyond_the_limit(node):
    said = node.tell(*(order(n) for n in range(1, LIVE_MAX + 2)))
    assert len(said.others) == LIVE_MAX
    [end] = said.home
    assert end.cause is EndCause.REFUSED
    node.tell(step_exit(1))
    assert node.tell(order(LIVE_MAX + 2)).others == [LaunchStep(order(LIVE_MAX + 2))]


def test_of_too_many_ends_that_nobody_fetches_the_oldest_is_forgotten(node):
    forgotten = []
    for number in range(1, ENDS_MAX + 2):
        forgotten += node.tell(step_exit(number)).others
    assert forgotten == [ForgetAttempt(STEP)]


def test_the_machine_that_names_the_user_is_judged_as_the_homes_of_tasks_are():
    def judge(home: str, user: str, wall_s: float) -> str:
        return f"{home} does not speak for {user}" if home == "oni" else ""

    node = LoneNode(judge_user=judge)
    node.run(1)
    node.tell(AttemptStarted(attempt(1), WALL_S))
    [end] = node.tell(order(origin="oni")).home
    assert end.cause is EndCause.REFUSED
    assert "oni does not speak for ann" in end.message
    assert node.tell(order(origin="take")).others == [LaunchStep(order(origin="take"))]


def test_a_client_ends_a_step_and_its_seat_goes_on(node):
    node.tell(order())
    stop = StopStep(STEP, 5.0)
    assert node.tell(stop).others == [TerminateAttempt(STEP, EndCause.CANCELLED, 5.0)]
    assert node.node._claims.by_attempt[attempt(1)].stop is None


def test_a_stop_of_an_unknown_step_does_nothing(node):
    assert node.tell(StopStep(STEP, 5.0)).others == []


def test_a_daemon_that_restarted_finds_its_steps_at_the_launcher(node):
    claims = node.node.claims()
    again = LoneNode(claims=claims, attached=False)
    assert again.tell(order()).others == [LaunchStep(order())]  # which is dropped
    said = again.tell(
        StepStarted(STEP),
        LauncherAttached(((attempt(1), WALL_S),), (STEP,)),
    )
    assert BEGUN in said.home
    assert not any(isinstance(each, LaunchStep | TerminateAttempt) for each in said.others)
    assert again.tell(step_exit()).home == [ended()]


def test_a_step_that_ended_meanwhile_is_not_lost(node):
    node.tell(order())
    node.tell(StepStarted(STEP))
    node.tell(LauncherLost())
    said = node.tell(LauncherAttached(((attempt(1), WALL_S),), (STEP,)))
    assert [each for each in said.home if isinstance(each, StepEnded)] == []
    assert node.tell(step_exit(code=7)).home == [ended(code=7)]


def test_what_a_launcher_may_never_have_received_is_ordered_again(node):
    node.tell(order())
    node.tell(LauncherLost())
    said = node.tell(LauncherAttached(((attempt(1), WALL_S),)))
    assert LaunchStep(order()) in said.others


def test_a_step_that_ended_with_its_launcher_is_lost(node):
    node.tell(order())
    node.tell(StepStarted(STEP))
    node.tell(LauncherLost())
    said = node.tell(LauncherAttached(()))
    [end] = [each for each in said.home if isinstance(each, StepEnded)]
    assert (end.attempt, end.cause) == (STEP, EndCause.LOST)


def test_ends_are_repeated_when_the_home_can_be_reached_again(node):
    node.tell(order())
    node.tell(step_exit())
    assert ended() in node.tell(LinkUp(HOME)).home
    assert node.tell(LinkUp("take")).home == []
