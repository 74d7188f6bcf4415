"""One simulation, whole: a log and settings in, records and numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iriai.sim.workload import full
from iriai.sim.workload.entitlement import parts
from iriai.sim.workload.log import Log
from iriai.sim.workload.metrics import Metrics, measure
from iriai.sim.workload.record import Progress, Record, no_progress
from iriai.sim.workload.replay import replay
from iriai.sim.workload.settings import FULL, ReplaySettings


class Simulation(NamedTuple):
    """The result of a log under given settings."""

    settings: ReplaySettings
    records: Sequence[Record]
    metrics: Metrics


def simulate(log: Log, settings: ReplaySettings, progress: Progress = no_progress) -> Simulation:
    """Simulate `log` and compute its metrics."""
    run = full.simulate if settings.mode == FULL else replay
    records = run(log, settings, progress)
    entitled = parts(records, settings.rights_for(log))
    ratios = [part.got_s / part.wanted_s for part in entitled if part.wanted_s > 0]
    return Simulation(settings, records, measure(records, log.processors, ratios))
