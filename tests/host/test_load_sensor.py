"""The load that is not of our tasks."""

from pathlib import Path

import pytest

from iriai.host import load_sensor
from iriai.host.load_sensor import MEASURE_S, LoadSensor
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import (
    AttemptExited,
    AttemptsSampled,
    LauncherAttached,
    LoadMeasured,
)

FIRST = AttemptId("ume", 1, 0, 1)


class Story:
    """A sensor, its file, and the kernel's smoothing of what runs."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "loadavg"
        self.told: list[object] = []
        self.now_s = 1000.0
        self.sensor = LoadSensor(str(self.file), self.now_s, self.told.append)

    def pass_on(self, load: float) -> None:
        """One interval on; the file says `load`."""
        self.now_s += MEASURE_S
        self.file.write_text(f"{load:.2f} 0.00 0.00 1/100 1\n")
        self.sensor.measure(self.now_s)

    def used(self, cpu_s: float) -> None:
        self.sensor.on_event(AttemptsSampled(((FIRST, Usage(cpu_s, 0, 0, 0)),)))

    def ended(self, cpu_s: float) -> None:
        usage = Usage(cpu_s, 0, 0, 0)
        end = AttemptExited(FIRST, EndCause.COMPLETED, 0, None, usage, 0, 0, 0, "")
        self.sensor.on_event(end)


@pytest.fixture
def story(tmp_path: Path, monkeypatch) -> Story:
    monkeypatch.setattr(load_sensor, "keyboard_idle_s", lambda: None)  # whoever types here
    return Story(tmp_path)


def test_without_tasks_all_load_is_of_others(story: Story):
    story.pass_on(1.5)
    assert story.told == [LoadMeasured(1.5, 1.5)]


def test_a_task_that_computes_is_never_taken_for_somebody_else(story: Story):
    """As the kernel smooths: the load rises while a task runs, and falls after its end."""
    load, kept = 0.0, 2.718281828 ** (-MEASURE_S / 60)
    for interval in range(12):
        runs = interval < 6
        load = load * kept + (1 - kept) * runs
        if runs:
            story.used(MEASURE_S * (interval + 1))
        elif interval == 6:
            story.ended(MEASURE_S * 6)
        story.pass_on(load)
        assert story.sensor.foreign == pytest.approx(0.0, abs=0.01)


def test_what_an_attempt_used_before_we_looked_counts_for_nothing(story: Story):
    story.sensor.on_event(LauncherAttached(((FIRST, 0.0),)))
    story.used(50_000.0)
    story.used(50_000.0 + MEASURE_S)
    story.pass_on(2.0)
    assert 1.5 < story.sensor.foreign < 2.0


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
    story.pass_on(1.0)
    assert story.sensor.problem == ""
    assert story.told == [LoadMeasured(1.0, 1.0)]
