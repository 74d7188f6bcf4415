"""Real daemons in network namespaces that lose their broker, nodes, a home and the network.

A third of the machines accepts no connections; all that they say passes a switch that holds each
frame back for 50 ms and loses one in a hundred. Tasks of several homes, one of them behind a
firewall, write themselves into a file outside, by which it is judged whether each ran to its end,
once. `whole_s`: until all see all. `rest`: what each machine uses before there is work. The machine
that is the broker, three others and a home are killed with all their processes, and started again
when it was seen what that does; the broker is stopped; a third of the machines is cut off, with the
broker and a home among them. For each blow `went_on_s` is the longest time in which no task began
anywhere, and `others_paused_s` the same of any single home that was not hurt; `calm` has both while
nothing was. `whole_again_s`: after the network was healed, until all saw all again. Needs root.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from harness.at_rest import rest_figures
from harness.blows import Trial, account_each
from harness.live_network import live_network
from harness.options import Options, read_options
from harness.report import as_number, finish, machine_facts, progress

MACHINES, QUICK_MACHINES = 20, 4
HOMES, QUICK_HOMES = 5, 2
TASKS, QUICK_TASKS = 10_000, 300
"""Thirty begin each second: enough for all blows, so that the last of them finds a queue too."""
NODES, QUICK_NODES = 3, 1
"""That are killed together."""
CPUS = 3
TASK_S = 2.0
STOP_S = 30.0
SPLIT_S = 60.0
WATCH_S, QUICK_WATCH_S = 15.0, 4.0
"""After a blow is over: what it does shows within this time."""
SETTLE_S = 20.0
REST_S = 60.0
DELAY_S = 0.05
LOSS = 0.01
LEASE = "lease_s = 30"
GOAL_S = 10.0
"""For the queue to go on, and every home's that was not hurt, whatever dies."""
CALM = "calm"
WITHOUT_BROKER = {"nodes were killed", "a home was killed"}
"""Blows that leave the broker alone, and need not be noticed by any other home."""
LATER_S = 3.0
"""For those: by so much a home may pause longer than when all was calm, where twenty daemons share
two processors and some of them start anew."""


def strike(trial: Trial, options: Options) -> float:
    """All blows, one after the other, while tasks run; how long the healing took."""
    nodes = QUICK_NODES if options.quick else NODES
    trial.blow(CALM, list)
    trial.blow("the broker was killed", lambda: trial.kill(trial.broker()), trial.start_again)
    trial.blow("nodes were killed", lambda: trial.kill_nodes(nodes), trial.start_again)
    trial.blow("a home was killed", trial.kill_home)
    if not options.quick:
        trial.blow("the broker was stopped", lambda: trial.stop_broker(STOP_S))
        trial.blow("the network was split", lambda: trial.split(SPLIT_S))
    return trial.whole_again_s()


def judge(pauses: dict[str, dict[str, object]]) -> str:
    """`ok`, or after which blows the queue or another home did not go on in time."""
    calm_s = as_number(pauses[CALM]["others_paused_s"])
    late = []
    for what, each in pauses.items():
        limit_s = min(GOAL_S, calm_s + LATER_S) if what in WITHOUT_BROKER else GOAL_S
        if as_number(each["went_on_s"]) > GOAL_S:
            late.append(f"no task began for over {GOAL_S:.0f} s when {what}")
        if as_number(each["others_paused_s"]) > limit_s:
            late.append(f"another home paused for over {limit_s:.0f} s when {what}")
    return ", ".join(late) or "ok"


def main() -> None:
    """Run the trial once: it is judged, not measured to the millisecond."""
    options = read_options(str(__doc__))
    facts = machine_facts(Path(tempfile.gettempdir()))
    count = QUICK_MACHINES if options.quick else MACHINES
    homes = QUICK_HOMES if options.quick else HOMES
    tasks = options.tasks(TASKS, QUICK_TASKS)
    more = account_each(count)
    with live_network(count, cpus=CPUS, jobs=LEASE, more=more, delay_s=DELAY_S, loss=LOSS) as made:
        network, whole_s = made
        settle_s, rest_s = (1.0, 2.0) if options.quick else (SETTLE_S, REST_S)
        rest = rest_figures(network, settle_s, rest_s)
        progress(f"at rest: {rest}")
        began_s = time.monotonic()
        watch_s = QUICK_WATCH_S if options.quick else WATCH_S
        trial = Trial(network, homes, tasks, TASK_S, watch_s)
        whole_again_s = strike(trial, options)
        progress(f"all see all again, {whole_again_s:.1f} s after the last blow")
        counts = trial.count()
        finished_s = time.monotonic() - began_s
        pauses = trial.pauses()
    finish(
        {
            "whole_s": round(whole_s, 1),
            "rest": rest,
            "finished_s": round(finished_s, 1),
            "blows": pauses,
            "whole_again_s": round(whole_again_s, 1),
            "counts": counts,
            "judged": judge(pauses),
            "settings": {
                "runs": 1,
                "machines": count,
                "outward_only": count - len(trial.open),
                "homes": list(trial.judges),
                "delay_s": DELAY_S,
                "loss": LOSS,
                "task_s": TASK_S,
                "stop_s": STOP_S,
                "split_s": SPLIT_S,
            },
            "machine": facts,
        }
    )


if __name__ == "__main__":
    main()
