"""Reservations beside a real log: drawn alike each time, judged, and summed up."""

from __future__ import annotations

import pytest

from benchmarks.harness.reserved_logs import QUEUED, measure_replay, read_log, reservations_of
from benchmarks.reservations import checks

LOG, JOBS = "HPC2N", 150


@pytest.mark.logs
def test_a_larger_part_begins_with_the_reservations_of_a_smaller_one():
    log = read_log(LOG, JOBS)
    few, many = ({each[1:] for each in reservations_of(log, part)} for part in (0.05, 0.2))
    assert few < many
    ahead_s = [each.start_s - each.asked_s for each in reservations_of(log, 0.2)]
    assert min(ahead_s) >= 3_600.0
    assert max(ahead_s) <= 48 * 3_600.0


@pytest.mark.logs
def test_what_was_reserved_waits_where_it_is_submitted_instead():
    beside = measure_replay(LOG, JOBS, "fifo", "beside", 0.2)
    queued = measure_replay(LOG, JOBS, "fifo", QUEUED, 0.2)
    assert beside["answers_wrong"] == beside["promises_broken"] == beside["late_starts"] == 0
    assert beside["answers_checked"] > 0
    assert beside["acceptance"] <= beside["oracle_acceptance"]
    assert queued["jobs"] == JOBS + beside["asked"]
    assert queued["late_s"] > 0.0


def test_checks_sum_up_what_holds_beside_the_queue_and_leave_out_what_comes_above():
    row = {"asked": 10, "acceptance": 0.9, "promises_broken": 0, "late_starts": 0}
    judged = row | {"oracle_acceptance": 1.0, "answers_checked": 3, "answers_wrong": 1}
    found = checks(
        [
            ("beside", judged),
            ("slack", row | {"late_starts": 2}),
            ("above", row | {"promises_broken": 5}),
            ("queued", {"asked": 10, "late_s": 4.0}),
            ("nothing", {"jobs": 10}),
        ]
    )
    assert found == {
        "acceptance_of_oracle": 0.9,
        "promises_broken": 0,
        "late_starts": 2,
        "answers_wrong": 1,
        "answers_checked": 3,
    }
