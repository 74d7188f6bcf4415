"""The options of `iriai simulate`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

POLICIES = ("fcfs", "easy", "easy-sjbf", "conservative")
MODES = ("replay", "full")
MODELS = ("lublin", "poisson")
_LOG, _RULES, _OUTPUT = "The log", "The rules", "What comes out"


def _beginning(words: tuple[str, ...], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Policies that are built in."""
    return _beginning(POLICIES, incomplete)


def complete_order(incomplete: str) -> list[str]:
    """Orders that are built in."""
    from iriai.plugins.orders import BUILT_IN

    return _beginning(BUILT_IN, incomplete)


def complete_mode(incomplete: str) -> list[str]:
    """The modes."""
    return _beginning(MODES, incomplete)


def complete_model(incomplete: str) -> list[str]:
    """Models of workloads."""
    return _beginning(MODELS, incomplete)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Where the jobs come from."""

    processors: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Of the machine, whatever the log says.", rich_help_panel=_LOG
        ),
    ] = None
    perfect_estimates: Annotated[
        bool,
        typer.Option(
            "--perfect-estimates",
            help="As if everybody had stated exactly how long a job runs.",
            rich_help_panel=_LOG,
        ),
    ] = False
    generate: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Instead of a log: lublin (Lublin and Feitelson 2003) or poisson.",
            autocompletion=complete_model,
            rich_help_panel=_LOG,
        ),
    ] = None
    jobs: Annotated[
        int,
        typer.Option(metavar="N", help="How many to generate.", rich_help_panel=_LOG),
    ] = 1000
    write_log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the log, as it is simulated, as SWF.", rich_help_panel=_LOG
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class InsteadOptions:
    """What is run instead of a log."""

    experiment: Annotated[str | None, typer.Option(metavar="NAME", hidden=True)] = None
    """Gone; refused with where it is."""
    faults: Annotated[
        bool,
        typer.Option(
            "--faults",
            help="Instead of a log: small worlds in which much breaks, a seed each, from --seed.",
            rich_help_panel=_RULES,
        ),
    ] = False
    seeds: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="With --faults: how many.", rich_help_panel=_RULES),
    ] = 100


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """What is tried."""

    policy: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="fcfs, easy, easy-sjbf, conservative, or a file of your own: FILE.py:CLASS.",
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
            help="replay: the policy alone, for long logs. full: every message between the parts.",
            autocompletion=complete_mode,
            rich_help_panel=_RULES,
        ),
    ] = "replay"
    wire: Annotated[
        bool,
        typer.Option(
            "--wire",
            help="With --mode full or --faults: every message becomes bytes and is read again.",
            rich_help_panel=_RULES,
        ),
    ] = False
    seed: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Of all that is drawn by chance.", rich_help_panel=_RULES
        ),
    ] = 1
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An iriai.toml, for rights, half-life, burst and the like.",
            rich_help_panel=_RULES,
        ),
    ] = None
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Look at the invariants after every event.", rich_help_panel=_RULES
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What is made of it."""

    compare: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Several side by side: policies, orders, or both as easy+lottery.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES ...",
            help="Every combination of policy=, order=, seed=1..10, or keys of \\[order].",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    starts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Write the number and the start of each job.",
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
            help="Processes for several simulations. \\[default: one for each processor]",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
