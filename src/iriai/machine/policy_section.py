"""What the configuration of a home lets the policy of its cluster do with its jobs."""

from __future__ import annotations

from iriai.config.reader import Configuration
from iriai.config.sections import QueueSection
from iriai.model.policy_terms import PolicyTerms, QueueTerms


def policy_terms(configuration: Configuration) -> PolicyTerms:
    """Return the terms; queues matter only where a policy may do something."""
    may = configuration.jobs.policy_may
    if not may:
        return PolicyTerms()
    queues = []
    for number in range(configuration.queue_count):
        queue = configuration.queue(number) or QueueSection(state="disabled")
        terms = QueueTerms(queue.state != "disabled", queue.group, queue.time_limit_max_s)
        queues.append(terms)
    return PolicyTerms(may, tuple(queues))
