"""Orders by name: those built in, and those that installed packages bring.

Built in is each module of `iriai.policy.orders`, by its name: it holds one subclass of `Order`. A
package brings others by entry points in the group `iriai.orders`. Only the built-in order
that is asked for is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.model.problem import UsageProblem
from iriai.policy import orders
from iriai.policy.draw.order import Order, OrderFactory, OrderSettings

ENTRY_POINT_GROUP = "iriai.orders"
BUILT_IN = tuple(sorted({each.stem for each in Path(orders.__path__[0]).glob("[!_]*.py")}))
"""Names of orders."""


def plug_in_orders() -> dict[str, OrderFactory]:
    """Return the order of each installed plug-in by name, as of the first call."""
    from iriai.plugins.entry_points import declared

    return declared(ENTRY_POINT_GROUP)


def order_named(
    name: str, settings: OrderSettings, plug_ins: Mapping[str, OrderFactory] | None = None
) -> Order:
    """Return the order `name` with `settings`; `plug_ins` are those of installed packages.

    Raises:
        UsageProblem: there is no such order, a plug-in has the name of a built-in one, or brings
            something else than an order.
    """
    others = plug_ins or {}
    if name in BUILT_IN and name in others:
        raise UsageProblem(
            "ambiguous-order",
            f"order '{name}' is built in, and a plug-in has the same name",
            "remove the plug-in or have it renamed",
        )
    if name not in (*BUILT_IN, *others):
        known = ", ".join([*BUILT_IN, *sorted(others)])
        raise UsageProblem("unknown-order", f"there is no order '{name}'", f"use one of: {known}")
    order = (_built_in(name) if name in BUILT_IN else others[name])(settings)
    if not isinstance(order, Order):
        raise UsageProblem(
            "bad-order",
            f"the plug-in of order '{name}' brings a {type(order).__name__}, which is not an order",
            "derive its class from iriai.policy.api.Order",
        )
    return order


def with_usual(configuration: Configuration) -> Configuration:
    """Apply the defaults of the configured order to what was not given.

    Only built-in orders have defaults: this runs while the daemon may still be root, when no plug-
    in may be loaded.
    """
    order, given = configuration.order, configuration.given
    usual = _built_in(order.name).usual if order.name in BUILT_IN else {}
    changes = {key: value for key, value in usual.items() if f"order.{key}" not in given}
    return replace(configuration, order=replace(order, **changes))


def _built_in(name: str) -> type[Order]:
    module = import_module(f"{orders.__name__}.{name}")
    [found] = (
        each
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and issubclass(each, Order)
    )
    return found
