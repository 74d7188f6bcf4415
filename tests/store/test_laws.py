"""Whatever is written, in whatever batches: what comes back is what dictionaries would hold."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iriai.model.bounds import NUMBER_MAX, URGENCY_MAX
from iriai.model.claim import Claim, Phase
from iriai.model.ids import Account, AttemptId, ReservationId
from iriai.model.job import (
    JobSpec,
)
from iriai.model.owner import OwnerWord
from iriai.model.ranks import SeatPlace
from iriai.model.records import (
    AbsencesLearnt,
    Attempted,
    AttemptResult,
    BookingsDropped,
    BookingStored,
    Bucket,
    Cancelled,
    ClaimsDropped,
    ClaimStored,
    Decided,
    Drained,
    Ended,
    Held,
    Incarnated,
    JobAccepted,
    JobEvent,
    JobFinished,
    KeySet,
    LedgerRow,
    OwnerWordGiven,
    Promised,
    Refund,
    Released,
    ReservationsDropped,
    ReservationStored,
    Resumed,
    SectionSet,
    Snapshot,
    Started,
)
from iriai.model.reservation import (
    Booking,
    Reservation,
    ReservationEnd,
    ReservationState,
    ReservationTerms,
)
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.model.usage import Usage
from iriai.store import Store
from tests.store.model import Remembered

JOBS = 4
"""Few, so that records concern the same ones."""

text = st.text(max_size=8)
word = st.text("abc", min_size=1, max_size=2)
seconds = st.floats(0.0, 1e11)
urgencies = st.floats(0.0, URGENCY_MAX, exclude_min=True)
count = st.integers(0, NUMBER_MAX)
index = st.integers(0, 3)
attempt_number = st.integers(1, 3)
cause = st.sampled_from(EndCause)
code = st.none() | st.integers(0, 255)
number = st.integers(1, JOBS)
accounts = st.builds(Account, word, word)
first_seat = (st.just(0), st.just(0))
attempt_ids = st.builds(AttemptId, st.just("ume"), number, index, attempt_number, *first_seat)
resources = st.builds(Resources, count, count, count, st.lists(st.tuples(word, count)).map(tuple))
ranges = st.lists(st.tuples(index, index, index), min_size=1, max_size=3).map(tuple)

specs = st.builds(
    JobSpec,
    account=accounts,
    user=text,
    name=text,
    command=st.lists(text, max_size=3).map(tuple),
    working_directory=text,
    resources=resources,
    array=ranges,
    is_array=st.booleans(),
    time_limit_s=st.none() | seconds,
    cpu_limit_s=st.none() | seconds,
    process_limit=st.none() | count,
    environment=text,
    script=text,
    stdin=text,
    output=text,
    error=text,
    max_restarts=st.none() | count,
    urgency=urgencies,
    held=st.booleans(),
    interaction=st.sampled_from(Interaction),
    kill_grace_s=seconds,
)
tasks = st.lists(st.tuples(index, attempt_number)).map(tuple)
changes = st.one_of(
    st.builds(Attempted, tasks, text, st.lists(st.builds(SeatPlace, word, index)).map(tuple)),
    st.builds(Decided, tasks),
    st.builds(Started, tasks),
    st.builds(Ended, st.lists(st.tuples(index, attempt_number, cause, code, code)).map(tuple)),
    st.builds(Cancelled, st.lists(index).map(tuple), text),
    st.builds(Held, text),
    st.builds(Released, text),
    st.builds(Promised, st.none() | seconds, text),
    st.builds(Snapshot, st.binary(max_size=8)),
)
payloads = st.lists(st.tuples(word, st.binary(max_size=8)), max_size=2).map(tuple)

names = st.lists(word, max_size=3).map(tuple)
reservation_ids = st.builds(ReservationId, word, number)
terms = st.builds(
    ReservationTerms,
    accounts,
    text,
    seconds,
    seconds,
    st.integers(1, 9),
    st.none() | resources,
    text,
    names,
    text,
    st.booleans(),
    st.floats(1.0, 600.0),
)
reservations = st.builds(
    Reservation,
    number,
    count,
    terms,
    st.sampled_from(ReservationState),
    names,
    seconds,
    st.none() | st.sampled_from(ReservationEnd),
    seconds,
    names,
    names,
    text,
)
bookings = st.builds(
    Booking,
    reservation_ids,
    count,
    accounts,
    seconds,
    seconds,
    st.none() | resources,
    text,
    names,
    text,
    st.sampled_from([Phase.HELD, Phase.CONFIRMED]),
    seconds,
)

records = st.one_of(
    st.builds(JobAccepted, number, specs, seconds, payloads),
    st.builds(JobEvent, number, st.just(0), seconds, changes, text),
    st.builds(JobFinished, number, seconds, cause),
    st.builds(
        AttemptResult,
        attempt_ids,
        text,
        cause,
        code,
        code,
        st.builds(Usage, seconds, count, count, count),
        seconds,
        seconds,
        seconds,
        seconds,
        text,
        st.just(()) | st.just(((1.0, 2.0), (0.5, 4.0))),
        seconds,
    ),
    st.builds(
        ClaimStored,
        st.builds(
            Claim,
            attempt_ids,
            accounts,
            text,
            resources,
            st.none() | seconds,
            seconds,
            seconds,
            st.lists(index).map(tuple),
        ),
    ),
    st.builds(ClaimsDropped, st.lists(attempt_ids, max_size=3).map(tuple)),
    st.builds(LedgerRow, accounts, seconds, seconds, count, seconds),
    st.builds(
        LedgerRow,
        accounts,
        st.just(0.0),
        st.just(0.0),
        count,
        seconds,
        bucket_s=seconds,
        buckets=st.lists(st.builds(Bucket, index, seconds, seconds), max_size=3).map(tuple),
        refunds=st.lists(st.builds(Refund, index, seconds, seconds), max_size=3).map(tuple),
    ),
    st.builds(Incarnated, count),
    st.builds(Drained, text, text, seconds),
    st.builds(Resumed, text),
    st.builds(AbsencesLearnt, st.binary(max_size=20)),
    st.builds(
        OwnerWordGiven, st.sampled_from([None, *OwnerWord]), st.none() | seconds, st.booleans()
    ),
    st.builds(
        SectionSet,
        st.sampled_from(["queues", "pools"]),
        text,
        st.lists(st.builds(KeySet, text, text, text), max_size=3).map(tuple),
        text,
        seconds,
    ),
    st.builds(ReservationStored, reservations),
    st.builds(ReservationsDropped, st.lists(number, min_size=1, max_size=2).map(tuple)),
    st.builds(BookingStored, bookings),
    st.builds(BookingsDropped, st.lists(reservation_ids, max_size=2).map(tuple)),
)


def job_of(record):
    """The job that a record of a home is about."""
    match record:
        case JobEvent() | JobFinished():
            return record.number
        case AttemptResult():
            return record.attempt.number
    return None


@st.composite
def histories(draw):
    """Batches of records as a home and a node write them.

    A job is accepted once and before all else of it, events are numbered in order.
    """
    accepted = set()
    last_event = 0
    batches = []
    for drawn in draw(st.lists(st.lists(records, max_size=6), max_size=6)):
        batch = []
        for record in drawn:
            if isinstance(record, JobAccepted):
                if record.number in accepted:
                    continue
                accepted.add(record.number)
            elif job_of(record) not in {None, *accepted}:
                continue
            if isinstance(record, JobEvent):
                last_event += 1
                batch.append(msgspec.structs.replace(record, sequence=last_event))
            else:
                batch.append(record)
        batches.append(batch)
    return batches


@pytest.mark.long
@given(histories())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_the_store_remembers_what_a_dictionary_would(empty_database, batches):
    remembered = Remembered()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "iriai.db")
        shutil.copyfile(empty_database, path)
        store = Store.open(path)
        for batch in batches:
            store.write(batch)
            for record in batch:
                remembered.take(record)
        store.close()
        again = Store.open(path)
        assert again.load() == remembered.state()
        assert history_of(again) == remembered.attempts
        assert {digest: again.payload(digest) for digest in remembered.payloads} == (
            remembered.payloads
        )
        for accepted in remembered.accepted.values():
            job = again.job(accepted.number)
            assert (job.spec, job.cause) == (accepted.spec, remembered.causes.get(job.number))
        again.close()


def history_of(store):
    return {
        (row.job, row.task_index, row.attempt): AttemptResult(
            AttemptId("ume", row.job, row.task_index, row.attempt),
            row.machine,
            row.cause,
            row.exit_code,
            row.signal,
            Usage(row.cpu_s, row.memory_peak_bytes, row.read_bytes, row.written_bytes),
            row.started_wall_s,
            row.ended_wall_s,
            row.elapsed_s,
            row.charge_s,
            row.message,
            row.factors,
            row.returned_s,
        )
        for row in store.history()
    }
