"""The options of `iriai simulate`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

POLICIES = ("fcfs", "easy", "easy-sjbf", "conservative")
MODES = ("replay", "full")
MODELS = ("lublin", "poisson")
_LOG, _RULES, _OUTPUT = "Log", "Rules", "Output"


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
        typer.Option(
            metavar="N",
            min=1,
            help="Number of processors of the machine, instead of the log's.",
            rich_help_panel=_LOG,
        ),
    ] = None
    perfect_estimates: Annotated[
        bool,
        typer.Option(
            "--perfect-estimates",
            help="Assume that users state exactly how long a job runs.",
            rich_help_panel=_LOG,
        ),
    ] = False
    generate: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Generate a log: lublin (Lublin and Feitelson 2003) or poisson.",
            autocompletion=complete_model,
            rich_help_panel=_LOG,
        ),
    ] = None
    jobs: Annotated[
        int,
        typer.Option(metavar="N", help="Number of jobs to generate.", rich_help_panel=_LOG),
    ] = 1000
    write_log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the simulated log, as SWF.", rich_help_panel=_LOG),
    ] = None


@dataclass(frozen=True, slots=True)
class InsteadOptions:
    """Options that replace a log."""

    experiment: Annotated[str | None, typer.Option(metavar="NAME", hidden=True)] = None
    """Gone; refused with where it is."""
    faults: Annotated[
        bool,
        typer.Option(
            "--faults",
            help="Simulate small worlds with many faults instead of a log, one per seed, from "
            "--seed on.",
            rich_help_panel=_RULES,
        ),
    ] = False
    seeds: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="With --faults: number of seeds.", rich_help_panel=_RULES
        ),
    ] = 100


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Options about the rules."""

    policy: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="Policy: fcfs, easy, easy-sjbf, conservative, or a file of your own: "
            "FILE.py:CLASS.",
            autocompletion=complete_policy,
            rich_help_panel=_RULES,
        ),
    ] = "easy"
    order: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            help="Who is next: the name of an order. An unknown name lists them.",
            autocompletion=complete_order,
            rich_help_panel=_RULES,
        ),
    ] = "fifo"
    mode: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="Mode; replay: the policy alone, for long logs; full: every message between "
            "the parts.",
            autocompletion=complete_mode,
            rich_help_panel=_RULES,
        ),
    ] = "replay"
    wire: Annotated[
        bool,
        typer.Option(
            "--wire",
            help="With --mode full or --faults: convert every message to bytes and back.",
            rich_help_panel=_RULES,
        ),
    ] = False
    seed: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Seed of the random numbers.", rich_help_panel=_RULES
        ),
    ] = 1
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration (an iriai.toml), for rights, half-life, burst and the like.",
            rich_help_panel=_RULES,
        ),
    ] = None
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Check the invariants after every event.", rich_help_panel=_RULES
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Options about the output."""

    compare: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Compare policies, orders, or both, as easy+lottery.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES ...",
            help="Run every combination of policy=, order=, seed=1..10, or keys of \\[order].",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    starts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Write the number and the start time of each job.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write index.html with plots, and metrics.json.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of processes for several simulations. \\[default: one per processor]",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
