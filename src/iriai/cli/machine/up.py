"""`iriai up`: start the daemon of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.framework.standard_streams import print_document, remark, remarks
from iriai.model.paths import StatePaths, node_directory

if TYPE_CHECKING:
    from iriai.supervisor.daemon_probe import DaemonProbe

PARTS = ("node", "home,broker", "node,home,broker")
"""Values of --parts, for completion."""


def up(
    options: GlobalOptions,
    detach: bool = option(
        False, "--detach", help="Return when the daemon answers, and leave it running."
    ),
    user: str | None = option(
        None, metavar="USER", help="For root: user that the daemon runs as. \\[default: iriai]"
    ),
    name: str | None = option(
        None, metavar="NAME", help="Name of the machine. \\[default: the host's]"
    ),
    parts: str | None = option(
        None,
        metavar="PARTS",
        help="Parts to run: 'node' for a back end, 'home,broker' for a front end. "
        "\\[default: all three]",
        autocompletion=lambda: PARTS,
    ),
    home: Path | None = option(
        None, metavar="SOCKET", help="For a back end: socket or state directory of the front end."
    ),
    rc: Path | None = option(
        None,
        metavar="FILE",
        help="Console lines to run if this starts the daemon, and the machine is in no cluster. "
        "\\[default: iriai.rc in the state directory]",
    ),
) -> None:
    """Start the daemon of this machine, with its launcher; safe to repeat.

    As an ordinary user, it works for you alone; as root, for every user of the machine, each task
    as its own user. Without --detach this command stays in the foreground, and restarts the
    processes if they fail.

    A back end runs the tasks of a front end on the same host. The values of --name, --parts and
    --home are remembered: later a plain 'iriai up' of the same state directory uses them. Without
    --state, the state directory of a back end is nodes/NAME within the usual one.

    The lines of an rc file are settings as in 'iriai console': queue, pool and gang with set and
    unset. They are run at each start by this command, and stop at the first wrong one.
    """
    from iriai.state.owner_profile import proposals
    from iriai.state.role import RequestedRole, check_name, read_parts
    from iriai.supervisor.up import bring_up, stay_up

    def announce(probe: DaemonProbe) -> None:
        if options.as_json:
            print_document(probe._asdict())
            return
        news = "is up" if probe.started else "was up already"
        print(f"{probe.home} {news}, with its state in {probe.state_directory}", flush=True)
        _remark_rc(probe, rc_file)
        remarks(proposals(StatePaths(probe.state_directory)) if probe.runs_new_tasks else ())

    rc_file = "" if rc is None else str(rc.absolute())
    wanted = RequestedRole(
        None if name is None else check_name(name),
        None if parts is None else read_parts(parts),
        None if home is None else _front_end_socket(home),
    )
    directory = options.directory
    if options.state is None and name is not None:
        own = node_directory(directory, name)
        if wanted.front or Path(StatePaths(own).identity).exists():
            directory = own
    if detach:
        announce(bring_up(directory, user, wanted, rc_file))
    else:
        announce(stay_up(directory, user, announce, wanted, rc_file))


def _remark_rc(probe: DaemonProbe, given: str) -> None:
    """Say what is wrong with the rc file, or that the `given` one was not run."""
    if probe.started and probe.rc_problem:
        remark(probe.rc_problem)
    elif given and not (probe.started and probe.rc == given):
        remark(f"{given} was not run: 'iriai console {given}' runs it now")


def _front_end_socket(home: Path) -> str:
    """Return the socket that was given, or that of the state directory that was given."""
    path = home.absolute()
    return StatePaths(str(path)).daemon_socket if path.is_dir() else str(path)


app = Command(
    up,
    ("iriai up --detach", "start it in the background"),
    ("iriai up --state /tmp/try", "a daemon to try things with, in the foreground"),
    ("iriai up --detach --rc /etc/iriai/night.rc", "with settings of its own"),
    ("iriai up --detach --parts home,broker", "a front end, which runs no tasks itself"),
    (
        "iriai up --detach --name b1 --parts node --home /run/iriai/daemon.sock",
        "a back end that runs its tasks",
    ),
)
