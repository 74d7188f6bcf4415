"""A launcher in which one function raises: FUNCTION FIRST LAST, then a launcher's options.

FUNCTION is as `iriai.launcher.tasks.limit_monitor:LimitMonitor.alarm`; it raises in its calls FIRST
to LAST, from 1.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
from collections.abc import Callable

from iriai.launcher.__main__ import main


def break_function(name: str, first: int, last: int) -> None:
    """Have the function raise what nobody foresees."""
    module, _, path = name.partition(":")
    *owners, own_name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    whole: Callable[..., object] = getattr(owner, own_name)
    calls = itertools.count(1)

    def broken(*values: object, **named: object) -> object:
        if first <= next(calls) <= last:
            raise ZeroDivisionError(name)
        return whole(*values, **named)

    setattr(owner, own_name, broken)


if __name__ == "__main__":
    function, begin, end = (sys.argv.pop(1) for _ in range(3))
    break_function(function, int(begin), int(end))
    sys.exit(main())
