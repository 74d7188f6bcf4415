"""A home numbers job steps, orders each once, and keeps their ends for their clients."""

from __future__ import annotations

import pytest

from iriai.home.job import JobState
from iriai.home.steps import END_WAIT_S, ENDS_MAX, SEAT_OVER, STEPS_MAX
from iriai.model.problem import NotFound, Refused
from iriai.model.records import Stepped
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.protocol.messages.effects import LinkUp, PeerNoticed, StepChanged
from iriai.protocol.messages.scheduling import Begun
from iriai.protocol.messages.steps import ForgetStep, Step, StepBegun, StepEnded, StopStep
from tests.home.lone_home import LoneHome, changes, end, match
from tests.support.told import WALL_S, attempt

MACHINE, LIAR = "take", "oni"


class StepHome(LoneHome):
    """With a task that runs on another machine."""

    def __init__(self) -> None:
        super().__init__()
        self.submit()
        self.tell(match(machine=MACHINE))
        self.tell(Begun(attempt(), MACHINE, WALL_S))
        self.said = []

    def number(self, rank: int = 0, index: int = 0, on: str = ""):
        names = []
        job = self.home.jobs[1]
        self.said = self.do(
            lambda home: names.append(home.steps.number(job, index, rank, "ann", on))
        )
        return names[0]

    def order(self, number: int = 1, **more):
        name = more.pop("name", attempt().of_step(number))
        order = Step(name, more.pop("rank", 0), ("hostname",), Interaction.STREAM)
        machine = more.pop("machine", MACHINE)
        return self.do(lambda home: home.steps.order(order, machine, "ann", self.now_s))


@pytest.fixture
def home() -> StepHome:
    return StepHome()


def begun(number: int = 1, machine: str = MACHINE) -> StepBegun:
    return StepBegun(attempt().of_step(number), machine)


def ended(number: int = 1, machine: str = MACHINE, code: int = 0) -> StepEnded:
    return StepEnded(attempt().of_step(number), machine, EndCause.COMPLETED, code)


def test_steps_are_numbered_from_one_and_that_is_stored(home):
    assert home.number() == (attempt().of_step(1), 0, MACHINE)
    assert changes(home.said) == [Stepped(1, (0, 1), 0, MACHINE, "ann")]
    assert home.number().step.step == 2
    again = LoneHome(home.store)
    assert again.home.jobs[1].steps == 2


def test_numbers_survive_a_snapshot():
    job = JobState(1, StepHome().home.jobs[1].spec, WALL_S)
    job.apply(Stepped(7, (0, 1), 0, MACHINE, "ann"))
    other = JobState(1, job.spec, WALL_S)
    other.apply(job.folded())
    assert other.steps == 7


def test_a_step_is_ordered_and_its_end_kept_until_its_client_has_it(home):
    step = home.number().step
    [order] = home.order().node
    assert (order.attempt, order.origin) == (step, "")
    assert home.home.waits_for(step)
    assert home.tell(begun()).others == [StepChanged(step, "ann", is_over=False)]
    assert home.order().node == []
    assert home.tell(ended(code=3)).others == [StepChanged(step, "ann", is_over=True)]
    assert not home.home.waits_for(step)
    assert home.home.steps.end_of(step, 0.0) == ended(code=3)
    said = home.do(lambda it: it.steps.forget(step))
    assert said.node == [ForgetStep(step)]
    assert not home.home.steps.is_known(step)


def test_orders_are_repeated_until_the_step_runs_and_when_its_machine_is_back(home):
    home.number()
    home.order()
    assert len(home.order().node) == 1
    home.tell(begun())
    repeated = [each for each in home.tell(LinkUp(MACHINE)).node if isinstance(each, Step)]
    assert len(repeated) == 1
    home.tell(ended())
    assert [each for each in home.tell(LinkUp(MACHINE)).node if isinstance(each, Step)] == []


def test_a_task_that_does_not_run_has_no_steps(home):
    home.submit()
    with pytest.raises(Refused, match=r"ume-2\.0 does not run") as refused:
        home.home.steps.number(home.home.jobs[2], 0, 0, "ann")
    assert refused.value.code == "not-running"


def test_a_task_that_is_being_cancelled_has_no_more_steps(home):
    home.do(lambda it: it.cancel(1, (), "ann"))
    with pytest.raises(Refused, match="is being cancelled"):
        home.number()


def test_a_rank_that_there_is_not_is_not_found(home):
    with pytest.raises(NotFound, match=r"ume-1\.0 has no rank 1; it has rank 0 alone"):
        home.number(rank=1)


def test_a_step_is_beside_the_first_rank_on_a_machine(home):
    assert home.number(on=MACHINE).rank == 0
    with pytest.raises(Refused, match="has no seat on oni; it has on take"):
        home.number(on=LIAR)


def test_more_steps_than_a_job_may_have_are_refused(home):
    home.home.jobs[1].steps = STEPS_MAX
    with pytest.raises(Refused, match="STEPS_MAX"):
        home.number()


@pytest.mark.parametrize(
    "name", [attempt().of_step(2), attempt().seat(3).of_step(1)], ids=["number", "seat"]
)
def test_a_step_with_a_made_up_name_is_refused(home, name):
    home.number()
    with pytest.raises(Refused, match="is not a job step beside rank 0"):
        home.order(name=name)
    assert not home.home.steps.is_known(name)


@pytest.mark.parametrize("lie", [begun(machine=LIAR), ended(machine=LIAR)], ids=["begun", "ended"])
def test_a_lie_about_a_step_changes_nothing_and_names_the_liar(home, lie):
    step = home.number().step
    home.order()
    said = home.tell(lie)
    assert [each.machine for each in said.others if isinstance(each, PeerNoticed)] == [LIAR]
    assert home.home.waits_for(step)
    assert not home.home.steps.is_begun(step)


def test_what_is_told_of_an_unknown_step_is_ignored(home):
    said = home.tell(begun(9), ended(9))
    assert (said.node, said.others) == ([], [])


def test_a_client_ends_a_step(home):
    step = home.number().step
    home.order()
    said = home.do(lambda it: it.steps.stop(step, 5.0))
    assert said.node == [StopStep(step, 5.0)]


def test_the_end_of_a_step_may_follow_that_of_its_attempt(home):
    step = home.number().step
    home.order()
    home.tell(end(attempt(), machine=MACHINE))
    assert home.home.steps.end_of(step, 100.0) is None
    home.tell(ended(code=4))
    assert home.home.steps.end_of(step, 200.0) == ended(code=4)


def test_a_step_whose_machine_is_lost_ends_with_its_attempt(home):
    step = home.number().step
    home.order()
    home.tell(end(attempt(), EndCause.LOST, None, machine=MACHINE))
    assert home.home.steps.end_of(step, 100.0) is None
    over = home.home.steps.end_of(step, 100.0 + END_WAIT_S)
    assert over is not None
    assert (over.cause, over.message) == (EndCause.CANCELLED, SEAT_OVER)


def test_a_home_that_restarted_asks_the_machine_for_the_end_of_a_step_whose_seat_is_over(home):
    home.number()
    home.tell(end(attempt(), machine=MACHINE))
    again = LoneHome(home.store)
    order = Step(attempt().of_step(1), 0, ("hostname",), Interaction.STREAM)
    said = again.do(lambda it: it.steps.order(order, MACHINE, "ann", 0.0))
    assert said.node == [order]
    again.tell(ended(code=5))
    assert again.home.steps.end_of(order.attempt, 0.0) == ended(code=5)


def test_of_too_many_ends_that_nobody_fetches_the_oldest_is_forgotten(home):
    home.home.jobs[1].steps = ENDS_MAX + 1
    forgotten = []
    for number in range(1, ENDS_MAX + 2):
        home.order(number)
        forgotten += home.tell(ended(number)).node
    assert forgotten == [ForgetStep(attempt().of_step(1))]
