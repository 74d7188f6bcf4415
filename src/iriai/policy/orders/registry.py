"""Orders by name: those built in, and plug-ins that the daemon has loaded.

A plug-in is a package with an entry point in the group `iriai.orders`, naming an `OrderFactory`.
Reading entry points is I/O, so the daemon does it and passes the result in.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from iriai.model.problem import UsageProblem
from iriai.policy.orders.fifo import Fifo
from iriai.policy.orders.lottery import Lottery
from iriai.policy.orders.order import Order, OrderFactory, OrderSettings
from iriai.policy.orders.paper000 import Paper000
from iriai.policy.orders.stride import Stride

ENTRY_POINT_GROUP = "iriai.orders"

BUILT_IN: Mapping[str, OrderFactory] = MappingProxyType(
    {"lottery": Lottery, "paper000": Paper000, "stride": Stride, "fifo": Fifo}
)

_NO_PLUG_INS: Mapping[str, OrderFactory] = MappingProxyType({})


def order_named(
    name: str,
    settings: OrderSettings,
    plug_ins: Mapping[str, OrderFactory] = _NO_PLUG_INS,
) -> Order:
    """The order `name` with `settings`.

    Raises:
        UsageProblem: there is no such order, or a plug-in took the name of a built-in one.
    """
    if name in BUILT_IN and name in plug_ins:
        raise UsageProblem(
            "ambiguous-order",
            f"order '{name}' is built in, and a plug-in has the same name",
            "remove the plug-in or have it renamed",
        )
    factory = BUILT_IN.get(name) or plug_ins.get(name)
    if factory is None:
        known = ", ".join([*BUILT_IN, *sorted(plug_ins)])
        raise UsageProblem("unknown-order", f"there is no order '{name}'", f"there are: {known}")
    return factory(settings)
