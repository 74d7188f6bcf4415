"""What a home tells of its jobs, compared with what its store and the world have of them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate, islice
from operator import itemgetter

import msgspec
from msgspec.structs import astuple, replace

from iriai.home.core import Home
from iriai.jobs.drafts import want_of
from iriai.jobs.history import JobHistory
from iriai.jobs.queries import JobQueries
from iriai.jobs.selection import SelectedJobs
from iriai.jobs.waits import JobWaits, OpenWait
from iriai.machine.feasibility import Feasibility
from iriai.model.charge_factors import encode_factors
from iriai.model.history import HistoryRow, JobRecord, SeatRow, Selection
from iriai.model.ids import JobId
from iriai.model.records import AttemptResult, JobAccepted, JobEvent, SeatEnded
from iriai.model.state import ATTEMPT_ONLY, EndCause
from iriai.protocol.messages.effects import Part
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.store_model import StoreModel
from iriai.wire.changes import StoryRow
from iriai.wire.requests import JobDetail, JobRow, Jobs


class PastModel:
    """The jobs of a store that are durable, nothing of which is ever deleted."""

    def __init__(self, store: StoreModel) -> None:
        self._store = store

    def job(self, number: int) -> JobRecord | None:
        """Return the job of this number, finished or not; None if there is none."""
        accepted, finished = self._store.accepted.get(number), self._store.finished.get(number)
        if accepted is None:
            return None
        if finished is None:
            return JobRecord(number, accepted.spec, accepted.submitted_wall_s, None, None, None)
        completed = self.causes(number).get(EndCause.COMPLETED, 0)
        of = (number, finished.spec or accepted.spec, accepted.submitted_wall_s)
        return JobRecord(*of, finished.wall_s, finished.cause, completed)

    def finished_jobs(self, selection: Selection, limit: int) -> list[JobRecord]:
        """Return jobs of the owner whose last task has ended, the latest first."""
        found = [record for record in map(self.job, self._store.finished) if record is not None]
        owner = selection.owner
        found = [record for record in found if owner in (None, record.spec.user)]
        return sorted(found, key=lambda each: each.finished_wall_s or 0.0, reverse=True)[:limit]

    def events(self, number: int) -> list[JobEvent]:
        """Return the events of a job in order, except those replaced by a snapshot."""
        return self._store.events.get(number, [])

    def history(self, selection: Selection, limit: int) -> list[HistoryRow]:
        """Return attempts of a job that ended, the latest first."""
        rows = [
            _history_row(result, self._store.accepted[result.attempt.number])
            for result in self._store.results.values()
            if result.attempt.number == selection.job
            and selection.task_index in (None, result.attempt.index)
            and selection.cause in (None, result.cause)
        ]
        rows.sort(key=lambda row: (row.ended_wall_s, row.task_index, row.attempt), reverse=True)
        return rows[:limit]

    def seats(self, number: int, task_index: int, attempt: int) -> list[SeatRow]:
        """Return the seats of one attempt that have ended, by rank, since the last snapshot."""
        ended = [
            (*result.attempt[1:5], ranks, *_how(result))
            for event in self.events(number)
            if isinstance(event.change, SeatEnded)
            for result, ranks in event.change.results
            if result.attempt[2:4] == (task_index, attempt)
        ]
        return msgspec.convert(sorted(ended, key=itemgetter(3)), list[SeatRow])

    def last_seats(self, number: int, after_index: int, limit: int) -> list[SeatRow]:
        """Return the seats of each task's last attempt above `after_index`, as `seats` does."""
        last = self.last_attempts(number, after_index, limit)
        rows = (each for row in last for each in self.seats(number, row.task_index, row.attempt))
        return list(islice(rows, limit))

    def last_attempts(self, number: int, after_index: int, limit: int) -> list[HistoryRow]:
        """Return the last attempt of each task above `after_index`, by index."""
        last: dict[int, HistoryRow] = {}
        for row in sorted(self.history(Selection(job=number), len(self._store.results))):
            if row.task_index > after_index:
                last[row.task_index] = row
        return list(last.values())[:limit]

    def causes(self, number: int) -> dict[EndCause, int]:
        """Return the number of ended tasks of a job by cause, of those that had an attempt."""
        last = self.last_attempts(number, -1, len(self._store.results))
        return Counter(row.cause for row in last if row.cause not in ATTEMPT_ONLY)

    def payload_sizes(self) -> dict[str, int]:
        """Return no texts: jobs here bring none."""
        return {}

    def last_deleted(self) -> int:
        """Return 0, since nothing is deleted."""
        return 0

    def history_from_wall_s(self) -> float | None:
        """Return None, since nothing is deleted."""
        return None


def _history_row(result: AttemptResult, accepted: JobAccepted) -> HistoryRow:
    spec = accepted.spec
    job = (*spec.account, spec.user, spec.name, accepted.submitted_wall_s)
    return msgspec.convert((*result.attempt[1:4], *_how(result), *job), HistoryRow)


def _how(result: AttemptResult) -> tuple[object, ...]:
    """Return how an attempt or seat ended, as the store has it."""
    ended = (result.machine, result.cause, result.exit_code, result.signal)
    times = (result.started_wall_s, result.ended_wall_s, result.elapsed_s, result.charge_s)
    told = (result.message, encode_factors(result.factors), result.returned_s)
    return (*ended, *astuple(result.usage), *times, *told)


SPOOL = "/spool"
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_decode_row = msgspec.msgpack.Decoder(JobRow).decode


class ToldJobs:
    """The answers of one home to its clients."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._name = machine.plan.name
        self._home = machine.core.home
        self._store = machine.store
        stored = PastModel(machine.store)
        self._past = JobHistory(self._name, SPOOL, stored, lambda _forget: None)
        self._queries = JobQueries(self._home, self._past, SPOOL)

    def check_unfinished(self) -> None:
        """Check that listing, details and reasons of each job that has not ended agree."""
        listed = self._queries.listing(Jobs(everyone=True), "")
        rows = {row.id: row for some in listed for row in map(_decode_row, some)}
        assert len(rows) == len(self._home.jobs), f"{self._name} lists {list(rows)}"
        for number in self._home.jobs:
            selected = SelectedJobs(JobId(self._name, number))
            detail = self._detail(selected)
            row, id_ = detail.row, detail.row.id
            assert row == rows[id_], f"{id_} is listed as {rows[id_]}, and shown as {row}"
            state, reasons = self._queries.standing(selected)
            assert state == row.state, f"{id_} is {state}, and shown as {row.state}"
            assert (reasons is None) == (row.waiting > 0), f"{id_} has {row.waiting} that wait"

    def check_finished(self) -> None:
        """Check what is told of each job after its end."""
        finished = self._store.finished
        listed = self._past.rows(Jobs(everyone=True, limit=len(finished) + 1), "")
        rows = {row.id: row for row in map(_decode_row, listed)}
        assert len(rows) == len(finished), f"{self._name} lists {list(rows)} as finished"
        for number, ended in finished.items():
            selected = SelectedJobs(JobId(self._name, number))
            detail, id_ = self._detail(selected), str(selected.job)
            assert detail.row == rows[id_], f"{id_} is listed as {rows[id_]}"
            outcome, last = self._queries.outcome(selected), self._past.outcome(selected)
            assert outcome.cause == last.cause == ended.cause, f"{id_} {ended.cause}: {outcome}"
            self._check_story(selected, ended.cause)

    def _detail(self, selected: SelectedJobs) -> JobDetail:
        """Return the details of a job whose tasks are all told, each once."""
        detail = self._queries.detail(selected, [], {}, ranks=True)
        _check_seats(detail)
        row = detail.row
        told = row.waiting + row.active + row.succeeded + row.failed
        assert told == row.tasks, f"{told} of {row.tasks} tasks of {row.id} are told: {row}"
        ended = sum(detail.causes.values())
        assert ended == row.succeeded + row.failed, f"{row.id} ended by {detail.causes}: {row}"
        return detail

    def _check_story(self, selected: SelectedJobs, cause: EndCause) -> None:
        """Check that a story begins and ends with the job, and has the end of each attempt."""
        rows = self._past.story(selected).rows
        first, last, id_ = rows[0], rows[-1], selected.job
        assert first.what == "submitted", f"the story of {id_} begins with {first}"
        assert (last.what, last.text) == ("finished", cause), f"that of {id_} ends with {last}"
        told = Counter[str]()
        for row in rows:
            told[row.what] += _tasks_of(row)
        results = sum(
            attempt.number == id_.number and result.cause is not EndCause.REFUSED
            for attempt, result in self._store.results.items()
        )
        if "folded" not in told:
            tasks = told["claimed"] - told["refused"]
            assert tasks == told["ended"] == results, f"{id_} has {results} results: {told}"


class AwaitedJobs:
    """Users of one home who wait for each of its jobs."""

    def __init__(self) -> None:
        self._home: Home | None = None
        self._waits: JobWaits
        self._open: dict[int, OpenWait] = {}
        self._told = 0

    def check(self, machine: SimulatedMachine) -> None:
        """Check after a turn that whoever waits for a job is told when its end is durable."""
        home, name = machine.core.home, machine.plan.name
        if home is not self._home:  # those who waited at an earlier daemon are gone
            self._home, self._open, self._told = home, {}, len(machine.settled)
            self._waits = JobWaits(home, 1_000_000)
        for number in home.jobs:
            if number not in self._open:
                wait = self._open[number] = OpenWait("ann", [SelectedJobs(JobId(name, number))])
                assert not any(self._waits.looked_at(wait)), f"{name}-{number} is not finished"
                self._waits.enter(wait)
        for number in machine.settled[self._told :]:
            if number in self._open:
                wait = self._open.pop(number)
                over = self._waits.job_finished(number)
                assert over == [wait], f"nobody hears that {name}-{number} has ended"
                self._waits.leave(wait)
        self._told = len(machine.settled)

    def check_end(self, machine: SimulatedMachine) -> None:
        """Check that nobody waits for ever; the last ends may be durable since the last turn."""
        self.check(machine)
        assert not self._open, f"users wait for {list(self._open)}, which ended"
        held = 0 if self._home is None else self._waits.per_user.held("ann")
        assert not held, f"what is over counts as {held} that are waited for"


def _tasks_of(row: StoryRow) -> int:
    """Return how many tasks a row of a story names."""
    shown, _, more = row.tasks.partition(" and ")
    ranges = [(int(a), int(b or a)) for a, b in _RANGE.findall(shown)]
    return sum(b - a + 1 for a, b in ranges) + int((more or "0").split()[0])


def _check_seats(detail: JobDetail) -> None:
    """Check that the seats of each attempt are told, with ranks one after the other."""
    for attempt in detail.attempts:
        if not attempt.ranks:
            continue  # its events are folded
        seats = [
            each
            for each in detail.seats
            if (each.task, each.attempt) == (attempt.task, attempt.attempt)
        ]
        name = f"{attempt.task}, attempt {attempt.attempt}"
        assert len(seats) == attempt.seats, f"{name} has {attempt.seats} seats, told {len(seats)}"
        firsts = list(accumulate((each.ranks for each in seats), initial=0))
        assert [each.rank for each in seats] == firsts[:-1], f"{name} has other ranks"
        assert firsts[-1] == attempt.ranks, f"{name} has {attempt.ranks} ranks, not {firsts[-1]}"


def check_feasible(machine: SimulatedMachine) -> None:
    """Check that a broker takes its finished jobs for feasible, and nothing larger than all."""
    core, plan = machine.core, machine.plan
    capacity = plan.capacity if Part.NODE in plan.parts else None
    cap_cpus = plan.configuration.order.running_cap_cpus
    feasibility = Feasibility(core, capacity, cap_cpus)
    views = core.broker.state.machines
    is_whole = all(each.name in views for each in core.peers if each.has_node)
    most = max(view.calendar.capacity.cpus for view in views.values())
    for number, accepted in machine.store.accepted.items():
        if number in machine.store.finished:
            want = want_of(plan.name, accepted.spec)
            feasibility.check(want)
            beyond = replace(want, resources=replace(want.resources, cpus=most + 1))
            is_refused = feasibility.verdict(beyond).refusal is not None
            assert is_refused or not is_whole, f"{plan.name} takes {most + 1} cpus for feasible"
