"""Load, before privileges are given up, what may lie where it cannot be read after that.

A program may lie in a directory that only root may enter. So whatever a daemon imports inside a
function and after the drop is loaded here before it; tests/daemon holds this module to that.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from iriai.daemon.orders import load_orders
from iriai.identity.privileges import unreachable_ancestor


def load_for_members() -> None:
    """What a member of a cluster needs for certain, wherever it lies."""
    from iriai.client import remote  # noqa: F401
    from iriai.daemon import cluster_network  # noqa: F401
    from iriai.identity import tls  # noqa: F401


def load_what_is_out_of_reach(user: str) -> None:
    """Plug-ins, and what the first expression that somebody uses needs, if `user` cannot read them.

    Elsewhere they are left alone until then: NumPy and HTCondor's library cost some 35 MB.
    """
    if os.geteuid() != 0:
        return
    ways = sysconfig.get_paths()
    places = dict.fromkeys((str(Path(__file__).parent), ways["purelib"], ways["platlib"]))
    if any(unreachable_ancestor(each, user) for each in places):
        load_expressions()
        load_orders()
    elif unreachable_ancestor(ways["stdlib"], user):
        load_of_python()


def load_of_python() -> None:
    """What is imported with expressions and is Python's own, which may lie elsewhere.

    As where root built it for itself. NumPy makes do without this; a later one may not.
    """
    import ctypes  # noqa: F401


def load_expressions() -> None:
    """What evaluates the expressions of jobs and machines."""
    from iriai.classad import truth  # noqa: F401
    from iriai.policy import demand, match  # noqa: F401
