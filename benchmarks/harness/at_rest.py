"""What daemons use while nothing is asked of them."""

from __future__ import annotations

import time

from harness.live_network import Network
from harness.processes import cpu_s, pss_mb, rss_mb

PARTS = ("daemon", "launcher")


def rest_figures(network: Network, settle_s: float, rest_s: float) -> dict[str, float]:
    """Wait for `settle_s`, then look for `rest_s` at daemon and launcher of each machine.

    Bytes are those of Ethernet frames, as the switch sees them.
    """
    time.sleep(settle_s)
    machines, switch = network.machines, network.switch
    pids = {name: [each.pid(part) for part in PARTS] for name, each in machines.items()}
    cpu_before = {name: cpu_s(each) for name, each in pids.items()}
    sent_before, began_s = switch.bytes_from.copy(), time.monotonic()
    time.sleep(rest_s)
    took_s = time.monotonic() - began_s
    sent = [(switch.bytes_from[name] - sent_before[name]) / took_s for name in machines]
    cpu = [(cpu_s(each) - cpu_before[name]) / took_s for name, each in pids.items()]
    rss, pss = ([of(each) for each in pids.values()] for of in (rss_mb, pss_mb))
    return {
        "measured_s": round(took_s, 1),
        "cpu_percent_mean": round(100 * sum(cpu) / len(cpu), 2),
        "cpu_percent_max": round(100 * max(cpu), 2),
        "cpus_in_sum": round(sum(cpu), 2),
        "sent_bytes_per_s_mean": round(sum(sent) / len(sent), 0),
        "sent_bytes_per_s_max": round(max(sent), 0),
        "rss_mb_max": round(max(rss), 1),
        "pss_mb_max": round(max(pss), 1),
        "pss_mb_mean": round(sum(pss) / len(pss), 1),
    }
