"""64 real daemons in network namespaces: how fast news reaches all, and how a broker is succeeded.

A third of the machines accepts no connections; a bridge of the kernel connects them. `change`:
seconds until a change at one machine is known to all: of a document that an operator signed (told
at once), and of a machine that came up again (told with probes and exchanges); `ideal` is what
push-pull in rounds of a second could reach if nothing took time. `match`: seconds from `kill -9` of
the broker's daemon and supervisor until a task begins that was handed in after it, which only a
new broker can have matched; then that machine is started again, and each tenth time it is measured
when the others know that (`member`); the kills end after 25 minutes, however many there
were. `eject`: seconds from the call of `iriai eject` until each machine that can be dialled refuses
whoever has the ejected one's identity. `rest`: what each daemon uses while nothing is asked.
Machines are asked in turn: moments are late by up to 0.2 s. Needs root.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from harness.at_rest import rest_figures
from harness.ideal_gossip import ideal_spread_s
from harness.kept_folder import file_of_all
from harness.lines import Lines
from harness.live_network import Network, intruder_kit, live_network, network_kit, until
from harness.live_pictures import draw_gossip
from harness.options import Options, read_options
from harness.report import finish, machine_facts, percentile, progress

from iriai.client import Client
from iriai.config.sections import GossipSection
from iriai.identity.documents.operator_key import Operator
from iriai.identity.documents.revocation import Ejection
from iriai.identity.documents.signed_document import DocumentKind
from iriai.model.paths import StatePaths
from iriai.wire.joining import ShowCluster

MACHINES, QUICK_MACHINES = 64, 6
DOCUMENTS, QUICK_DOCUMENTS = 30, 2
KILLS, QUICK_KILLS = 20, 2
"""In each run: 100 in five runs, all with the same daemons."""
KILLING_S_MAX = 1500.0
"""After which no more are killed, so that the whole is over in half an hour: a kill and what
follows take at least the five seconds after which a silent broker is dead, and two for a start."""
NEWS_EACH = 10
"""Kills, of which one is followed by asking all machines when they know that the dead one is back:
that takes some seconds each time, and ten of them, at all other machines, tell enough."""
SETTLE_S = 30.0
REST_S = 60.0
PERIOD_S = GossipSection().period_s
"""Between two exchanges of a machine."""
IDEAL_RUNS = 500
SEED = 5
GOALS = {
    "match_p99_s": 10.0,
    "refused_max_s": 10.0,
    "memory_mb": 100.0,
    "cpu_percent_at_rest": 0.5,
    "sent_bytes_per_s_at_rest": 1000.0,
}
"""The last two are means of the machines."""
PROBE = 'echo "$IRIAI_JOB_ID" >> "$1"'

Seconds = list[float]


class Trial:
    """One cluster, looked at while it rests, learns, and loses its broker again and again."""

    def __init__(self, network: Network, options: Options) -> None:
        self.machines = network.machines
        self.quick = options.quick
        self.kills = QUICK_KILLS if options.quick else KILLS * options.runs
        self.begun_file = file_of_all("begun")
        self._rng = Random(SEED)
        self._lines = Lines({name: each.state for name, each in self.machines.items()})

    # --- news ------------------------------------------------------------------------------------

    def documents(self) -> list[Seconds]:
        """Publish documents at machines in turn; for each, when each of the others knew it."""
        first = next(iter(self.machines.values()))
        operator = Operator.load(StatePaths(str(first.state)).operator, lambda: "")
        found = []
        for number in range(QUICK_DOCUMENTS if self.quick else DOCUMENTS):
            phantom = f"nobody-{number}"
            body = msgspec.msgpack.encode(Ejection(phantom, time.time(), "a trial"))
            document = operator.sign(DocumentKind.EJECTION, body)
            source = self._rng.choice(list(self.machines))
            began_s = time.monotonic()
            self._lines.to(source).publish(DocumentKind.EJECTION, document)
            knows = _has_ejected(phantom)
            others = [name for name in self.machines if name != source]
            found.append(self._lines.moments_s(others, knows, began_s))
        return found

    # --- brokers ---------------------------------------------------------------------------------

    def kill_brokers(self) -> tuple[Seconds, list[Seconds]]:
        """Kill one after the other; when the next had matched, and when others knew it was back."""
        matched: Seconds = []
        news: list[Seconds] = []
        until_s = time.monotonic() + KILLING_S_MAX
        while len(matched) < self.kills and (time.monotonic() < until_s or len(news) < 2):
            broker = until(self._lines.agreed_broker, "all to follow one broker", 0.2)
            is_watched = self.quick or len(matched) % NEWS_EACH == 0
            before = self._last_known(broker) if is_watched else 0
            matched.append(self._kill(broker))
            up_s = self._start_again(broker)
            if is_watched:
                news.append(self._news_s(broker, before, up_s))
            if len(matched) % 10 == 0:
                progress(f"{len(matched)} brokers killed; slowest match {max(matched):.1f} s")
        return matched, news

    def _last_known(self, name: str) -> int:
        """The incarnation of a machine, as whoever knows most has it."""
        return max(self._lines.ask(each, _incarnation(name)) or 0 for each in self.machines)

    def _kill(self, broker: str) -> float:
        """Returns the seconds until a task began that was handed in after the death."""
        dead = self.machines[broker]
        home = self.machines[self._rng.choice([name for name in self.machines if name != broker])]
        with home.client() as client:
            before = self._begun()
            began_s = time.monotonic()
            dead.kill("supervisor")
            dead.kill("daemon")
            self._lines.forget(broker)
            draft = home.draft("sh", "-c", PROBE, "probe", str(self.begun_file), output=os.devnull)
            client.submit(draft)
            until(lambda: self._begun() > before, "a match", 0.01)
            return time.monotonic() - began_s

    def _start_again(self, name: str) -> float:
        """Returns when its daemon began, on the monotonic clock."""
        machine = self.machines[name]
        machine.supervisor.wait()
        machine.begin()
        until(machine.runs_tasks, f"{name} to come up")
        return time.monotonic() - float(self._lines.to(name).status().up_s)

    def _news_s(self, name: str, before: int, began_s: float) -> Seconds:
        """How long after a machine began each of the others knew that it is there again."""
        others = [each for each in self.machines if each != name]

        def knows(client: Client) -> bool:
            return _incarnation(name)(client) > before

        return self._lines.moments_s(others, knows, began_s)

    # --- an ejection -----------------------------------------------------------------------------

    def eject(self, port: int) -> Seconds:
        """Eject the last machine, whose identity was stolen; when each of the others refused it."""
        first, *others, stolen = self.machines.values()
        stolen.leave_launcher()
        self._lines.forget(stolen.name)
        there = [each for each in (first, *others) if not each.is_outward_only]
        addresses = {each.name: f"{each.host}:{port}" for each in there}
        intruder = intruder_kit.ejected_one(stolen, addresses)
        intruder.await_belief()
        began_s = time.monotonic()
        first.as_root("eject", stolen.name, "--reason", "stolen")
        return [moment_s - began_s for moment_s in intruder.await_refusal().values()]

    def _begun(self) -> int:
        return self.begun_file.read_bytes().count(b"\n")


def _has_ejected(machine: str) -> Callable[[Client], bool]:
    return lambda client: any(row.machine == machine for row in client.ask(ShowCluster()).ejected)


def _incarnation(machine: str) -> Callable[[Client], int]:
    """What a machine knows of another's incarnation; 0 while it takes it for away."""

    def ask(client: Client) -> int:
        members = client.status().members
        named = [each.incarnation for each in members if each.name == machine]
        return max(named, default=0)

    return ask


def spread_figures(changes: list[Seconds]) -> dict[str, float]:
    """Until the last knew: over all changes; and over all machines that learned of one."""
    slowest = [max(each) for each in changes]
    every = [second for each in changes for second in each]
    return {
        "changes": len(changes),
        "all_know_p50_s": round(percentile(slowest, 50), 2),
        "all_know_p99_s": round(percentile(slowest, 99), 2),
        "all_know_max_s": round(max(slowest), 2),
        "one_knows_p50_s": round(percentile(every, 50), 2),
    }


def main() -> None:
    """Run the trial once; whoever wants pictures names a directory for them."""
    options = read_options(str(__doc__))
    count = QUICK_MACHINES if options.quick else MACHINES
    facts = machine_facts(Path(tempfile.gettempdir()))
    progress(f"{count} machines are founded, joined and started")
    with live_network(count) as (network, whole_s):
        trial = Trial(network, options)
        settle_s, rest_s = (1.0, 2.0) if options.quick else (SETTLE_S, REST_S)
        rest = rest_figures(network, settle_s, rest_s)
        progress(f"at rest: {rest}")
        documents = trial.documents()
        progress(f"documents: {spread_figures(documents)}")
        matched, members = trial.kill_brokers()
        refused = trial.eject(network_kit.PORT)
        progress(f"the last machine to refuse an ejected one did so after {max(refused):.1f} s")
    rng, reachable = Random(SEED), count - count // 3
    ideal = [ideal_spread_s(count, reachable, PERIOD_S, rng) for _ in range(IDEAL_RUNS)]
    result: dict[str, Any] = {
        "whole_s": round(whole_s, 1),
        "rest": rest,
        "change": {
            "document": spread_figures(documents),
            "member": spread_figures(members),
            "ideal": spread_figures(ideal),
        },
        "match": {
            "kills": len(matched),
            "kills_planned": trial.kills,
            "p50_s": round(percentile(matched, 50), 2),
            "p99_s": round(percentile(matched, 99), 2),
            "max_s": round(max(matched), 2),
        },
        "eject": {
            "machines": len(refused),
            "refused_p50_s": round(percentile(refused, 50), 2),
            "refused_max_s": round(max(refused), 2),
        },
        "goals": GOALS,
        "settings": {
            "runs": options.runs,
            "machines": count,
            "outward_only": count - reachable,
            "period_s": PERIOD_S,
        },
        "machine": facts,
    }
    result["judged"] = judge(result)
    if options.pictures is not None:
        every = {"document": documents, "member": members, "ideal": ideal}
        samples = {name: [s for each in rows for s in each] for name, rows in every.items()}
        draw_gossip(result, {**samples, "match": matched}, options.pictures)
        (options.pictures / "live-gossip.json").write_text(json.dumps(result, indent=2) + "\n")
    finish(result)


def judge(result: dict[str, Any]) -> str:
    """`ok`, or which goals were missed."""
    reached = {
        "match_p99_s": result["match"]["p99_s"],
        "refused_max_s": result["eject"]["refused_max_s"],
        "memory_mb": result["rest"]["rss_mb_max"],
        "cpu_percent_at_rest": result["rest"]["cpu_percent_mean"],
        "sent_bytes_per_s_at_rest": result["rest"]["sent_bytes_per_s_mean"],
    }
    missed = [
        f"{name} {reached[name]} > {goal}" for name, goal in GOALS.items() if reached[name] > goal
    ]
    kills, planned = result["match"]["kills"], result["match"]["kills_planned"]
    if kills < planned:
        missed.append(f"{kills} kills of {planned}")
    return ", ".join(missed) or "ok"


if __name__ == "__main__":
    main()
