"""Whoever waits for a job hears how it ended once that is durable, and not a commit before."""

import asyncio

import pytest

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.routes import JobStored, Routes
from iriai.daemon.requests.jobs.waits import JobWaiters
from iriai.home.core import Home
from iriai.identity.users.permissions import Caller
from iriai.jobs.selection import SelectedJobs
from iriai.jobs.waits import ALL_WAITS_MAX, REQUEST_WEIGHT
from iriai.machine.core import Machine
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.job import JobSpec
from iriai.model.problem import Refused
from iriai.model.records import AttemptResult
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import Delivered, JobCompleted, Part
from iriai.protocol.messages.scheduling import Begun, Capability, End, Match, SeatOffer
from iriai.system.passwd_cache import Person
from iriai.wire.requests import Outcome
from tests.support.handlers import CarriedOut, answer_of

USER_WAITS_MAX = 1_500_000
TASKS = ((0, 1, 1),)
SPEC = JobSpec(Account("lab", "ann"), "ann", "x", ("true",), "/", array=TASKS, is_array=True)
JOB = JobId("ume", 1)


class SlowDisk:
    """Writes are durable when the test says so, and none at once."""

    durable = 0

    def __init__(self) -> None:
        self.written = 0

    def submit(self, records, urgent=True, *, may_wait=False) -> int:
        self.written += 1
        return self.written


class NoLauncher:
    def perform(self, effects) -> None:
        assert not effects


class Asker:
    """One client, who asks once."""

    def __init__(self, name="ann") -> None:
        self.caller = Caller(Person(1000, name, "lab", ()), operator=False)
        self.connection = self
        self.on_close = []
        self.is_gone = False
        self.told = []
        self.handling = None

    def begin(self, finished) -> CarriedOut:
        self.handling = self._wait(finished)
        return CarriedOut(self.handling)

    async def _wait(self, finished) -> None:
        self.told.append((await finished).outcomes)

    def abandon(self) -> None:
        self.handling.close()

    def leave(self) -> None:
        self.is_gone = True
        for callback in self.on_close:
            callback()


class Scene:
    """A home whose jobs run elsewhere, and what of it is in the store."""

    def __init__(self) -> None:
        self.disk = SlowDisk()
        self.machine = Machine("ume", None, Home("ume", 1, ()), None, broker_at="b")
        self.engine = Engine(self.machine, self.disk, NoLauncher(), "ume", Routes())
        self.waits = waits = JobWaiters(self.engine, self._outcome, USER_WAITS_MAX)
        routes = self.engine.routes
        routes.take(JobCompleted, lambda completed: waits.job_finished(completed.number))
        routes.take(JobStored, lambda changed: waits.job_changed(changed.number))
        self.stored = 0
        self.ended_by = {}
        """Which write holds the end of each task."""

    def _outcome(self, item) -> Outcome:
        is_stored = all(
            self.ended_by.get(index, 99) <= self.stored for index in item.indices or (0, 1)
        )
        return Outcome(str(item.job), "completed" if is_stored else "unknown", 0, None, "")

    def submit(self) -> None:
        self.engine.request(lambda now: self.machine.submit(SPEC, (), now))
        self.engine.turn()

    def wait(self, *indices: int, asker: Asker | None = None) -> Asker:
        asker = asker or Asker()
        item = SelectedJobs(JOB, indices)
        self.engine.request(
            lambda _now: asker.begin(self.waits.finished(asker, [item], progress=False))
        )
        self.engine.turn()
        return asker

    def hear(self, message) -> int:
        """The node or the broker says something; the number of the write that follows."""
        self.engine.event(Delivered("c", Part.HOME, message))
        self.engine.turn()
        return self.disk.written

    def begin(self, index: int) -> int:
        self.hear(Match(JOB, (SeatOffer("c", Capability(1, 1, index, index)),), 10.0))
        return self.hear(Begun(AttemptId("ume", 1, index, 1), "c", 0.0))

    def end(self, index: int) -> None:
        attempt = AttemptId("ume", 1, index, 1)
        result = AttemptResult(
            attempt, "c", EndCause.COMPLETED, 0, None, Usage(), 0.0, 1.0, 1.0, 1.0
        )
        self.ended_by[index] = self.hear(End(result))

    def store(self, sequence: int) -> None:
        self.stored = sequence
        self.engine.durable(sequence)
        if self.engine._is_scheduled:
            self.engine.turn()


def scene(body) -> None:
    async def play() -> None:
        body(Scene())

    asyncio.run(play())


def test_a_start_that_is_stored_while_the_end_is_not_tells_nobody():
    def body(scene):
        scene.submit()
        task, job = scene.wait(0), scene.wait()
        began = scene.begin(0)
        scene.end(0)
        scene.store(began)
        assert task.told == job.told == []
        scene.store(scene.ended_by[0])
        assert [outcome.cause for (outcome,) in task.told] == ["completed"]
        assert job.told == []

    scene(body)


def test_the_whole_job_is_told_of_when_its_last_end_is_stored():
    def body(scene):
        scene.submit()
        job = scene.wait()
        scene.begin(0)
        scene.end(0)
        began = scene.begin(1)
        scene.end(1)
        scene.store(began)
        assert job.told == []
        scene.store(scene.disk.written)
        assert [outcome.cause for (outcome,) in job.told] == ["completed"]

    scene(body)


def gather(scene, asker, *selected):
    return answer_of(scene.waits.gather(asker, [iter(selected)]))


def wait_for(scene, asker, selected):
    gathered = gather(scene, asker, selected)
    assert not asker.begin(scene.waits.finished(asker, gathered, progress=False)).is_over


def test_what_one_user_waits_for_has_an_end():
    def body(scene):
        scene.submit()
        asker, again, other = Asker(), Asker(), Asker("bob")
        most = SelectedJobs(JOB, range(USER_WAITS_MAX - REQUEST_WEIGHT))
        wait_for(scene, asker, most)
        with pytest.raises(Refused, match="ann has 1500000 jobs and tasks") as refused:
            gather(scene, again, SelectedJobs(JOB, (0,)))
        assert "waits_per_user in [limits]" in refused.value.hint
        assert gather(scene, other, most) == [most]
        asker.leave()
        assert gather(scene, again, most) == [most]

    scene(body)


def test_too_much_is_refused_before_it_is_gathered():
    def body(scene):
        def selection():
            for _ in range(2):
                yield SelectedJobs(JOB, range(USER_WAITS_MAX - REQUEST_WEIGHT))
            raise AssertionError("it was not too much")

        with pytest.raises(Refused):
            answer_of(scene.waits.gather(Asker(), [selection()]))

    scene(body)


def test_what_all_clients_wait_for_has_an_end():
    def body(scene):
        scene.submit()
        some = SelectedJobs(JOB, range(ALL_WAITS_MAX // 4 - REQUEST_WEIGHT))
        askers = [Asker(name) for name in ("ann", "bob", "eve", "tom")]
        for asker in askers:
            wait_for(scene, asker, some)
        with pytest.raises(Refused, match="5000000 jobs and tasks that all connections"):
            gather(scene, Asker("kim"), SelectedJobs(JOB))
        askers[0].leave()
        assert gather(scene, Asker("kim"), some) == [some]

    scene(body)


def test_nothing_is_kept_of_who_was_told_or_is_gone():
    def body(scene):
        scene.submit()
        told, gone, late = scene.wait(0), scene.wait(), Asker()
        scene.wait(0, asker=told)
        scene.begin(0)
        scene.end(0)
        gone.leave()
        late.leave()
        scene.wait(asker=late)  # its request was under way
        assert late.told == [()]
        scene.store(scene.disk.written)
        assert [outcome.cause for (outcome,) in told.told] == ["completed", "completed"]
        assert told.on_close == []
        told.leave()
        waits = scene.waits._waits
        assert (waits.by_job, waits._weight, scene.waits._news) == ({}, 0, {})

    scene(body)
