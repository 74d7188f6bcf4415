"""The options of `iriai simulate`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from iriai.cli.framework.command import options_under

POLICIES = ("fcfs", "easy", "easy-sjbf", "conservative")
MODES = ("replay", "full")
MODELS = ("lublin", "poisson")
_log, _rule, _output = map(options_under, ("Log", "Rules", "Output"))


def _beginning(words: tuple[str, ...], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Return the policies that are built in."""
    return _beginning(POLICIES, incomplete)


def complete_order(incomplete: str) -> list[str]:
    """Return the orders that are built in."""
    from iriai.plugins.orders import BUILT_IN

    return _beginning(BUILT_IN, incomplete)


def complete_mode(incomplete: str) -> list[str]:
    """Return the modes."""
    return _beginning(MODES, incomplete)


def complete_model(incomplete: str) -> list[str]:
    """Return the models of workloads."""
    return _beginning(MODELS, incomplete)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options about the log."""

    processors: Annotated[
        int | None,
        _log(metavar="N", min=1, help="Number of processors of the machine, instead of the log's."),
    ] = None
    perfect_estimates: Annotated[
        bool,
        _log("--perfect-estimates", help="Assume that users state exactly how long a job runs."),
    ] = False
    generate: Annotated[
        str | None,
        _log(
            metavar="MODEL",
            help="Generate a log: lublin (Lublin and Feitelson 2003) or poisson.",
            autocompletion=complete_model,
        ),
    ] = None
    jobs: Annotated[int, _log(metavar="N", help="Number of jobs to generate.")] = 1000
    write_log: Annotated[
        Path | None, _log(metavar="FILE", help="Write the simulated log, as SWF.")
    ] = None


@dataclass(frozen=True, slots=True)
class InsteadOptions:
    """Options that replace a log."""

    experiment: Annotated[str | None, typer.Option(metavar="NAME", hidden=True)] = None
    """Removed; the refusal names what replaced it."""
    faults: Annotated[
        bool,
        _rule(
            "--faults",
            help="Simulate small worlds with many faults instead of a log, one per seed, from "
            "--seed on.",
        ),
    ] = False
    seeds: Annotated[int, _rule(metavar="N", min=1, help="With --faults: number of seeds.")] = 100


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Options about the rules."""

    policy: Annotated[
        str,
        _rule(
            metavar="POLICY",
            help="Policy: fcfs, easy, easy-sjbf, conservative, or a file of your own: "
            "FILE.py:CLASS.",
            autocompletion=complete_policy,
        ),
    ] = "easy"
    order: Annotated[
        str,
        _rule(
            metavar="ORDER",
            help="Who is next: the name of an order. An unknown name lists them.",
            autocompletion=complete_order,
        ),
    ] = "fifo"
    mode: Annotated[
        str,
        _rule(
            metavar="MODE",
            help="Mode; replay: the policy alone, for long logs; full: every message between "
            "the parts.",
            autocompletion=complete_mode,
        ),
    ] = "replay"
    wire: Annotated[
        bool,
        _rule(
            "--wire", help="With --mode full or --faults: convert every message to bytes and back."
        ),
    ] = False
    seed: Annotated[int, _rule(metavar="N", min=0, help="Seed of the random numbers.")] = 1
    config: Annotated[
        Path | None,
        _rule(
            metavar="FILE",
            help="Configuration (an iriai.toml), for rights, half-life, burst and the like.",
        ),
    ] = None
    check: Annotated[bool, _rule("--check", help="Check the invariants after every event.")] = False


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Options about the output."""

    compare: Annotated[
        str | None,
        _output(metavar="A,B,C", help="Compare policies, orders, or both, as easy+lottery."),
    ] = None
    sweep: Annotated[
        list[str] | None,
        _output(
            metavar="KEY=VALUES ...",
            help="Run every combination of policy=, order=, seed=1..10, or keys of \\[order].",
        ),
    ] = None
    starts: Annotated[
        Path | None,
        _output(metavar="FILE.csv", help="Write the number and the start time of each job."),
    ] = None
    report: Annotated[
        Path | None, _output(metavar="DIR", help="Write index.html with plots, and metrics.json.")
    ] = None
    workers: Annotated[
        int | None,
        _output(
            metavar="N",
            min=1,
            help="Number of processes for several simulations. \\[default: one per processor]",
        ),
    ] = None
