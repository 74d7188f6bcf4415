"""What one real daemon uses in a site of 100 machines, and in one of 10,000 in twenty clusters.

The other machines are none: one process speaks as all that the daemon has to do with
(`harness/synthetic_site.py`), with keys and addresses of their own, at rest: nothing is submitted.
`rss_mb`: memory of the daemon at the end. `bytes_per_s`: all packets to and from it, with the
headers of IP and TCP and the handshakes of TLS. `more`: what the large site costs more; `goals`
are for that. Everything happens in a network namespace of its own. Needs root.

"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from harness.options import Options, read_options
from harness.processes import cpu_s, rss_mb
from harness.report import finish, machine_facts, progress
from harness.synthetic_site import NETWORK, PORT, Plan, SyntheticSite

from iriai.client import Client
from iriai.identity.storage.cluster_files import ClusterFiles
from iriai.model.paths import StatePaths
from iriai.model.problem import Problem
from iriai.model.seed import Seed
from iriai.state.state_directory import daemon_owner
from iriai.system.lock_file import lock_holder

SMALL = Plan(machines=100, clusters=1, homes=1)
LARGE = Plan(machines=10_000, clusters=20, homes=100)
QUICK_SMALL, QUICK_LARGE = Plan(10, 1, 1), Plan(60, 4, 4)
SETTLE_S, MEASURE_S = 90.0, 180.0
QUICK_S = 8.0
WAIT_S = 60.0
SEED = 7
GOALS = {"rss_mb": 20.0, "bytes_per_s": 1_000.0}
"""At most so much more in the large site."""
IRIAI = str(Path(sys.executable).with_name("iriai"))
INSIDE = "IRIAI_LARGE_SITE_INSIDE"
CONFIGURATION = """
[machine]
cpus = 2
[cluster]
listen = "{address}"
address = "{address}"
{name}
"""


def main() -> None:
    """Measure both sites, in turn."""
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    options = read_options(str(__doc__))
    facts = machine_facts(Path(tempfile.gettempdir()))
    for command in (("link", "set", "lo", "up"), ("addr", "add", f"{NETWORK}.0.1/16", "dev", "lo")):
        subprocess.run(["ip", *command], check=True)
    plans = {"small": SMALL, "large": LARGE}
    if options.quick:
        plans = {"small": QUICK_SMALL, "large": QUICK_LARGE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in plans}
    for number in range(options.runs):
        for name, plan in plans.items():
            found[name].append(asyncio.run(_measured(plan, options)))
            progress(f"run {number + 1}, {plan.machines} machines: {found[name][-1]}")
    figures = {
        name: {key: round(median(each[key] for each in runs), 1) for key in runs[0]}
        for name, runs in found.items()
    }
    more = {key: round(figures["large"][key] - figures["small"][key], 1) for key in GOALS}
    result: dict[str, Any] = {
        **figures,
        "more": more,
        "goals": GOALS,
        "judged": _judged(more),
        "settings": {
            "runs": options.runs,
            "machines": [plan.machines for plan in plans.values()],
            "clusters": [plan.clusters for plan in plans.values()],
            "homes": [plan.homes for plan in plans.values()],
            "measured_s": QUICK_S if options.quick else MEASURE_S,
        },
        "machine": facts,
    }
    finish(result)


def _judged(more: dict[str, float]) -> str:
    missed = [f"{key} {more[key]} > {goal}" for key, goal in GOALS.items() if more[key] > goal]
    return ", ".join(missed) or "ok"


async def _measured(plan: Plan, options: Options) -> dict[str, float]:
    """Start a daemon in a new site, and look at it when it has rested."""
    with tempfile.TemporaryDirectory(prefix="iriai-site-") as directory:
        place = Path(directory)
        place.chmod(0o711)
        site = SyntheticSite(plan, place / "peers", Random(SEED))
        (place / "peers").mkdir()
        site.begin()
        supervisor = await _started(site, place / "state")
        try:
            return await _looked_at(site, place / "state", options)
        finally:
            await _end(supervisor, place / "state")
            site.close()


def _begun(state: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [IRIAI, "up", "--state", str(state), "--name", "d0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


async def _end(supervisor: subprocess.Popen[bytes], state: Path) -> None:
    """End the daemon, the launcher and the supervisor."""
    launcher = lock_holder(StatePaths(str(state)).lock("launcher"))
    in_thread = asyncio.get_running_loop().run_in_executor
    with suppress(Problem):
        await in_thread(None, _down, state)
    supervisor.terminate()
    await in_thread(None, supervisor.wait)
    if launcher is not None:
        with suppress(ProcessLookupError):
            os.kill(launcher, signal.SIGTERM)


def _down(state: Path) -> None:
    with Client.connect(state, follow=False) as client:
        client.down(kill=True)


async def _started(site: SyntheticSite, state: Path) -> subprocess.Popen[bytes]:
    """Start the daemon alone, then again as a member that knows some machines of its cluster."""
    state.mkdir()
    paths = StatePaths(str(state))
    name = f'name = "{site.own}"' if site.own else ""
    address = f"{NETWORK}.0.1:{PORT}"
    Path(paths.configuration).write_text(CONFIGURATION.format(address=address, name=name))
    alone = _begun(state)
    try:
        until_s = time.monotonic() + WAIT_S
        while lock_holder(paths.lock("daemon")) is None and time.monotonic() < until_s:
            await asyncio.sleep(0.2)
    finally:
        await _end(alone, state)
    owner = daemon_owner(paths)
    site.identity(site.daemon, Path(paths.cluster), owner)
    files = ClusterFiles(paths.cluster)
    files.keep_seeds([Seed(each, (at,)) for each, at in site.seeds])
    if owner is not None:
        for file in Path(paths.cluster).iterdir():
            os.chown(file, *owner)
    return _begun(state)


async def _looked_at(site: SyntheticSite, state: Path, options: Options) -> dict[str, float]:
    known = await _until_known(site, state)
    await asyncio.sleep(QUICK_S if options.quick else SETTLE_S)
    pid = lock_holder(StatePaths(str(state)).lock("daemon"))
    assert pid is not None, "the daemon ended"
    bytes_before, cpu_before, began_s = _loopback_bytes(), cpu_s([pid]), time.monotonic()
    await asyncio.sleep(QUICK_S if options.quick else MEASURE_S)
    took_s = time.monotonic() - began_s
    return {
        "rss_mb": rss_mb([pid]),
        "bytes_per_s": (_loopback_bytes() - bytes_before) / took_s,
        "cpu_percent": 100.0 * (cpu_s([pid]) - cpu_before) / took_s,
        "known_after_s": known,
    }


async def _until_known(site: SyntheticSite, state: Path) -> float:
    """Wait until the daemon knows its cluster and the gateways of all others."""
    began_s = time.monotonic()
    want = set(site.machines)
    while time.monotonic() - began_s < WAIT_S:
        await asyncio.sleep(1.0)
        found = await asyncio.get_running_loop().run_in_executor(None, _members, state)
        if found >= want:
            return time.monotonic() - began_s
    lacking = sorted(want - found)
    raise RuntimeError(f"of {len(want)} machines {len(lacking)} are not known: {lacking[:5]}")


def _members(state: Path) -> set[str]:
    try:
        with Client.connect(state, follow=False) as client:
            return {each.name for each in client.status().members}
    except Problem:
        return set()


def _loopback_bytes() -> int:
    """Bytes of all packets on the loopback device: what the daemon sent and received."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    [row] = [line for line in lines if line.strip().startswith("lo:")]
    return int(row.partition(":")[2].split()[0])


if __name__ == "__main__":
    main()
