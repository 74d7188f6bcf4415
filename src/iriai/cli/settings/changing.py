"""What `queue`, `pool` and `gang` do: the store keeps a change, in a cluster the next document."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from iriai.cli.framework.command import GlobalOptions
from iriai.cli.framework.standard_streams import remark
from iriai.cli.framework.table import count_text
from iriai.model.problem import Problem
from iriai.wire.joining import ShowCluster
from iriai.wire.machines import AskPools, AskQueues, SetSection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iriai.client.client import Client
    from iriai.config.live_settings import LiveChange
    from iriai.wire.joining import ClusterReport

TRIES = 10
"""How often another operator may be faster."""
OVERTAKEN = "document-overtaken"


def change(options: GlobalOptions, section: str, name: str, given: Iterable[str]) -> None:
    """Set keys of a section (`KEY=VALUE`), or without any forget what was set of it."""
    from iriai.config.console_lines import setting_in
    from iriai.config.live_settings import checked

    wanted = checked(section, name, map(setting_in, given))
    with options.connect(follow=False) as client:
        report = client.ask(ShowCluster())
        if report.cluster:
            number = _publish(client, report, wanted)
            where = f"in document {number} of cluster {report.cluster}"
            if not number:
                where = f"cluster {report.cluster} has no document yet"
        else:
            client.ask(SetSection(section, name, wanted.settings))
            number, where = None, "kept by this machine"
        if section == "pools" and wanted.settings:
            _remark_unknown(client, name)
    document = {
        "section": section,
        "name": name,
        "settings": dict(wanted.settings),
        "document": number,
    }
    words = str(wanted)
    options.print_result(document, f"{words[0].upper()}{words[1:]} ({where}).")


def _remark_unknown(client: Client, pool: str) -> None:
    """Say that no machine is in a pool, whose name may be wrong; nothing if that is not known."""
    with suppress(Problem):
        table = client.ask(AskPools())
        if not table.note and all(row.name != pool for row in table.rows):
            remark(f"no machine is in pool {pool} at present; 'iriai pools' lists those that are")


def _publish(client: Client, report: ClusterReport, wanted: LiveChange) -> int:
    """Publish the next document with a change in it; return the number of that in force."""
    from iriai.cli.cluster.operator_session import open_operator, publish_signed
    from iriai.config.document_editing import edited
    from iriai.identity.documents.cluster_document import document_body

    operator = open_operator(client, report)
    for tried in range(1, TRIES + 1):
        text = edited(report.document, wanted)
        if text == report.document:
            break
        if not wanted.settings:
            _check_stays(client, wanted, text)
        number = report.document_number + 1
        try:
            publish_signed(
                client, operator, "configuration", document_body(number, time.time(), text)
            )
        except Problem as problem:
            if problem.code != OVERTAKEN or tried == TRIES:
                raise
            remark(f"{problem.message}: set again in that")
            report = client.ask(ShowCluster())
        else:
            return number
    return report.document_number


def _check_stays(client: Client, wanted: LiveChange, text: str) -> None:
    """Raise `Refused` if the queue would be gone, and jobs are in it."""
    from iriai.config.cluster_part import parse_cluster_configuration
    from iriai.config.live_settings import check_stays

    def inside(queue: int) -> list[str]:
        found = []
        for row in client.ask(AskQueues()).rows:
            if row.number == queue and row.jobs:
                found.append(f"{count_text(row.jobs, 'job')} waiting")
            if row.number == queue and row.running:
                found.append(f"{count_text(row.running, 'task')} running")
        return found

    check_stays(parse_cluster_configuration(text, "the next document"), wanted, inside)
