"""`iriai simulate`: the same rules in virtual time, on a workload log."""

from __future__ import annotations

import os
import sys
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from iriai.cli.framework.command import Command, GlobalOptions, argument
from iriai.cli.framework.standard_streams import plain, print_document, remark
from iriai.cli.framework.table import Column, print_table
from iriai.cli.simulate.faults import find_faults
from iriai.cli.simulate.options import InsteadOptions, LogOptions, OutputOptions, RuleOptions
from iriai.cli.simulate.progress import bar
from iriai.config.reader import Configuration, parse_configuration
from iriai.model.problem import NotFound, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iriai.sim.runs.cases import Case, Simulation
    from iriai.sim.workload.log import Log
    from iriai.sim.workload.settings import ReplaySettings

GENERATED_PROCESSORS = 128
"""Processors of a generated log by default: those of the model of Lublin and Feitelson."""

_COLUMNS: tuple[Column[tuple[str, ...]], ...] = (
    Column("Simulation", itemgetter(0), style="bold"),
    Column("Mean wait", itemgetter(1), right=True),
    Column("50 % below", itemgetter(2), right=True, wide=True),
    Column("99 % below", itemgetter(3), right=True),
    Column("Slowdown", itemgetter(4), right=True),
    Column("Used", itemgetter(5), right=True),
    Column("Makespan", itemgetter(6), right=True),
    Column("Fairness", itemgetter(7), right=True),
)
"""The columns of `CaseResult.cells`."""
_RESERVATION_COLUMNS: tuple[Column[tuple[str, ...]], ...] = (
    Column("Simulation", itemgetter(0), style="bold"),
    Column("Reservations", itemgetter(1), right=True),
    Column("Accepted", itemgetter(2), right=True),
    Column("Earliest later by", itemgetter(3), right=True, wide=True),
    Column("Reserved", itemgetter(4), right=True),
    Column("Late", itemgetter(5), right=True),
    Column("Promises broken", itemgetter(6), right=True),
)
"""The columns of `CaseResult.reservation_cells`."""


def simulate(
    options: GlobalOptions,
    given: LogOptions,
    rules: RuleOptions,
    output: OutputOptions,
    trouble: InsteadOptions,
    log: list[str] | None = argument(
        None, metavar="LOG", help="A workload log (SWF), compressed or not."
    ),
) -> int | None:
    """Replay a workload log in virtual time: how long each user would have waited.

    The simulation runs the product's own code. The log is in the Standard Workload Format; the
    Parallel Workloads Archive has many. The same log, rules and seed always give the same result.
    """
    if trouble.experiment is not None:
        raise UsageProblem(
            "usage",
            "the experiments of paper 000 are no longer part of the program",
            f"in a clone of the sources, run: python benchmarks/paper_000.py --only "
            f"{trouble.experiment}",
        )
    if trouble.faults:
        if log or given.generate is not None or given.reservations is not None:
            raise UsageProblem(
                "usage", "--faults cannot be combined with a log", "leave out what is of the log"
            )
        return find_faults(rules.seed, trouble.seeds, options, through_wire=rules.wire)
    from iriai.sim.runs.cases import run_cases

    words = list(log or ())
    sweep = list(output.sweep or ())
    if sweep:
        sweep += [word for word in words if "=" in word]
        words = [word for word in words if "=" not in word]
    base = _settings(rules)
    cases = _cases(base, output, sweep)
    _refuse_early(output, cases)
    read = _with_reservations(_log(words, given, rules.seed), given.reservations)
    _write_log(read, given.write_log)
    if len(cases) == 1:
        simulations = [_watched(read, cases[0])]
    else:
        with bar(len(cases), "simulations") as progress:
            simulations = run_cases(
                read,
                cases,
                output.workers or os.cpu_count() or 1,
                lambda done: progress(done, 0.0),
                keep_records=output.report is not None,
            )
    if output.starts is not None:
        _write_starts(simulations[0], output.starts)
    _show(read, cases, simulations, output, options)
    return None


def _settings(rules: RuleOptions) -> ReplaySettings:
    from iriai.plugins.orders import with_usual
    from iriai.sim.workload.settings import ReplaySettings

    configuration = Configuration()
    if rules.config is not None:
        try:
            text = rules.config.read_text()
        except FileNotFoundError:
            raise NotFound("no-configuration", f"there is no file {rules.config}") from None
        except UnicodeDecodeError:
            raise UsageProblem(
                "bad-configuration", f"{rules.config} is not text", "give an iriai.toml"
            ) from None
        configuration = with_usual(parse_configuration(text, str(rules.config)))
    settings = ReplaySettings(
        rules.policy,
        rules.order,
        rules.mode,
        rules.seed,
        configuration,
        rules.check,
        rules.wire,
        rules.machines,
    )
    settings.refuse_unknown()
    return settings


def _cases(base: ReplaySettings, output: OutputOptions, sweep: list[str]) -> list[Case]:
    from iriai.sim.runs.cases import Case, compared, swept

    if output.compare is not None and sweep:
        raise UsageProblem(
            "usage",
            "--compare and --sweep cannot be combined",
            "use --sweep alone: it compares, too",
        )
    if output.compare is not None:
        return compared(output.compare, base)
    if sweep:
        return swept(sweep, base)
    return [Case(f"{base.policy}+{base.order}", base)]


def _refuse_early(output: OutputOptions, cases: Sequence[Case]) -> None:
    """Report what cannot be done before hours are spent."""
    for case in cases:
        case.settings.refuse_unknown()
    if output.starts is not None and len(cases) > 1:
        raise UsageProblem(
            "usage", "--starts is for one simulation", "leave out --compare and --sweep"
        )
    if output.report is not None:
        from iriai.system.extras import need_extra

        need_extra("plots", "a report")


def _log(words: list[str], given: LogOptions, seed: int) -> Log:
    from iriai.sim.workload.generator import generate
    from iriai.sim.workload.swf import read_swf

    if given.generate is not None:
        if words:
            raise UsageProblem(
                "usage", "--generate and a log cannot be combined", "use one of them"
            )
        return generate(
            given.generate,
            given.jobs,
            given.processors or GENERATED_PROCESSORS,
            seed,
            perfect_estimates=given.perfect_estimates,
        )
    if len(words) != 1:
        what = "no log is named" if not words else f"there is one log too many: {words[1]}"
        raise UsageProblem("usage", what, "give LOG, or --generate lublin")
    log = read_swf(Path(words[0]), given.processors, perfect_estimates=given.perfect_estimates)
    for what, count in log.counts.items():
        remark(f"{log.name}: {count:,} {'jobs' if count > 1 else 'job'} {what}")
    return log


def _with_reservations(log: Log, path: Path | None) -> Log:
    from iriai.sim.workload.reservations import with_reservations

    return log if path is None else with_reservations(log, path)


def _write_log(log: Log, path: Path | None) -> None:
    from iriai.sim.workload.swf import write_swf

    if path is not None:
        with path.open("w") as stream:
            write_swf(log, stream)


def _watched(log: Log, case: Case) -> Simulation:
    from iriai.sim.runs.cases import simulate as simulate_log

    with bar(len(log.jobs), "jobs", log.began_wall_s) as progress:
        return simulate_log(log, case.settings, progress)


def _write_starts(simulation: Simulation, path: Path) -> None:
    with path.open("w") as stream:
        stream.write("job,start\n")
        for record in simulation.records:
            stream.write(f"{record.job.number},{record.start_s:.15g}\n")


def _show(
    log: Log,
    cases: Sequence[Case],
    simulations: Sequence[Simulation],
    output: OutputOptions,
    options: GlobalOptions,
) -> None:
    from iriai.sim.runs.document import document

    made = document(log, [case.label for case in cases], simulations)
    if output.report is not None:
        from iriai.sim.report.report import write_report

        write_report(output.report, log, made, simulations)
    if options.as_json:
        print_document(plain(made))
        return
    print_table(_COLUMNS, [case.cells for case in made.simulations])
    if log.reservations:
        print_table(_RESERVATION_COLUMNS, [case.reservation_cells for case in made.simulations])
    print(f"{len(log.jobs):,} jobs, {log.processors:,} processors", file=sys.stderr)
    if output.report is not None:
        print(f"The report is {output.report / 'index.html'}", file=sys.stderr)


app = Command(
    simulate,
    ("iriai simulate KTH-SP2.swf.gz", "how long each user would have waited"),
    ("iriai simulate log.swf --compare fcfs,easy,easy+lottery", "side by side"),
    ("iriai simulate log.swf --order lottery --report out", "plots in out/index.html"),
    ("iriai simulate log.swf --sweep order=lottery,stride seed=1..10", "on all processors"),
    ("iriai simulate log.swf --policy mine.py:Policy --check", "a policy of your own"),
    ("iriai simulate log.swf --reservations ahead.csv", "and how many reservations would fit"),
    ("iriai simulate --faults --seeds 1000", "look for faults in iriai itself"),
    ("iriai simulate --generate lublin --jobs 5000 --write-log a.swf", "generate a log"),
)
