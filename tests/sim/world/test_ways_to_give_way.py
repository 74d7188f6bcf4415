"""The four ways of paper 003, section 3.3: the files in examples/owners, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from iriai.config.reader import parse_configuration
from iriai.model.ids import Account, JobId
from iriai.model.job import JobSpec
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.work import Work
from iriai.sim.world.world import World
from tests.sim.cluster import LAN, causes, run, starts

EXAMPLES = Path(__file__).parents[3] / "examples" / "owners"
CONTINUE_S = 300.0
"""That of the profile `desk`."""
GRACE_S, RUN_S = 10.0, 1000.0


class Story:
    """A task of `front` on `desk`, whose owner comes when there is an `other` machine too."""

    def __init__(self, way: str, *, stubborn: bool = False) -> None:
        self.world = World(1, LAN)
        self.world.add(MachinePlan("front", parts=(Part.HOME, Part.BROKER)))
        self.add("desk", (EXAMPLES / f"{way}.toml").read_text())
        run(self.world, CONTINUE_S + 10.0)
        spec = JobSpec(
            *(Account("lab", "ann"), "ann", "job", ("true",), "/", Resources(1)),
            kill_grace_s=GRACE_S,
        )
        job = self.world.submit("front", spec, Work(RUN_S, stubborn=stubborn))
        assert job is not None
        self.job: JobId = job
        run(self.world, 5.0)
        self.add("other", "")
        run(self.world, 5.0)
        self.comes()

    def add(self, name: str, text: str) -> None:
        configuration = parse_configuration(text, name)
        plan = MachinePlan(
            *(name, Resources(2), (Part.NODE,), "front"), configuration=configuration
        )
        self.world.add(plan)

    def comes(self) -> None:
        """The owner gives a sign."""
        desk = self.world.machines["desk"]
        desk.owner_gives_sign(self.world.now_s)
        self.world.touch(desk)

    def executes(self) -> bool:
        """Whether the task does something on the desk."""
        running = self.world.machines["desk"].launcher.running.values()
        return any(process.executes(self.world.now_s) for process in running)

    def told(self) -> tuple[list[str], list[str]]:
        """Where the task was started, and how its attempts ended."""
        return starts(self.world, self.job), causes(self.world, self.job)

    def after(self, seconds: float) -> Story:
        run(self.world, seconds)
        return self


def test_to_move_is_to_end_with_grace_and_to_begin_on_another_machine():
    story = Story("move", stubborn=True)
    assert story.after(GRACE_S / 2).told() == (["desk"], [])
    assert story.executes(), "it has its grace"
    assert story.after(GRACE_S).told() == (["desk", "other"], ["evicted"])
    assert story.after(RUN_S).told()[1] == ["evicted", "completed"]


def test_to_suspend_is_to_stand_however_long_the_owner_stays():
    story = Story("suspend")
    for _ in range(100):
        story.after(CONTINUE_S - 10.0).comes()
        assert not story.executes()
    assert story.after(CONTINUE_S + RUN_S).told() == (["desk"], ["completed"])


def test_to_lower_is_to_go_on_and_to_move_after_a_working_day():
    story = Story("lower")
    assert story.after(1.0).executes()
    assert story.after(RUN_S).told() == (["desk"], ["completed"])


def test_to_discard_is_to_end_without_grace_and_to_begin_on_another_machine():
    story = Story("discard", stubborn=True)
    assert story.after(2.0).told() == (["desk", "other"], ["evicted"])
    assert story.after(RUN_S).told()[1] == ["evicted", "completed"]


@pytest.mark.parametrize("file", sorted(EXAMPLES.iterdir()), ids=lambda file: file.stem)
def test_each_file_is_that_of_a_way(file):
    text = file.read_text()
    assert "paper 003, section 3.3" in text
    assert parse_configuration(text, str(file)).owner.profile == "desk"
