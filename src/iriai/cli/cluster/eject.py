"""`iriai eject`: remove a machine from the cluster."""

from __future__ import annotations

import time

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.model.units import printable
from iriai.wire.joining import ShowCluster

REASON_LENGTH_MAX = 200
"""As `identity.documents.revocation` has it: a line for people."""


def eject(
    options: GlobalOptions,
    node: str = argument(..., metavar="NODE", help="The machine.", autocompletion="complete_node"),
    reason: str = option("", metavar="TEXT", help="Why; shown to everyone who asks."),
    anyway: bool = option(
        False, "--anyway", help="Eject a machine that is not known here, or this machine itself."
    ),
) -> None:
    """Remove a machine from the cluster: all others refuse it from now on.

    For operators. Its running tasks are lost and rerun elsewhere. To let it in again, make a new
    token and let it join. If it is an issuer, all machines that it signed are refused too.
    """
    import msgspec

    from iriai.cli.cluster.operator_session import open_operator, publish_signed
    from iriai.identity.documents.revocation import Ejection

    if len(reason) > REASON_LENGTH_MAX:
        raise UsageProblem("bad-reason", "the reason is too long", "write one short line")
    with options.connect(follow=False) as client:
        report = client.ask(ShowCluster())
        if not report.cluster:
            raise Refused(
                "no-cluster",
                "this machine is in no cluster",
                "run the command on a member of the cluster",
            )
        if not anyway:
            _check(node, report.machine, report.machines)
        operator = open_operator(client, report)
        body = msgspec.msgpack.encode(Ejection(node, time.time(), reason))
        publish_signed(client, operator, "ejection", body)
    options.print_result(
        {"machine": node, "reason": reason},
        f"{printable(node)} is ejected: each member refuses it as soon as the news reaches it.",
    )


def _check(node: str, own: str, machines: tuple[str, ...]) -> None:
    if node == own:
        raise Refused(
            "own-machine",
            f"{node} is this machine",
            "'iriai leave' takes it out; to eject it, do it on another member, or use --anyway",
        )
    if node not in machines:
        raise NotFound(
            "no-such-machine",
            f"no machine {node} is known here",
            f"known are: {', '.join(machines)}; use --anyway to eject a name that is not known",
        )


app = Command(
    eject,
    ("iriai eject momo --reason 'stolen from the office'", "no member talks to it any more"),
)
