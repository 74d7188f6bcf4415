"""What may lie where it cannot be read once privileges are given up, and is needed after that.

A program, its libraries or Python itself may lie where only root may enter. What a daemon imports
later, inside a function, is then found through directories that were opened before: whoever comes
through an open directory is not asked about the way to it. Where the directory itself is root's
alone, all that may be needed is loaded before; tests/daemon holds this module to that.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from iriai.daemon.startup.order_plugins import load_orders
from iriai.system.privileges import unreachable_ancestor


def load_for_members() -> None:
    """What a member of a cluster needs for certain, wherever it lies."""
    from iriai.client import remote  # noqa: F401
    from iriai.daemon.cluster import network  # noqa: F401
    from iriai.identity.trust import tls  # noqa: F401


def keep_within_reach(user: str) -> None:
    """Have what can be imported now be found after this process has become `user`.

    Nothing is loaded where opening is enough: NumPy and HTCondor's library cost some 25 MB.
    """
    if os.geteuid() != 0:
        return
    places = [each for each in dict.fromkeys(sys.path) if Path(each).is_dir()]
    doors = [_keep_open(each) for each in places if unreachable_ancestor(each, user)]
    if any(unreachable_ancestor(each, user) for each in doors):
        load_expressions()
        load_orders()


def load_expressions() -> None:
    """What evaluates the expressions of jobs and machines."""
    from iriai.classad import reference_evaluator  # noqa: F401
    from iriai.policy.matching import job_requirements, match  # noqa: F401


def _keep_open(place: str) -> str:
    """Have modules below `place` be found through a descriptor, for as long as this process is."""
    door = f"/proc/self/fd/{os.open(place, os.O_PATH | os.O_DIRECTORY)}"
    sys.path.append(door)
    for module in list(sys.modules.values()):  # packages look for their modules by themselves
        ways = getattr(module, "__path__", None)
        if not isinstance(ways, list):  # none, or of a namespace, which follows `sys.path`
            continue
        below = [way for way in ways if way == place or way.startswith(f"{place}/")]
        ways.extend(door + way.removeprefix(place) for way in below)
    return door
