"""A member's daemon up to where it gives up its privileges, and what it does then; see `main`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from iriai.daemon import __main__ as daemon
from iriai.daemon import out_of_reach
from iriai.daemon.startup.order_plugins import load_orders
from iriai.daemon.startup.settings import load_cluster
from iriai.model.ad import machine_ad
from iriai.model.paths import StatePaths
from iriai.store.store import Store

if TYPE_CHECKING:  # what a daemon does not load by itself is not to be loaded here
    from iriai.identity.cluster_state import ClusterState


class Dropped(Exception):
    """The daemon is about to give up its privileges."""


def main(directory: str, plug_ins: str) -> None:
    """Say which modules were there before the drop, and which came only with what was done then.

    Nobody's privileges are given up. The program is said to lie where only root can read;
    `plug_ins`, from where Python imports as well, is left behind with the privileges.
    """
    paths = StatePaths(Path(directory))
    cluster = member_of_a_cluster(paths)
    run_until_the_drop(paths, cluster)
    loaded = dict.fromkeys(sys.modules)
    sys.path.remove(plug_ins)
    after = {}
    for use in (evaluate_expressions, name_orders, speak_to_members, read_the_store):
        use(paths, cluster)
        after[use.__name__] = [name for name in sys.modules if name not in loaded]
    sys.stdout.write(json.dumps({"loaded": list(loaded), "after": after}))


def member_of_a_cluster(paths: StatePaths) -> ClusterState:
    """As `_settle` loads it; another process founds it, with what that alone needs."""
    child = os.fork()
    if child == 0:
        from iriai.identity.enrolment.bootstrap import found_cluster

        found_cluster(paths, cluster="lab", machine="first", operator="ann", now_wall_s=time.time())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    cluster = load_cluster(paths)
    assert cluster is not None
    return cluster


def run_until_the_drop(paths: StatePaths, cluster: ClusterState) -> None:
    """What `_serve` does with privileges."""
    Path(paths.database).parent.mkdir(parents=True)
    settings = SimpleNamespace(cluster=cluster, daemon_user="nobody", paths=paths)
    replaced = cast(Any, daemon), cast(Any, out_of_reach), cast(Any, os)
    replaced[0].drop_privileges = drop
    replaced[1].unreachable_ancestor = lambda _path, _user: Path("/")
    whose: Callable[[], int] = os.geteuid
    replaced[2].geteuid = lambda: 0
    try:
        daemon._serve(cast(Any, settings))
    except Dropped:
        replaced[2].geteuid = whose


def drop(_user: str) -> None:
    raise Dropped


def evaluate_expressions(*_of_the_member: object) -> None:
    """In columns, and by the library what columns do not cover."""
    from iriai.policy.matching.job_requirements import DemandKey
    from iriai.policy.matching.match import Matches

    matches = Matches()
    matches.put("first", machine_ad({"Cpus": 4, "Name": "first"}, "", ""), {})
    wanted = 'stringListMember(Name, "first,second") && Cpus > 2 && Arch =!= "none"'
    demand = matches.demand(DemandKey(wanted, "Cpus * 1.5", ())).enter()
    assert demand.admits("first")


def name_orders(_paths: StatePaths, _cluster: ClusterState) -> None:
    assert "last" in load_orders()


def speak_to_members(_paths: StatePaths, cluster: ClusterState) -> None:
    from iriai.daemon.net.credentials import Credentials

    Credentials.of(cluster.identity, cluster.trust)


def read_the_store(paths: StatePaths, _cluster: ClusterState) -> None:
    store = Store.open(Path(paths.database))
    store.load()
    store.checkpoint()
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
