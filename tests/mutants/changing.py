"""Small mistakes about what policies change; each is found from a seed with such a policy."""

from __future__ import annotations

from iriai.home import node_sessions
from iriai.home.node_sessions import NodeSessions
from iriai.home.proposals import HomeProposals
from iriai.home.request_publisher import RequestPublisher
from iriai.machine import core as machine_core
from iriai.model.policy_terms import JobAction, PolicyTerms
from iriai.model.state import EndCause
from iriai.protocol.delivery.authorization import BROKER_ONLY
from iriai.protocol.messages.proposals import Propose
from tests.mutants.mutants import Patch, around, instead

_OTHERS = tuple(each for each in BROKER_ONLY if each is not Propose)


def _with_all(whole, proposals, propose, terms):
    whole(proposals, propose, terms._replace(may=tuple(JobAction)))


def _whoever_holds_it(proposals, _job_id, job, by):
    proposals._changer.release(job.number, by, is_operator=True)


def _with_any_limit(whole, terms, spec, changes):
    whole_terms = terms._replace(
        queues=tuple(each._replace(time_limit_max_s=1e6) for each in terms.queues)
    )
    return whole(whole_terms, spec, changes)


def _if_cancelled(whole, nodes, attempt, job):
    task = job.tasks[attempt.index]
    leaving, task.is_leaving = task.is_leaving, False
    whole(nodes, attempt, job)
    task.is_leaving = leaving


def _tells_nothing(whole, publisher, *args):
    """Of held jobs."""
    permitted, publisher._policy_may = publisher._policy_may, ()
    whole(publisher, *args)
    publisher._policy_may = permitted


CHANGING: dict[str, Patch] = {
    "a home obeys a policy without leave": around(HomeProposals, "_obey", _with_all),
    "a home obeys whoever proposes": instead(machine_core, "BROKER_ONLY", _OTHERS),
    "a policy releases what a person held": instead(HomeProposals, "_release", _whoever_holds_it),
    "a policy prolongs what its user limited": around(PolicyTerms, "alteration", _with_any_limit),
    "what is requeued is cancelled": instead(
        node_sessions, "_cause_of_stop", lambda _task: EndCause.CANCELLED
    ),
    "a task that is to leave is told so once": around(
        NodeSessions, "_stop_if_ending", _if_cancelled
    ),
    "a broker hears nothing of held jobs": around(RequestPublisher, "_publish", _tells_nothing),
}
"""By what is wrong."""
