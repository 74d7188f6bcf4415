"""What users and accounts have that has not finished, also after a start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iriai.config.limits import LimitsSection
from iriai.model.batch_variables import BatchVariables
from iriai.model.ids import Account
from iriai.model.problem import Refused
from iriai.policy.service.allowances import JOB_BYTES, HeldJobs
from tests.support.told import spec

LAB, OTHER = Account("lab", "ann"), Account("other", "ann")


def held(**limits) -> HeldJobs:
    return HeldJobs(LimitsSection(**limits))


def refusal(check: Callable[[], None]) -> Refused:
    with pytest.raises(Refused) as caught:
        check()
    return caught.value


def test_so_many_jobs_of_one_user_until_some_have_finished():
    jobs = held(jobs_per_user=2)
    for number in (1, 2):
        jobs.check("ann", 100)
        jobs.add(number, "ann", LAB, 100)
    jobs.check("bob", 100)
    problem = refusal(lambda: jobs.check("ann", 100))
    assert problem.code == "too-many-jobs"
    assert problem.message.startswith("ann has 2 jobs that have not finished, and may have 2")
    assert "jobs_per_user in [limits]" in problem.hint
    assert jobs.refusals["jobs_per_user"] == {"ann": 1}
    jobs.job_finished(1)
    jobs.job_finished(1)
    jobs.check("ann", 100)


def test_so_many_bytes_of_one_user():
    jobs = held(job_bytes_per_user=JOB_BYTES + 1000)
    assert refusal(lambda: jobs.check("ann", 1001)).code == "too-many-job-bytes"
    jobs.check("ann", 1000)
    jobs.add(1, "ann", LAB, 1000)
    assert "job_bytes_per_user" in refusal(lambda: jobs.check("ann", 0)).hint
    jobs.job_finished(1)
    assert jobs.freed_bytes == JOB_BYTES + 1000


def test_an_account_has_a_limit_of_its_own_where_one_is_configured():
    jobs = held(jobs_per_account=1, job_bytes_per_account=1 << 20)
    jobs.add(1, "ann", LAB, 100)
    jobs.check("ann", 100)
    jobs.check_account(OTHER, "ann", 100)
    problem = refusal(lambda: jobs.check_account(LAB, "bob", 100))
    assert problem.message.startswith("the account lab/ann has 1 jobs")
    assert "jobs_per_account in [limits]" in problem.hint
    assert jobs.refusals["jobs_per_account"] == {"bob": 1}
    problem = refusal(lambda: jobs.check_account(OTHER, "ann", 1 << 20))
    assert "job_bytes_per_account" in problem.hint
    jobs.job_finished(1)
    jobs.check_account(LAB, "bob", 100)


def test_without_limits_of_accounts_nothing_is_counted_for_them():
    assert not held().is_by_account


def test_all_that_came_with_a_job_counts_after_a_start_as_well():
    batch = BatchVariables(system="slurm", values=(("SLURM_JOB_NAME", "x" * 5000),))
    large = spec(environment="e", script="s", stdin="i", batch=batch)
    for stored, came_bytes in ((spec(), 0), (large, 5000 + 1000 + 200 + 30)):
        jobs = held()
        jobs.restore(7, stored, {"e": 1000, "s": 200, "i": 30})
        jobs.job_finished(7)
        assert JOB_BYTES + came_bytes < jobs.freed_bytes < JOB_BYTES + came_bytes + 500
