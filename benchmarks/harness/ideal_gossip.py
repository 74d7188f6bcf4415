"""How fast gossip could be: push-pull in rounds, when nothing takes time and nothing is lost."""

from __future__ import annotations

from random import Random


def ideal_spread_s(machines: int, reachable: int, period_s: float, rng: Random) -> list[float]:
    """Return after how long each machine knew of a change at one, the slowest last.

    Each begins an exchange once a period, at a moment of its own, with a random one of the first
    `reachable`; an exchange takes no time, and both know afterwards what either knew (Demers et
    al., Epidemic Algorithms for Replicated Database Maintenance, PODC 1987, section 1.3).
    """
    moments = sorted((rng.random() * period_s, machine) for machine in range(machines))
    knows = {rng.randrange(machines): 0.0}
    rounds = 0
    while len(knows) < machines:
        for moment_s, machine in moments:
            other = rng.randrange(reachable - 1)
            other += other >= machine
            if (machine in knows) != (other in knows):
                newcomer = other if machine in knows else machine
                knows[newcomer] = rounds * period_s + moment_s
        rounds += 1
    return sorted(knows.values())
