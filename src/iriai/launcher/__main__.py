"""`python -m iriai.launcher`: the privileged process; started by `iriai up` or a service manager.

It ends with 0 when it was shut down, with 1 when it cannot begin; the reason is the last line on
standard error. SIGTERM and SIGINT shut it down as `ShutDown` does: tasks cannot outlive it, since
nobody would enforce their limits, and the next launcher would end them anyway.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys

import msgspec

from iriai.launcher.admission import Admission
from iriai.launcher.groups.choose import Choice, choose
from iriai.launcher.journal import DamagedJournal, Journal
from iriai.launcher.kernel import become_subreaper, boot_id
from iriai.launcher.launcher import Launcher
from iriai.launcher.payloads import Payloads
from iriai.launcher.probe import enforcement
from iriai.launcher.recovery import recover
from iriai.launcher.server import Server, listen
from iriai.launcher.spawn import Spawner, find_helper
from iriai.launcher.spool import Spool
from iriai.launcher.state import StateDirectory, StateProblem
from iriai.launcher.tasks import Tasks
from iriai.launcher.timers import Timers
from iriai.launcher.users import Users

log = logging.getLogger("iriai.launcher")

MINIMUM_UID = 1000
"""Where ordinary users begin on Linux distributions."""


def main(arguments: list[str] | None = None) -> int:
    """Run the launcher, or print what it would enforce; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s launcher %(levelname)s %(message)s")
    _fill_standard_descriptors()
    if options.probe:
        return _probe(options)
    if not options.state or not options.socket:
        log.error("--state and --socket are needed")
        return 2
    try:
        return _run(options)
    except (StateProblem, DamagedJournal) as problem:
        log.error("%s", problem)  # noqa: TRY400  # the text says all; a traceback hides it
        return 1
    except OSError:
        log.exception("cannot go on")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m iriai.launcher", description=__doc__)
    parser.add_argument("--state", metavar="DIR", help="state directory")
    parser.add_argument("--socket", metavar="PATH", help="where the daemon connects")
    parser.add_argument(
        "--daemon-uid", metavar="UID", type=int, default=os.geteuid(), help="who may connect"
    )
    parser.add_argument(
        "--minimum-uid",
        metavar="N",
        type=int,
        default=MINIMUM_UID,
        help="run nothing for users below; 0 permits root",
    )
    parser.add_argument(
        "--isolation",
        choices=("auto", "v1", "v2", "none"),
        default="auto",
        help="which control groups may be used",
    )
    parser.add_argument(
        "--helper",
        choices=("auto", "c", "python"),
        default="auto",
        help="the program between launcher and task",
    )
    parser.add_argument("--probe", action="store_true", help="print what is enforced, as JSON")
    return parser


def _probe(options: argparse.Namespace) -> int:
    choice = choose(f"iriai-probe-{os.getpid()}", options.isolation)
    rows = enforcement(choice, find_helper(options.helper))
    choice.enclosures.close()
    table = [{"limit": row.limit, "by": row.by, "note": row.note} for row in rows]
    os.write(1, msgspec.json.encode(table) + b"\n")
    return 0


def _run(options: argparse.Namespace) -> int:
    become_subreaper()
    state = StateDirectory(options.state, options.daemon_uid)
    journal = Journal(state.private_fd)
    choice = choose(f"iriai-{state.name}", options.isolation)
    recover(journal, boot_id(), choice.parents, state.name)
    listening = listen(options.socket, options.daemon_uid)
    server = Server(options.daemon_uid)
    launcher = _assemble(options, state, journal, choice, server)
    log.info("ready: pid %d, state %s", os.getpid(), state.path)
    server.serve(launcher, listening)
    choice.enclosures.close()
    os.unlink(options.socket)
    log.info("everything has ended")
    return 0


def _assemble(
    options: argparse.Namespace,
    state: StateDirectory,
    journal: Journal,
    choice: Choice,
    server: Server,
) -> Launcher:
    if os.geteuid() == 0 and (closed := state.unreachable_part()):
        log.warning("scripts cannot be run: other users cannot pass %s", closed)
    helper = find_helper(options.helper)
    payloads = Payloads(state.run_path, state.run_fd)
    spawner = Spawner(helper, payloads, Spool(state.spool_fd), state.name)
    timers = Timers()
    tasks = Tasks(spawner, choice.enclosures, payloads, timers)
    return Launcher(
        journal,
        tasks,
        choice.enclosures,
        Admission(Users(options.minimum_uid), spawner),
        timers,
        enforcement(choice, helper),
        server.wait_for_alarm,
    )


def _fill_standard_descriptors() -> None:
    """Have 0, 1 and 2 open, so that nothing of ours gets their numbers."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
