"""What machines do beside what they say: told in words, and only where it is more than chance."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.home.leases import MachineStats
from iriai.model.ids import AttemptId
from iriai.model.records import AttemptResult
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from tests.support.told import spec

GIB = 1 << 30


class Watched:
    """Ends of attempts, one after the other."""

    def __init__(self) -> None:
        self.observed = MachineStats()
        self._count = 0

    def end(
        self, machine="ken", job=1, cause=EndCause.COMPLETED, ran_s=10.0, *, peak=0, signal=None
    ) -> None:
        self._count += 1
        claimed = replace(spec(is_array=True), resources=Resources(1, 8 * GIB))
        usage = Usage(memory_peak_bytes=peak)
        attempt = AttemptId("ume", job, self._count, 1)
        code = None if signal else int(cause is EndCause.FAILED)
        result = AttemptResult(attempt, machine, cause, code, signal, usage, 0.0, 0.0, ran_s, 0.0)
        self.observed.ended(result, claimed)

    def fails(self, job: int, **more) -> None:
        self.end("ken", job, EndCause.FAILED, 0.1, **more)

    def says(self, machine="ken") -> str:
        return "; ".join(self.observed.differences(machine))


def test_a_machine_with_half_the_memory_that_it_says_is_noticed():
    watched = Watched()
    for _ in range(2):
        watched.end(cause=EndCause.FAILED, peak=4 * GIB, signal=9)
    assert watched.says() == (
        "2 tasks were killed there below the memory they had claimed, the last with 4G of 8G: "
        "it may have less than it reports"
    )
    assert watched.says("ume") == ""


def test_one_kill_and_kills_at_the_limit_are_nobody_s_fault():
    watched = Watched()
    watched.end(cause=EndCause.FAILED, peak=4 * GIB, signal=9)
    watched.end(cause=EndCause.FAILED, peak=8 * GIB, signal=9)
    watched.end(cause=EndCause.FAILED, peak=4 * GIB, signal=15)
    assert watched.says() == ""


def test_a_black_hole_is_noticed_once_several_jobs_fell_into_it():
    watched = Watched()
    for _ in range(10):
        watched.fails(1)
    assert watched.says() == ""  # it may be the job
    watched.fails(2)
    assert watched.says() == "the last 11 tasks, of 2 jobs, failed there within moments"
    watched.end()
    assert watched.says() == ""


def test_a_slow_machine_is_noticed_by_tasks_of_one_array():
    watched = Watched()
    for _ in range(3):
        watched.end("ken", ran_s=25.0)
        watched.end("ume", ran_s=10.0)
    assert watched.says() == "tasks of one array took 2.5 times as long there as elsewhere"
    assert watched.says("ume") == ""


def test_what_is_remembered_has_an_end():
    watched = Watched()
    for number in range(1000):
        watched.fails(number)
    assert watched.says() == "the last 50 tasks, of 50 jobs, failed there within moments"
    assert len(watched.observed._arrays) == 0
    for number in range(100):
        watched.end(job=number)
    assert len(watched.observed._arrays) == 32
