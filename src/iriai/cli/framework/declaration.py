"""Options and arguments as commands declare them, whoever reads the command line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec


class Parameter:
    """The default of a function's parameter that is an option or an argument of its command."""

    __slots__ = ("default", "is_argument", "names", "settings")

    def __init__(
        self,
        default: object,
        names: tuple[str, ...],
        settings: dict[str, Any],
        *,
        is_argument: bool,
    ) -> None:
        self.default = default
        """Its value if it is not given; `...` if it has to be."""
        self.names = names
        """As they are typed; none: made of the parameter's name."""
        self.settings = settings
        """Metavariable, help and the like, as Typer calls them. `min` and `max` bound a number;
        `autocompletion` may be the name of a function of `framework.completion`."""
        self.is_argument = is_argument


def option(default: object, *names: str, **settings: object) -> Any:  # noqa: ANN401 - its value
    """Declare an option."""
    return Parameter(default, names, settings, is_argument=False)


def argument(default: object, **settings: object) -> Any:  # noqa: ANN401 - its value
    """Declare an argument."""
    return Parameter(default, (), settings, is_argument=True)


def options_under(panel: str) -> Callable[..., Any]:
    """Return `option` for options that help pages list under the heading `panel`."""
    return partial(option, rich_help_panel=panel)


class OptionGroup(msgspec.Struct, frozen=True):
    """Several options that are one parameter of a command: each field is an option."""


class Declared(msgspec.Struct, frozen=True):
    """One option or argument of a command."""

    name: str
    kind: str
    """Its type as it is written."""
    parameter: Parameter

    @property
    def names(self) -> tuple[str, ...]:
        """Its names as they are typed; of a switch that can be negated both, after a `/`."""
        if self.parameter.names:
            return self.parameter.names
        name = self.name.replace("_", "-")
        return (f"--{name}/--no-{name}" if self.is_switch else f"--{name}",)

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.kind.removesuffix(" | None") == "bool"


def declared_by(
    names: tuple[str, ...], defaults: tuple[object, ...], kinds: dict[str, str]
) -> list[Declared]:
    """Return what parameters declare, of which the last have `defaults`."""
    with_default = names[len(names) - len(defaults) :]
    return [
        Declared(name, kinds[name], default)
        for name, default in zip(with_default, defaults, strict=True)
        if isinstance(default, Parameter)
    ]
