"""`make run`: three accounts of two groups share this computer, drawn by lottery.

Starts a daemon in a temporary state directory, submits real work (compressing and hashing the
files of the Python standard library) in very different amounts, shows how it goes, and then who
got what: a table, and a picture of each account's share over time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from shares_picture import Ended, draw_shares, share_while_all_wait

from iriai.client import Client, draft
from iriai.wire.reports import ShareRow

CONFIGURATION = """\
# The state directory of a demonstration; see docs/guide/configuration.md for every key.
[machine]
name = "demo"

[groups.physics]
right = 1.0
[groups.physics.users]
ann = 1.0
bob = 1.0

[groups.biology]
right = 1.0
[groups.biology.users]
carol = 1.0

[order]
usage_floor_s = 1.0   # jobs here last a fraction of a second

[identity]
name_accounts = true  # one person plays three
minimum_uid = 0       # and may be root: this directory is thrown away
"""
TASKS = {"physics/ann": 240, "physics/bob": 60, "biology/carol": 80}
"""Ann asks for four times as much as Bob; it will not get her more while he waits."""
PARTS = 120
"""Into so many the library is cut; each task takes one."""
FILES_A_TASK = 24
PICTURE = Path("build/demo/shares.png")


def main() -> int:
    """Run the demonstration; returns the exit code."""
    console = Console()
    directory = tempfile.mkdtemp(prefix="iriai-demo-")
    Path(directory).chmod(0o711)  # root's daemon runs as a user of its own
    state = Path(directory) / "state"
    state.mkdir(mode=0o711)
    (state / "iriai.toml").write_text(CONFIGURATION)
    work = Path(directory) / "work"
    work.mkdir()
    console.print(f"Starting iriai in [bold]{state}[/] …")
    subprocess.run([*iriai(state, "up"), "--detach"], check=True)
    try:
        with Client.connect(state) as client:
            jobs = submit(client, work)
            wanted = {f"{row.group}/{row.user}": row for row in client.shares().rows}
            watch(client, jobs)
            report(console, client, jobs, wanted)
    finally:
        subprocess.run([*iriai(state, "down"), "--kill"], check=True)
    say_what_next(console, directory)
    return 0


def iriai(state: Path, command: str) -> list[str]:
    """The command line of this environment, on the demonstration's state directory."""
    return [str(Path(sys.executable).with_name("iriai")), command, "--state", str(state)]


def submit(client: Client, work: Path) -> dict[str, str]:
    """One array for each account; returns the job ids."""
    script = str(Path(__file__).with_name("compress.py"))
    command = [sys.executable, script, str(PARTS), str(FILES_A_TASK)]
    jobs = {}
    for account, tasks in TASKS.items():
        job = draft(
            command,
            cwd=work,
            name=f"compress-{account.split('/')[1]}",
            account=account,
            array=((0, tasks - 1, 1),),
        )
        jobs[account] = client.submit(job).id
    return jobs


def watch(client: Client, jobs: dict[str, str]) -> None:
    """A bar for each account, until all is done."""
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        TextColumn("{task.completed:>4.0f} of {task.total:.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        bars = {
            job: progress.add_task(account, total=TASKS[account]) for account, job in jobs.items()
        }
        open_jobs = dict(bars)
        while open_jobs:
            time.sleep(0.2)
            rows = {row.id: row for row in client.jobs()}
            for job, bar in list(open_jobs.items()):
                row = rows.get(job)
                done = progress.tasks[bar].total if row is None else row.succeeded + row.failed
                progress.update(bar, completed=done)
                if row is None:
                    del open_jobs[job]


def report(
    console: Console, client: Client, jobs: dict[str, str], wanted: dict[str, ShareRow]
) -> None:
    """The table and the picture."""
    ended = [
        Ended(account, attempt.started_wall_s or 0.0, attempt.ended_wall_s or 0.0)
        for account, job in jobs.items()
        for attempt in client.show(job).attempts
    ]
    got = share_while_all_wait(ended)
    sums = {f"{row.group}/{row.user}": row for row in client.usage().rows}
    table = Table(title="Who got what")
    for heading in (
        "account",
        "jobs",
        "CPU s",
        "share wanted",
        "share got*",
        "mean wait",
    ):
        table.add_column(heading, justify="left" if heading == "account" else "right")
    for account in jobs:
        row, share = sums[account], wanted[account].share_wanted or 0.0
        table.add_row(
            account,
            str(row.tasks),
            f"{row.cpu_s:.1f}",
            f"{share:.0%}",
            f"{got[account]:.0%}",
            f"{row.waited_s:.1f} s",
        )
    console.print(table)
    console.print("* of the cpu time given out while all three had something to run")
    draw_shares(ended, {name: row.share_wanted or 0.0 for name, row in wanted.items()}, PICTURE)
    console.print(f"Each account's share over time: [bold]{PICTURE.resolve()}[/]")


def say_what_next(console: Console, directory: str) -> None:
    """What a newcomer may try."""
    command = Path(sys.executable).with_name("iriai")
    lines = [
        "",
        f"Nothing is left running; what was stored is in {directory}.",
        f"Next, with a daemon of your own ({command}):",
        "  [bold]iriai up --detach[/]                      start it",
        "  [bold]iriai run -- echo hello[/]                run something and see its output",
        "  [bold]iriai submit --array 1-20 -- sleep 2[/]   hand in twenty tasks",
        "  [bold]iriai jobs[/], [bold]why JOB[/], [bold]shares[/]            what runs or waits",
        "  [bold]iriai down[/]                             stop it",
        "docs/guide tells more, task by task.",
    ]
    console.print("\n".join(lines), soft_wrap=True, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
