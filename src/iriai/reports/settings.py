"""The settings in force, and where each comes from."""

from __future__ import annotations

from iriai.config.reader import Configuration
from iriai.config.values import MEASURED
from iriai.model.resources import Resources
from iriai.model.units import format_size
from iriai.wire.reports import Setting


def settings_table(
    configuration: Configuration, home: str, amounts: Resources
) -> tuple[Setting, ...]:
    """Return the rows of `config show`, with measured values where none is configured."""
    measured = {
        "machine.name": home,
        "machine.cpus": str(amounts.cpus),
        "machine.memory": format_size(amounts.memory_bytes),
        "machine.gpus": str(amounts.gpus),
    }
    rows = configuration.rows()
    given = configuration.machine.resources
    rows += [
        (f"machine.resources.{name}", str(amount), MEASURED)
        for name, amount in amounts.named
        if name not in given
    ]
    return tuple(
        Setting(key, measured.get(key, value) if source == MEASURED else value, source)
        for key, value, source in rows
    )
