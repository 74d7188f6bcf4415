"""`iriai queues`: the queues of the cluster, the first to be served first."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import Column, print_table, span_text
from iriai.wire.machines import AskQueues, QueueRow


def _limit_text(limit_s: float | None) -> str:
    return "" if limit_s is None else span_text(limit_s)


def _mode_text(row: QueueRow) -> str:
    return "" if row.mode == "shared" else row.mode


def _charge_text(row: QueueRow) -> str:
    return "" if row.charge_factor == 1 else f"{row.charge_factor:g}"


def _part_text(percent: float | None) -> str:
    return "" if percent is None else f"{percent:g} %"


COLUMNS: tuple[Column[QueueRow], ...] = (
    Column("Queue", lambda row: str(row.number), style="bold", right=True),
    Column("State", lambda row: row.state),
    Column("Group", lambda row: row.group or "all"),
    Column("Yours", lambda row: "yes" if row.is_usable else "no"),
    Column("Mode", _mode_text),
    Column("Time", lambda row: _limit_text(row.time_limit_s), right=True),
    Column("At most", lambda row: _limit_text(row.time_limit_max_s), right=True),
    Column("Cpu time", lambda row: _limit_text(row.cpu_limit_s), right=True),
    Column("Memory", lambda row: _part_text(row.memory_percent), right=True),
    Column("Disk", lambda row: _part_text(row.disk_percent), right=True),
    Column("Residence", lambda row: _limit_text(row.residence_s), right=True),
    Column("Charge", _charge_text, right=True),
    Column("Jobs", lambda row: str(row.jobs), right=True),
    Column("Tasks", lambda row: str(row.waiting), right=True),
    Column("Running", lambda row: str(row.running), right=True),
    Column("Longest", lambda row: span_text(row.longest_wait_s) if row.jobs else "", right=True),
)


def queues(options: GlobalOptions) -> None:
    """List the queues. What waits in queue 0 comes first; each takes what those before leave.

    State: an active queue takes jobs and starts them; enabled takes them and starts none; disabled
    takes none, and what is in it goes on. Yours says whether you may use it. Time is the time limit
    of a job there that names none, At most the longest that one may ask for, Cpu time the most that
    a task may use, Memory and Disk the part of a machine's that a job may. Mode says which running
    tasks stand while a higher queue needs their cpus (exclusive), or also take turns (gang); where
    it is empty they go on. Residence is how long a task runs before it goes on in the next queue,
    Charge what its time costs, 1 where it is empty. Jobs and Tasks wait, Running counts tasks
    that run or are frozen; Longest is how long the first has waited. What waits long counts in a
    higher queue: see age_s in the section order of the configuration.
    """
    table = options.ask(AskQueues(), follow=False)
    if options.as_json:
        print_document(table)
        return
    print_table(COLUMNS, table.rows)
    if table.note:
        remark(table.note)


app = Command(
    queues,
    ("iriai queues", "all queues of the cluster"),
    ("iriai submit --queue 1 -- ./nightly", "a job that lets those of queue 0 go first"),
    ("iriai queues --json", "for a program"),
)
