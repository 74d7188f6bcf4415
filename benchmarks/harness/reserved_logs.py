"""Logs of real machines with reservations beside them, and what becomes of both.

Reservations are asked for 1 to 48 h ahead, at random times; widths and lengths are those of jobs of
the log, drawn at random. They are the same for each policy, and those of a smaller part are the
first of a larger one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from pathlib import Path
from random import Random

from harness.exhaustive_booking import BookingJudge
from harness.report import Answer
from iriai.config.reader import Configuration
from iriai.config.sections import ReservationPolicy, ReservationsSection
from iriai.model.reservation import LENGTH_MAX_S, LENGTH_MIN_S
from iriai.sim.workload.full import simulate_all
from iriai.sim.workload.log import Log, LogJob, LogReservation
from iriai.sim.workload.metrics import Metrics, measure, with_reservations
from iriai.sim.workload.replay import replay_all
from iriai.sim.workload.reservations import LogRun, in_order
from iriai.sim.workload.settings import FULL, ReplaySettings
from iriai.sim.workload.swf import read_swf
from iriai.sim.world.network import NetworkPlan

AHEAD_S = (3_600.0, 48 * 3_600.0)
SEED = 1
JUDGED_EACH = 5
"""Of so many answers one is compared with exhaustive search."""
UNLIMITED = 1_000_000
"""Reservations of an account: what one may have is not what is measured."""
POLICIES: tuple[ReservationPolicy, ...] = ("beside", "slack", "above")
QUEUED = "queued"
"""The same as ordinary jobs, submitted when they would have started."""


def read_log(name: str, jobs: int) -> Log:
    """Return the first jobs of a log."""
    shared = os.environ.get("IRIAI_SHARED")
    root = Path(shared) if shared else Path(__file__).resolve().parents[3] / "shared"
    log = read_swf(root / "traces" / f"{name}.swf.gz")
    return replace(log, jobs=log.jobs[:jobs])


def reservations_of(log: Log, part: float) -> tuple[LogReservation, ...]:
    """Return reservations of so much of the processors until the last submission."""
    dice, first_s, last_s = Random(SEED), log.jobs[0].submit_s, log.jobs[-1].submit_s
    jobs = [job for job in log.jobs if LENGTH_MIN_S <= job.run_s <= LENGTH_MAX_S]
    left_s = part * log.processors * (last_s - first_s)
    asked: list[LogReservation] = []
    while left_s > 0.0:
        job = dice.choice(jobs)
        asked_s = float(round(dice.uniform(first_s, last_s)))
        start_s = asked_s + round(dice.uniform(*AHEAD_S))
        end_s = start_s + job.run_s
        asked.append(LogReservation(len(asked), asked_s, start_s, end_s, job.width, job.account))
        left_s -= job.width * job.run_s
    return in_order(asked)


def settings_of(order: str, policy: ReservationPolicy, machines: int = 1) -> ReplaySettings:
    """Return the settings: EASY, and accounts that may reserve what they like."""
    section = ReservationsSection(policy=policy, count_max=UNLIMITED, share_limit=False)
    configuration = Configuration(reservations=section)
    mode = FULL if machines > 1 else "replay"
    return ReplaySettings(order=order, configuration=configuration, machines=machines, mode=mode)


def measure_replay(name: str, jobs: int, order: str, policy: str, part: float) -> Answer:
    """Replay a log on one node, whose cpus are the cluster."""
    log = read_log(name, jobs)
    asked = reservations_of(log, part)
    if policy == QUEUED:
        return _queued(log, asked, settings_of(order, "beside"))
    log = replace(log, reservations=asked)
    judge = BookingJudge(each=JUDGED_EACH)
    kind = next(each for each in POLICIES if each == policy)
    is_judged = kind == "beside" and bool(asked)
    run = replay_all(log, settings_of(order, kind), judge=judge if is_judged else None)
    answer = _figures(log, run)
    if is_judged:
        oracle = sum(each.is_accepted for each in run.reservations) + judge.could_fit
        answer |= {
            "oracle_acceptance": oracle / len(asked),
            "answers_checked": judge.checked,
            "answers_wrong": len(judge.wrong),
        }
    return answer


def measure_full(
    name: str, jobs: int, machines: int, policy: str, part: float, loss: float
) -> Answer:
    """Simulate a log on machines with every message, some of which are lost."""
    log = read_log(name, jobs)
    log = replace(log, reservations=reservations_of(log, part))
    kind = next(each for each in POLICIES if each == policy)
    network = NetworkPlan(loss=loss)
    return _figures(log, simulate_all(log, settings_of("fifo", kind, machines), network=network))


def _figures(log: Log, run: LogRun) -> Answer:
    metrics = with_reservations(measure(run.records, log.processors, ()), run)
    answer = _of_jobs(metrics)
    found = metrics.reservations
    if found is not None:
        delay_s = found.delay_to_earliest_s
        answer |= {
            "asked": found.asked,
            "acceptance": found.acceptance,
            "delay_to_earliest_s": None if delay_s is None else delay_s.mean,
            "without_earliest": found.without_earliest,
            "reserved": found.reserved,
            "utilisation": metrics.utilisation + found.reserved,
            "promises_broken": found.promises_broken,
            "late_starts": found.late_starts,
        }
    return answer


def _queued(log: Log, asked: Sequence[LogReservation], settings: ReplaySettings) -> Answer:
    """Return what becomes of the log if the same is submitted as jobs."""
    last = max(job.number for job in log.jobs)
    more = {
        last + each.number: LogJob(
            last + each.number,
            each.start_s,
            each.end_s - each.start_s,
            each.width,
            each.end_s - each.start_s,
            each.account,
        )
        for each in asked
    }
    jobs = sorted([*log.jobs, *more.values()], key=lambda job: (job.submit_s, job.number))
    records = replay_all(replace(log, jobs=jobs), settings).records
    answer = _of_jobs(measure(records, log.processors, ()))
    waits_s = [record.wait_s for record in records if record.job.number in more]
    own = [record for record in records if record.job.number not in more]
    of_log = _of_jobs(measure(own, log.processors, ()))
    return answer | {
        "wait_s": of_log["wait_s"],
        "slowdown": of_log["slowdown"],
        "asked": len(asked),
        "late_s": fsum(waits_s) / len(waits_s),
        "at_once": sum(wait_s <= 1.0 for wait_s in waits_s) / len(waits_s),
    }


def _of_jobs(metrics: Metrics) -> Answer:
    return {
        "jobs": metrics.jobs,
        "wait_s": metrics.wait_s.mean,
        "slowdown": metrics.bounded_slowdown.mean,
        "utilisation": metrics.utilisation,
    }
