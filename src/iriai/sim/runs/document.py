"""`metrics.json` and `--json`: one document for one or many simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from iriai.model.units import format_duration
from iriai.sim.runs.cases import Simulation
from iriai.sim.workload.log import Log
from iriai.sim.workload.metrics import Metrics


class LogFacts(msgspec.Struct, frozen=True):
    """The log that was simulated."""

    name: str
    jobs: int
    processors: int
    counts: Mapping[str, int]
    """What was left out or changed while reading, and how often."""


class CaseResult(msgspec.Struct, frozen=True):
    """One simulation."""

    label: str
    policy: str
    order: str
    mode: str
    seed: int
    metrics: Metrics

    @property
    def cells(self) -> tuple[str, ...]:
        """The label and the main numbers, as the columns of a table show them."""
        metrics, jain = self.metrics, self.metrics.jain_index
        return (
            self.label,
            format_duration(round(metrics.wait_s.mean)),
            format_duration(round(metrics.wait_s.p50)),
            format_duration(round(metrics.wait_s.p99)),
            f"{metrics.bounded_slowdown.mean:.2f}",
            f"{metrics.utilisation * 100:.1f} %",
            format_duration(round(metrics.makespan_s)),
            "-" if jain is None else f"{jain:.3f}",
        )

    @property
    def reservation_cells(self) -> tuple[str, ...]:
        """The label and the numbers of reservations, as the columns of a table show them."""
        found = self.metrics.reservations
        if found is None:
            return ()
        delay_s = found.delay_to_earliest_s
        return (
            self.label,
            f"{found.asked:,}",
            f"{found.acceptance * 100:.1f} %",
            "-" if delay_s is None else format_duration(round(delay_s.mean)),
            f"{found.reserved * 100:.1f} %",
            f"{found.late_starts:,}",
            f"{found.promises_broken:,}",
        )


class Document(msgspec.Struct, frozen=True):
    """The whole document; the same log and settings give the same bytes."""

    log: LogFacts
    simulations: tuple[CaseResult, ...]


def document(log: Log, labels: Sequence[str], simulations: Sequence[Simulation]) -> Document:
    """Return the document of `simulations` of `log`, in their order."""
    facts = LogFacts(log.name, len(log.jobs), log.processors, dict(log.counts))
    results = [
        CaseResult(label, given.policy, given.order, given.mode, given.seed, metrics)
        for label, (given, _, metrics) in zip(labels, simulations, strict=True)
    ]
    return Document(facts, tuple(results))


def encoded(value: msgspec.Struct) -> bytes:
    """Return `value` as `metrics.json` holds it."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
