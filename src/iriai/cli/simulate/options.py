"""The options of `iriai simulate`, in groups."""

from __future__ import annotations

from pathlib import Path

from iriai.cli.framework.command import OptionGroup, option, options_under

POLICIES = ("fcfs", "easy", "easy-sjbf", "conservative")
MODES = ("replay", "full")
MODELS = ("lublin", "poisson")
_log, _rule, _output = map(options_under, ("Log", "Rules", "Output"))


def complete_order() -> tuple[str, ...]:
    """Return the orders that are built in."""
    from iriai.plugins.orders import BUILT_IN

    return BUILT_IN


class LogOptions(OptionGroup, frozen=True):
    """Options about the log."""

    processors: int | None = _log(
        None, metavar="N", min=1, help="Number of processors of the machine, instead of the log's."
    )
    perfect_estimates: bool = _log(
        False, "--perfect-estimates", help="Assume that users state exactly how long a job runs."
    )
    generate: str | None = _log(
        None,
        metavar="MODEL",
        help="Generate a log: lublin (Lublin and Feitelson 2003) or poisson.",
        autocompletion=lambda: MODELS,
    )
    jobs: int = _log(1000, metavar="N", help="Number of jobs to generate.")
    reservations: Path | None = _log(
        None,
        metavar="FILE.csv",
        help="Reservations that are asked for beside the jobs: asked, start, end, width, user.",
    )
    write_log: Path | None = _log(None, metavar="FILE", help="Write the simulated log, as SWF.")


class InsteadOptions(OptionGroup, frozen=True):
    """Options that replace a log."""

    experiment: str | None = option(None, metavar="NAME", hidden=True)
    """Removed; the refusal names what replaced it."""
    faults: bool = _rule(
        False,
        "--faults",
        help="Simulate small worlds with many faults instead of a log, one per seed, from "
        "--seed on.",
    )
    seeds: int = _rule(100, metavar="N", min=1, help="With --faults: number of seeds.")


class RuleOptions(OptionGroup, frozen=True):
    """Options about the rules."""

    policy: str = _rule(
        "easy",
        metavar="POLICY",
        help="Policy: fcfs, easy, easy-sjbf, conservative, or a file of your own: FILE.py:CLASS.",
        autocompletion=lambda: POLICIES,
    )
    order: str = _rule(
        "fifo",
        metavar="ORDER",
        help="Who is next: the name of an order. An unknown name lists them.",
        autocompletion=complete_order,
    )
    mode: str = _rule(
        "replay",
        metavar="MODE",
        help="Mode; replay: the policy alone, for long logs; full: every message between "
        "the parts.",
        autocompletion=lambda: MODES,
    )
    wire: bool = _rule(
        False,
        "--wire",
        help="With --mode full or --faults: convert every message to bytes and back.",
    )
    seed: int = _rule(1, metavar="N", min=0, help="Seed of the random numbers.")
    config: Path | None = _rule(
        None,
        metavar="FILE",
        help="Configuration (an iriai.toml), for rights, half-life, burst and the like.",
    )
    machines: int = _rule(
        1,
        metavar="N",
        min=1,
        help="Spread the log's processors over N machines: a wide job takes several.",
    )
    check: bool = _rule(False, "--check", help="Check the invariants after every event.")


class OutputOptions(OptionGroup, frozen=True):
    """Options about the output."""

    compare: str | None = _output(
        None, metavar="A,B,C", help="Compare policies, orders, or both, as easy+lottery."
    )
    sweep: list[str] | None = _output(
        None,
        metavar="KEY=VALUES ...",
        help="Run every combination of policy=, order=, seed=1..10, or keys of \\[order].",
    )
    starts: Path | None = _output(
        None, metavar="FILE.csv", help="Write the number and the start time of each job."
    )
    report: Path | None = _output(
        None, metavar="DIR", help="Write index.html with plots, and metrics.json."
    )
    workers: int | None = _output(
        None,
        metavar="N",
        min=1,
        help="Number of processes for several simulations. \\[default: one per processor]",
    )
