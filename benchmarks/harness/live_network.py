"""A cluster of real daemons in network namespaces, as the end-to-end tests have it. Needs root."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from harness.descendants import none_left
from harness.report import progress
from harness.task_user import task_user

sys.path.insert(0, str(Path(__file__).parents[2]))  # the machines are those of the tests
network_kit = importlib.import_module("tests.endtoend.network")
bridge_kit = importlib.import_module("tests.endtoend.bridge")
intruder_kit = importlib.import_module("tests.endtoend.intruder")
judge_kit = importlib.import_module("tests.endtoend.judge")
people_kit = importlib.import_module("tests.support.people")
waiting_kit = importlib.import_module("tests.support.waiting")

WAIT_S = 900.0
"""Only a failure takes so long: sixty daemons that start on two busy cores need minutes."""

FORGED_ENTRIES = 500
Network = Any
"""`tests.endtoend.network.Network`: the tests are not checked for types."""

_Result = TypeVar("_Result")


def until(condition: Callable[[], _Result], what: str, pause_s: float = 0.05) -> _Result:
    """Return what `condition` returns once that is true; asks again after each `pause_s`."""
    result: _Result = waiting_kit.until(condition, what, pause_s, WAIT_S)
    return result


@contextmanager
def live_network(
    machines: int,
    *,
    cpus: int = 2,
    jobs: str = "",
    more: str = "",
    delay_s: float | None = None,
    loss: float = 0.0,
    all_accept: bool = False,
    prepare: Callable[[Network], None] | None = None,
) -> Iterator[tuple[Network, float]]:
    """Bring up m0, m1 and so on, each third of them accepting no connections, unless `all_accept`.

    `prepare` is called before they are started.

    Without `delay_s` frames go through the kernel's own bridge, at its speed.

    Gives the network, all of whose machines see all, and how long that took. `jobs` are lines of
    `[jobs]` in their configuration, `more` other sections of it.
    """
    user = task_user()
    person = people_kit.TestPerson(user.pw_name, user.pw_uid, user.pw_gid, ())
    bridge = bridge_kit.Bridge() if delay_s is None else None
    network = network_kit.Network(person, switch=bridge)
    vars(waiting_kit)["WAIT_S"] = WAIT_S
    began_s = time.monotonic()
    with none_left(), ExitStack() as stack:
        stack.callback(network.stop)
        for number in range(machines):
            outward_only = number % 3 == 2 and not all_accept
            options = {"outward_only": outward_only, "cpus": cpus, "jobs": jobs, "more": more}
            network.add(f"m{number}", **options)
        if prepare is not None:
            prepare(network)
        network.start()
        whole_s = time.monotonic() - began_s
        progress(f"all {machines} see all after {whole_s:.1f} s")
        if delay_s is not None:
            network.switch.delay_s, network.switch.loss = delay_s, loss
        yield network, whole_s


def forged_entries(name: str) -> tuple[list[bytes], bytes]:
    """What the member `name` says to begin a link, and a batch of entries that it cannot sign."""
    peer_kit = importlib.import_module("tests.endtoend.test_bad_peers")
    greeting = peer_kit.Greeting(
        peer_kit.LINK_VERSION, peer_kit.PARTS_VERSION, "9.9", name, "", "an-instance"
    )
    entries = tuple(
        peer_kit.Carried(
            peer_kit.Entry(
                "ume", peer_kit.EntryKind.AD, "lab", 10**9, version, 1800.0, b"[]", bytes(64)
            ),
            0.0,
        )
        for version in range(1, FORGED_ENTRIES + 1)
    )
    batch = peer_kit.Batch((peer_kit.pack("directory", peer_kit.Entries(entries)),))
    first = [peer_kit.greeting_frame(greeting), peer_kit.greeting_frame(peer_kit.Begin())]
    return first, peer_kit.link_frame(batch)
