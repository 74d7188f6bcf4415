"""The load that is not of our tasks."""

from math import exp
from pathlib import Path

import pytest

from iriai.host import load_sensor
from iriai.host.load_sensor import MEASURE_S, SMOOTHED_S, LoadSensor
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import (
    AttemptExited,
    AttemptFrozen,
    AttemptsSampled,
    AttemptStarted,
    LauncherAttached,
    LoadMeasured,
)

FIRST, SECOND = (AttemptId("ume", number, 0, 1) for number in (1, 2))
SAMPLED_EACH = 6
"""The meter reads usage once a minute, the sensor measures each ten seconds."""


class Story:
    """A sensor, its file, and the kernel's smoothing of what runs."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "loadavg"
        self.told: list[object] = []
        self.now_s = 1000.0
        self.average = 0.0
        """As the kernel has it."""
        self.threads = 0
        """Of our tasks, that run or want to."""
        self.counts = 0
        self.cpus = {FIRST: 8, SECOND: 1}
        self.sensor = LoadSensor(
            str(self.file), self.told.append, self.cpus.__getitem__, self._count, self.now_s
        )

    def _count(self) -> int:
        self.counts += 1
        return self.threads

    def measured(self, load: float) -> None:
        """The file says `load`."""
        self.file.write_text(f"{load:.2f} 0.00 0.00 1/100 1\n")
        self.sensor.measure(self.now_s)

    def pass_on(self, *, busy: float, seconds: float = MEASURE_S) -> float:
        """So many processors are busy for a while; what is foreign of the load then."""
        self.now_s += seconds
        self.average += (busy - self.average) * (1 - exp(-seconds / SMOOTHED_S))
        self.measured(self.average)
        return self.sensor.foreign

    def tell(self, event) -> None:
        self.sensor.on_event(event, self.now_s)

    def started(self, which: AttemptId = FIRST) -> None:
        self.tell(AttemptStarted(which, 0.0))

    def used(self, cpu_s: float, which: AttemptId = FIRST) -> None:
        self.tell(AttemptsSampled(((which, Usage(cpu_s, 0, 0, 0)),)))

    def ended(self, cpu_s: float, which: AttemptId = FIRST) -> None:
        usage = Usage(cpu_s, 0, 0, 0)
        self.tell(AttemptExited(which, EndCause.COMPLETED, 0, None, usage, 0, 0, 0, ""))

    def frozen(self, *reasons: SuspendReason) -> None:
        self.tell(AttemptFrozen(FIRST, 1, reasons, 0.0, self.now_s))


@pytest.fixture
def story(tmp_path: Path, monkeypatch) -> Story:
    monkeypatch.setattr(load_sensor, "idle_s", lambda: (None, None))  # whoever types here
    return Story(tmp_path)


def test_without_tasks_all_load_is_of_others(story: Story):
    story.measured(1.5)
    assert story.told == [LoadMeasured(1.5, 1.5)]


def test_tasks_that_compute_are_never_taken_for_somebody_else(story: Story):
    """Though what they use is read once a minute: while they run, and in the minutes after."""
    story.started()
    foreign = []
    for number in range(1, 61):
        foreign.append(story.pass_on(busy=8.0))
        if number % SAMPLED_EACH == 0:
            story.used(8.0 * MEASURE_S * number)
    story.ended(8.0 * MEASURE_S * 60)
    foreign += [story.pass_on(busy=0.0) for _ in range(30)]
    assert max(foreign) == pytest.approx(0.0, abs=0.01)


def test_tasks_that_wait_for_each_other_are_not_somebody_else(story: Story):
    """Eight threads on two processors: they use two, and the load average has eight."""
    story.started()
    story.threads = 8
    foreign = []
    for number in range(1, 61):
        foreign.append(story.pass_on(busy=8.0))
        if number % SAMPLED_EACH == 0:
            story.used(2.0 * MEASURE_S * number)
    assert max(foreign) < 0.3
    assert story.pass_on(busy=8.0 + 3.0, seconds=300.0) == pytest.approx(3.0, abs=0.1)


def test_after_they_were_frozen_their_threads_count_from_now_on(story: Story):
    story.started()
    story.threads = 8
    story.used(0.0)
    story.pass_on(busy=8.0, seconds=300.0)
    story.frozen(SuspendReason.OWNER)
    story.pass_on(busy=3.0, seconds=600.0)
    story.frozen()
    assert story.pass_on(busy=8.0 + 3.0, seconds=300.0) == pytest.approx(3.0, abs=0.1)
    story.frozen(SuspendReason.OWNER)
    story.pass_on(busy=3.0, seconds=600.0)
    story.frozen()
    assert story.pass_on(busy=8.0 + 3.0) == pytest.approx(3.0, abs=0.2)


def test_threads_are_counted_only_where_use_does_not_explain_the_load(story: Story):
    for _ in range(3):
        story.pass_on(busy=5.0)  # nothing of ours runs
    assert story.counts == 0
    story.now_s += 600.0
    story.average = 0.0
    story.started()
    for _ in range(5):
        story.pass_on(busy=8.0)
    assert story.counts == 0


def test_somebody_else_is_seen_beside_them(story: Story):
    story.started()
    for number in range(1, 61):
        story.pass_on(busy=8.0 + 2.0)
        if number % SAMPLED_EACH == 0:
            story.used(8.0 * MEASURE_S * number)
    assert story.sensor.foreign == pytest.approx(2.0, abs=0.05)


def test_a_task_that_uses_less_than_it_has_is_put_right_when_it_is_read(story: Story):
    story.started()
    for _ in range(SAMPLED_EACH):
        story.pass_on(busy=3.0)
    story.used(2.0 * MEASURE_S * SAMPLED_EACH)  # one of the three is somebody else's
    assert story.pass_on(busy=3.0) == pytest.approx(1.0, abs=0.4)
    assert story.pass_on(busy=3.0) > 0.6


def test_many_short_ones_are_as_one_that_goes_on(story: Story):
    foreign = []
    for number in range(600):
        story.started(SECOND)
        story.now_s += 1.0
        story.average += (1.0 - story.average) * (1 - exp(-1 / SMOOTHED_S))
        story.ended(1.0, SECOND)
        if number % MEASURE_S == 0:
            story.measured(story.average)
            foreign.append(story.sensor.foreign)
    assert max(foreign) == pytest.approx(0.0, abs=0.02)


def test_what_is_frozen_adds_nothing(story: Story):
    story.started()
    for _ in range(30):
        story.pass_on(busy=8.0)
    story.frozen(SuspendReason.OWNER)
    for _ in range(30):
        story.pass_on(busy=0.0)
    assert story.pass_on(busy=1.0, seconds=300.0) == pytest.approx(1.0, abs=0.02)
    story.frozen()
    assert story.pass_on(busy=8.0, seconds=300.0) < 0.1


def test_what_an_attempt_used_before_we_looked_counts_for_nothing(story: Story):
    story.tell(LauncherAttached(((SECOND, 0.0),)))
    story.used(50_000.0, SECOND)
    story.pass_on(busy=2.0)
    story.used(50_000.0 + MEASURE_S, SECOND)
    assert story.pass_on(busy=2.0, seconds=300.0) == pytest.approx(1.0, abs=0.02)


def test_a_launcher_that_comes_again_goes_on_with_what_is_known(story: Story):
    story.started()
    story.tell(LauncherAttached(((FIRST, 0.0),)))
    story.pass_on(busy=8.0)
    story.used(8.0 * MEASURE_S)
    assert story.pass_on(busy=8.0, seconds=300.0) == pytest.approx(0.0, abs=0.01)
    story.tell(LauncherAttached(()))
    assert story.pass_on(busy=8.0, seconds=300.0) == pytest.approx(8.0, abs=0.1)


def test_launcher_events_pass_through(story: Story):
    story.used(1.0)
    assert isinstance(story.told[0], AttemptsSampled)


@pytest.mark.parametrize("text", [None, "", "much 1 2", "-1 0 0", "nan", "inf"])
def test_a_file_without_a_load_is_trouble_until_it_has_one(story: Story, text: str | None):
    if text is not None:
        story.file.write_text(text)
    story.sensor.measure(story.now_s)
    assert str(story.file) in story.sensor.problem
    assert story.told == []
    story.measured(1.0)
    assert story.sensor.problem == ""
    assert story.told == [LoadMeasured(1.0, 1.0)]
