"""`iriai status`: the state of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.framework.standard_streams import error_document, print_document
from iriai.cli.framework.table import amount_text, count_text, print_pairs, size_text, span_text
from iriai.cli.machine.without_daemon import AWAY_CODES, outage_in
from iriai.model.problem import Unreachable
from iriai.wire.machines import LinkRow, MemberRow
from iriai.wire.reports import ClusterSight, LimitedRow, Status, StatusReport

if TYPE_CHECKING:
    from iriai.state.outage import Outage


def status(options: GlobalOptions) -> int | None:
    """Show the state of the machine: its processes, what is free, what waits, what is wrong.

    While the daemon is away: since when, why, and when the next one starts.
    """
    try:
        report = options.ask(Status(), follow=False)
    except Unreachable as problem:
        if problem.code not in AWAY_CODES:
            raise
        outage = outage_in(options.local_directories())
        if outage is None:
            raise
        return _report_outage(options, *outage)
    options.print_result(report, lambda: _print(report))
    return None


def _print(report: StatusReport) -> None:
    print_pairs(
        [
            ("machine", f"{report.home}, up {span_text(report.up_s)}, iriai {report.version}"),
            ("for", _audience(report.mode)),
            ("parts", ", ".join(report.parts)),
            *_cluster(report),
            ("links", "\n".join(map(_link, report.links))),
            ("jobs", jobs_text(report)),
            ("free", _free(report)),
            ("load", f"{report.load:.2f}"),
            ("order", report.order),
            ("processes", _processes(report)),
            ("state", report.state_directory),
            ("socket", report.socket),
            ("limited", "\n".join(map(_limited, report.limited))),
            ("trouble", "\n".join(report.trouble)),
        ]
    )


def _report_outage(
    options: GlobalOptions, outage: Outage, problem: Unreachable, last_line: str
) -> int:
    if not options.as_json:
        raise problem
    document = outage._asdict() | {"last_line": last_line}
    print_document({"error": error_document(problem), "outage": document})
    return problem.exit_code


def _cluster(report: StatusReport) -> list[tuple[str, str]]:
    """Return what the machine sees of its cluster; nothing outside of one."""
    sight = report.cluster
    if sight is None:
        return []
    counts = ", ".join(f"{count} {state}" for state, count in sight.members.items() if count)
    sent, received = (
        f"{size_text(round(rate)) if rate >= 1 else '0'}/s"
        for rate in (sight.sent_bytes_per_s, sight.received_bytes_per_s)
    )
    refused = ", ".join(f"{count} {rule}" for rule, count in sight.claims_refused.items())
    return [
        ("cluster", f"{sight.name}: {counts}"),
        ("broker", ", ".join(sight.brokers)),
        ("there", f"{sight.steadiness * 100:.0f} % of the time (used to choose the broker)"),
        ("news", _news(sight)),
        ("traffic", f"{sent} sent, {received} received"),
        ("claims", f"{count_text(sight.begun, 'attempt')} started; refused: {refused or 'none'}"),
        ("clocks", _clocks(sight)),
        ("members", "\n".join(map(_member, report.members))),
    ]


def _news(sight: ClusterSight) -> str:
    if sight.news_half_s is None or sight.news_late_s is None or sight.news_rounds is None:
        return "none yet"
    late = f"{sight.news_late_s:.1f} s ({sight.news_rounds:.1f} rounds)"
    return f"half of it arrives within {sight.news_half_s:.1f} s, 95 % within {late}"


def _clocks(sight: ClusterSight) -> str:
    if sight.offset_worst_s is None:
        return "no other machine's clock is known"
    return f"{sight.offset_machine} differs most, by {sight.offset_worst_s:+.3f} s"


def _audience(mode: str) -> str:
    words = {"system": "every user of the machine", "single-user": "you alone"}
    return f"{words[mode]} ({mode})" if mode in words else mode


def jobs_text(report: StatusReport) -> str:
    """Return how many jobs and tasks there are."""
    tasks = f"{report.active:,} active, {report.waiting:,} waiting"
    return f"{count_text(report.jobs, 'job')} not finished; tasks: {tasks}"


def _free(report: StatusReport) -> str:
    return "\n".join(
        f"{amount_text(name, report.free.get(name, 0))} of {amount_text(name, there).split(' ')[0]}"
        for name, there in report.capacity.items()
    )


def _link(link: LinkRow) -> str:
    state = "" if link.is_up else "down "
    words = [f"{link.machine or 'front end'}: {state}{link.words}"]
    if link.way == "relay":
        words.append("through a relay")
    if link.sent_bytes or link.received_bytes:
        sent, received = size_text(link.sent_bytes), size_text(link.received_bytes)
        words.append(f"{sent} sent, {received} received")
    if link.offset_s is not None:
        words.append(f"clock {link.offset_s:+.3f} s (within {link.offset_error_s:.3f} s)")
    return ", ".join(words)


def _member(member: MemberRow) -> str:
    state = "" if member.state == "alive" else f", {member.state}"
    where = "only connects outwards" if member.is_outward_only else ", ".join(member.addresses)
    cluster = f", in {member.cluster_name}" if member.cluster_name else ""
    return f"{member.name}: {where}{cluster}{state}"


def _limited(row: LimitedRow) -> str:
    return f"{row.user}: {count_text(row.times, 'time')} by {row.limit}"


def _processes(report: StatusReport) -> str:
    parts = (
        ("daemon", report.daemon_pid),
        ("launcher", report.launcher_pid),
        ("supervisor", report.supervisor_pid),
    )
    return ", ".join(f"{name} {pid or 'none'}" for name, pid in parts)


app = Command(
    status,
    ("iriai status", "the daemon that answers"),
    ("iriai status --json", "for programs: daemon_pid, launcher_pid, free, …"),
)
