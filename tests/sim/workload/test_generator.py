"""Generated logs: the same for a seed, and like what their models say."""

from __future__ import annotations

from math import log as ln

import pytest

from iriai.model.problem import UsageProblem
from iriai.sim.workload.generator import LIMITS_S, MODELS, generate


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_gives_the_same_log_and_another_seed_another(model):
    assert generate(model, 200, 64, 7) == generate(model, 200, 64, 7)
    assert generate(model, 200, 64, 7).jobs != generate(model, 200, 64, 8).jobs


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("processors", [1, 3, 100, 8192])
def test_every_job_can_be_run(model, processors):
    log = generate(model, 500, processors, 1)
    assert [job.number for job in log.jobs] == list(range(1, 501))
    assert all(1 <= job.width <= processors for job in log.jobs)
    assert all(1 <= job.run_s <= job.estimate_s for job in log.jobs)
    assert all(job.estimate_s in LIMITS_S for job in log.jobs)
    submitted = [job.submit_s for job in log.jobs]
    assert submitted == sorted(submitted)


def test_perfect_estimates_change_nothing_else():
    usual, perfect = (
        generate("lublin", 300, 64, 2, perfect_estimates=each) for each in (False, True)
    )
    assert all(job.run_s == job.estimate_s for job in perfect.jobs)
    assert [job.run_s for job in perfect.jobs] == [job.run_s for job in usual.jobs]


def test_the_lublin_model_has_the_widths_and_the_days_of_its_paper():
    jobs = generate("lublin", 8000, 128, 5).jobs
    serial = sum(job.width == 1 for job in jobs) / len(jobs)
    # A quarter is serial; the narrowest parallel jobs round down to 2.
    assert 0.22 < serial < 0.27
    powers = sum(job.width & (job.width - 1) == 0 for job in jobs) / len(jobs)
    assert powers > 0.82
    by_hour = [0] * 24
    for job in jobs:
        by_hour[int(job.submit_s // 3600) % 24] += 1
    assert min(by_hour[10:17]) > 2 * max(by_hour[2:6])
    wide = [job.run_s for job in jobs if job.width > 16]
    narrow = [job.run_s for job in jobs if job.width <= 16]
    mean_ln = [sum(map(ln, runs)) / len(runs) for runs in (wide, narrow)]
    assert mean_ln[0] > mean_ln[1]


def test_poisson_arrivals_fill_most_of_the_machine():
    log = generate("poisson", 20_000, 64, 1)
    work_s = sum(job.width * job.run_s for job in log.jobs)
    assert 0.7 < work_s / (64 * log.jobs[-1].submit_s) < 0.9


@pytest.mark.parametrize(
    ("model", "jobs", "processors"), [("nobody", 10, 4), ("lublin", 0, 4), ("poisson", 10, 0)]
)
def test_what_cannot_be_made_is_refused(model, jobs, processors):
    with pytest.raises(UsageProblem):
        generate(model, jobs, processors, 1)
