"""`iriai leave`: take this machine out of its cluster."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.model.paths import StatePaths
from iriai.model.problem import NotAllowed, Refused
from iriai.wire.joining import Leave, ShowCluster


def leave(
    options: GlobalOptions,
    anyway: bool = option(
        False, "--anyway", help="Leave although this machine signs others for the cluster."
    ),
) -> None:
    """Take this machine out of its cluster. It keeps its jobs; what it runs for others is lost.

    Drain it first if that matters. An operator's key stays where it is.
    """
    with options.connect(follow=False) as client:
        report = client.ask(ShowCluster())
        paths = StatePaths(client.welcome.state_directory)
        _check(report.cluster, paths, is_issuer=report.is_issuer and not anyway)
        client.ask(Leave())
        left = Path(f"{paths.cluster}.left")  # gone at once, whatever happens while it is removed
        shutil.rmtree(left, ignore_errors=True)
        Path(paths.cluster).rename(left)
        shutil.rmtree(left)
        client.reload_identity()
    options.print_result(
        {"machine": report.machine, "cluster": report.cluster},
        f"{report.machine} is no longer in cluster {report.cluster}.",
    )


def _check(cluster: str, paths: StatePaths, *, is_issuer: bool) -> None:
    if not cluster:
        raise Refused("no-cluster", "this machine is in no cluster", "there is nothing to leave")
    if Path(paths.directory).stat().st_uid != os.geteuid():
        raise NotAllowed(
            "not-the-owner",
            f"{paths.directory} belongs to another user",
            "do it as its owner: as root, for the machine's own daemon",
        )
    if is_issuer:
        raise Refused(
            "still-an-issuer",
            "this machine signs others for the cluster: without it they cannot renew their "
            "certificates, unless another does ('iriai token --machine NAME --issuer')",
            "use --anyway if another does, or if this is the end of the cluster",
        )


app = Command(
    leave,
    ("iriai drain --reason 'leaves the cluster'", "first let running tasks end"),
    ("iriai leave", "then leave"),
)
