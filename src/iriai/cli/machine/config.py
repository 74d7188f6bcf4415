"""`iriai config`: show the configuration, and edit the part that the cluster shares."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from iriai.cli.framework.command import CommandGroup, GlobalOptions, option
from iriai.cli.framework.table import Column, print_table
from iriai.client.client import Client
from iriai.config.cluster_part import parse_cluster_configuration
from iriai.config.reader import BadConfiguration
from iriai.model.problem import Problem, Refused, UsageProblem
from iriai.wire.joining import ClusterReport, ShowCluster
from iriai.wire.reports import Setting, ShowConfiguration

FIRST = """\
# The configuration of cluster {cluster}: what all of its machines agree on.
# What is not said here, iriai.toml of each machine decides. For example:
#
# [groups.physics]
# right = 2
#
# [groups.physics.users]
# ann = 1
#
# [order]
# half_life_s = "7d"
"""


def edit(
    options: GlobalOptions,
    file: str = option(
        "",
        metavar="FILE",
        help="Read the text from a file ('-': standard input) instead of opening an editor.",
    ),
) -> None:
    """Edit the configuration that all machines of the cluster share.

    Opens it in $VISUAL or $EDITOR, checks it, signs it with your operator's key, and gives it the
    next number. Every machine uses it as soon as it arrives; tasks go on meanwhile.
    """
    with options.connect(follow=False) as client:
        report = client.ask(ShowCluster())
        if not report.cluster:
            raise Refused(
                "no-cluster",
                "this machine is in no cluster, so there is no shared configuration",
                f"edit its own configuration: {client.welcome.state_directory}/iriai.toml",
            )
        text = _new_text(report, file)
        if text == report.document:
            number, state = report.document_number, "unchanged"
        else:
            _publish(client, report, text)
            number = report.document_number + 1
            state = "in force here; others go by it as they hear of it"
    options.print_result({"number": number, "state": state}, f"Document {number} is {state}.")


def _publish(client: Client, report: ClusterReport, text: str) -> None:
    from iriai.cli.cluster.operator_session import open_operator, publish_signed
    from iriai.identity.documents.cluster_document import document_body

    body = document_body(report.document_number + 1, time.time(), text)
    publish_signed(client, open_operator(client, report), "configuration", body)


def _new_text(report: ClusterReport, file: str) -> str:
    """Return the new configuration. Raises a `Problem` if it is invalid."""
    where = f"cluster document {report.document_number + 1}"
    if file:
        text = sys.stdin.read() if file == "-" else _read(Path(file))
        parse_cluster_configuration(text, where)
        return text
    return _edited(report.document or FIRST.format(cluster=report.cluster), where)


def _edited(text: str, where: str) -> str:
    """Return `text` as edited by a person; an error is reported, and they may go on."""
    with tempfile.TemporaryDirectory(prefix="iriai-") as directory:
        path = Path(directory) / "cluster.toml"
        path.write_text(text, encoding="utf-8")
        while True:
            _run_editor(path)
            changed = _read(path)
            try:
                parse_cluster_configuration(changed, where)
            except BadConfiguration as problem:
                if not sys.stdin.isatty():
                    raise
                print(f"iriai: {problem}", file=sys.stderr)
                import typer

                if not typer.confirm("Edit again?", default=True):
                    raise
            else:
                return changed


def _run_editor(path: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), str(path)], check=False)
    except (OSError, ValueError) as error:
        raise UsageProblem(
            "no-editor",
            f"the editor '{editor}' cannot be run ({error})",
            "set EDITOR to an existing program, or give the text with --file",
        ) from None
    if done.returncode:
        raise Problem("editor-failed", f"'{editor}' exited with {done.returncode}: nothing changed")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(
            "unreadable", f"{path} cannot be read ({error})", "give a file of UTF-8 text"
        ) from None


_COLUMNS: tuple[Column[Setting], ...] = (
    Column("Key", lambda row: row.key, style="bold"),
    Column("Value", lambda row: row.value, folds=True),
    Column("From", lambda row: row.source, style="dim", folds=True),
)


def show(options: GlobalOptions) -> None:
    """Show the values in force, and the source of each.

    The source is iriai.toml, the cluster's document with its number, measured, or default.
    """
    answer = options.ask(ShowConfiguration(), follow=False)
    options.print_result(answer, lambda: print_table(_COLUMNS, answer.settings))


app = CommandGroup(
    "Show or edit the configuration: iriai.toml in the state directory, and the shared part.",
    {
        show: (
            ("iriai config show", "every key"),
            ("iriai config show | grep -v default", "what was set or measured"),
        ),
        edit: (
            ("iriai config edit", "in your editor"),
            ("iriai config edit --file rights.toml", "from a file"),
        ),
    },
)
