"""Exit codes of `run` and `wait`, as docs/guide/exit-codes.md lists them."""

import pytest

from iriai.cli.jobs.watching.exit_status import exit_code, exit_code_of_all, outcome_text
from iriai.model.state import ATTEMPT_ONLY, EndCause
from iriai.wire.requests import Outcome

ENDS = [
    (EndCause.COMPLETED, 0, None, 0, "completed"),
    (EndCause.FAILED, 3, None, 3, "failed with exit code 3"),
    (EndCause.FAILED, None, 9, 137, "killed by SIGKILL"),
    (EndCause.FAILED, None, 64, 192, "killed by SIGRTMAX"),
    (EndCause.FAILED, None, None, 1, "failed"),
    (EndCause.TIME_LIMIT, None, 15, 124, "time-limit"),
    (EndCause.MEMORY_LIMIT, None, 9, 125, "memory-limit"),
    (EndCause.CPU_LIMIT, None, 9, 125, "cpu-limit"),
    (EndCause.DISK_LIMIT, None, 9, 125, "disk-limit"),
    (EndCause.LOST, None, None, 125, "lost"),
    (EndCause.CANCELLED, None, 15, 130, "cancelled"),
]


@pytest.mark.parametrize(("cause", "code", "signal", "expected", "text"), ENDS)
def test_each_end_has_its_exit_code(cause, code, signal, expected, text):
    assert exit_code(Outcome("ume-1", cause, code, signal)) == expected
    assert outcome_text(Outcome("ume-1", cause, code, signal)) == f"ume-1: {text}"
    assert outcome_text(Outcome("ume-1", cause, code, signal, "so")) == f"ume-1: {text} (so)"


def test_no_end_of_a_task_is_forgotten():
    assert {cause for cause, *_ in ENDS} == set(EndCause) - set(ATTEMPT_ONLY)


def test_of_several_the_first_failure_counts():
    good, bad = Outcome("a", "completed", 0, None), Outcome("b", "failed", 4, None)
    lost = Outcome("c", "lost", None, None)
    assert exit_code_of_all([good, bad, lost]) == 4
    assert exit_code_of_all([good, good]) == 0
