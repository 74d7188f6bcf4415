"""What an experiment comes to: panels of numbers, each a group of bars in the figure."""

from __future__ import annotations

import msgspec


class Panel(msgspec.Struct, frozen=True):
    """One quantity: of each row, a number for each column."""

    title: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    """By row; None: it has none."""
    wanted: tuple[float, ...] = ()
    """By column, where somebody is entitled to something; in the same unit."""
    is_logarithmic: bool = False


class ExperimentResult(msgspec.Struct, frozen=True):
    """One experiment; the same seeds give the same bytes."""

    experiment: str
    about: str
    seeds: tuple[int, ...]
    """All of them were run, and the numbers are means over them."""
    panels: tuple[Panel, ...]
