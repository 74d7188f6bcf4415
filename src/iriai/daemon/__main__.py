"""`python -m iriai.daemon --state DIR [--rc FILE]`: do what needs privileges, then serve.

`--rc`: `iriai up` starts it, so that it runs the rc file, by default that in DIR (an empty FILE).

Exit code 0: someone wanted the end. A problem that keeps the daemon from running goes to standard
error and into DIR/daemon.end, and the exit code is the problem's. Anything else is a crash.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iriai.config.reader import Configuration
from iriai.daemon.net.descriptor_limit import raise_descriptor_limit
from iriai.daemon.service import serve
from iriai.daemon.startup.listener import listen, open_doors
from iriai.daemon.startup.settings import (
    DaemonSettings,
    ServiceMode,
    current_mode,
    leave_for_launcher,
    rules_of,
)
from iriai.host.hardware import capacity, measure
from iriai.launcher.system.log_file import set_up_logging
from iriai.model.address import parse_address
from iriai.model.paths import StatePaths
from iriai.model.problem import Problem, UsageProblem
from iriai.plugins.orders import with_usual
from iriai.state.configuration import (
    load_cluster,
    read_configuration,
    settle_directory,
    with_defaults,
    with_document,
)
from iriai.state.kept_drain import read_kept_drain
from iriai.state.rc_file import read_rc
from iriai.state.role import Role
from iriai.state.state_directory import (
    StateIdentity,
    absolute_paths,
    daemon_owner,
    lock_state,
    problem_of,
)
from iriai.system.exit_report import announce, ending_in, ending_of, open_ending
from iriai.system.lock_file import open_lock
from iriai.system.privileges import drop_privileges
from iriai.system.standard_descriptors import keep_standard_descriptors

if TYPE_CHECKING:
    from iriai.identity.cluster_state import ClusterState

USAGE = "usage: python -m iriai.daemon --state DIR [--rc FILE]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon until it is to end; returns the exit code."""
    keep_standard_descriptors()
    try:
        options = _options_in(sys.argv[1:] if arguments is None else arguments)
        settings = _settle(absolute_paths(options["--state"]), options.get("--rc"))
    except Problem as problem:
        _complain(problem)
        return problem.exit_code
    return _serve(settings)


def _options_in(words: Sequence[str]) -> dict[str, str]:
    """Return the options in `--name value` pairs, always `--state`; raise `UsageProblem`.

    Not by argparse, which would stay in memory. Supervisors of earlier versions give their pid too.
    """
    options = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or not options.keys() <= {"--state", "--rc", "--supervisor-pid"}:
        raise UsageProblem("bad-option", f"'{' '.join(words)}' is not understood", USAGE)
    if not options.get("--state"):
        raise UsageProblem("bad-option", "--state is needed", USAGE)
    return options


def _settle(paths: StatePaths, rc: str | None) -> DaemonSettings:
    """Everything that is done before privileges are dropped; see `DaemonSettings.rc`."""
    own = configuration = read_configuration(paths)
    raise_descriptor_limit(configuration.limits)
    facts = measure()
    identity = settle_directory(paths, configuration, facts)
    lock_state(paths, "daemon")
    ending = _open_ending(paths)
    try:
        mode = current_mode()
        unenrolled = _enrol(paths, identity)
        cluster = load_cluster(paths)
        given = with_usual(with_document(configuration, cluster))
        configuration = with_defaults(given, single_user=mode is ServiceMode.SINGLE_USER)
        leave_for_launcher(paths, configuration, rules_of(configuration, identity.home, cluster))
        return DaemonSettings(
            paths=paths,
            configuration=configuration,
            facts=facts,
            capacity=capacity(facts, configuration),
            mode=mode,
            home=identity.home,
            role=identity.role,
            daemon_user=identity.daemon_user,
            owner_uid=os.geteuid(),
            listener=_listen(paths, mode),
            kept_drain=read_kept_drain(paths),
            ending=ending,
            rc=None if rc is None else read_rc(paths, rc),
            doors=_doors(configuration, cluster, identity.role),
            host_door=_host_door(paths, identity) if cluster else None,
            unenrolled=unenrolled,
            cluster=cluster,
            own=own,
            supervisor_lock=open_lock(paths.lock("supervisor")),
        )
    except Problem as problem:
        announce(ending, ending_of(problem))
        raise


def _open_ending(paths: StatePaths) -> int:
    try:
        return open_ending(paths.end("daemon"))
    except OSError as error:
        raise problem_of(error, paths.directory) from None


def _listen(paths: StatePaths, mode: ServiceMode) -> socket.socket:
    try:
        return listen(paths.daemon_socket, everybody=mode is ServiceMode.SYSTEM)
    except OSError as error:
        raise problem_of(error, paths.daemon_socket) from None


def _enrol(paths: StatePaths, identity: StateIdentity) -> Problem | None:
    """Make a back end a member of its front end's cluster; return why it is none yet."""
    if not identity.front or Path(paths.cluster).exists():
        return None
    from iriai.daemon.startup.enrolment import enrol

    try:
        enrol(paths, identity, os.geteuid())
    except Problem as problem:
        return problem
    return None


def _doors(
    configuration: Configuration, cluster: ClusterState | None, role: Role
) -> tuple[socket.socket, ...]:
    """Where machines elsewhere connect; nowhere where they cannot."""
    if cluster is None or cluster.is_host_only or role.front or configuration.cluster.outward_only:
        return ()
    return open_doors(parse_address(configuration.cluster.listen))


def _host_door(paths: StatePaths, identity: StateIdentity) -> socket.socket | None:
    """Where back ends connect, which belong to the owner of this directory."""
    if not identity.role.has_home:
        return None
    try:
        return listen(paths.links_socket, everybody=False, owner=daemon_owner(paths))
    except OSError as error:
        raise problem_of(error, paths.links_socket) from None


def _serve(settings: DaemonSettings) -> int:
    try:
        drop_privileges(settings.daemon_user)
        handler = set_up_logging(settings.paths.log_of("daemon"), "daemon")
        signal.signal(signal.SIGHUP, lambda _number, _frame: handler.follow(now=True))
        code = serve(settings)
    except Problem as problem:
        announce(settings.ending, ending_of(problem))
        _complain(problem)
        return problem.exit_code
    if code == 0 and ending_in(settings.ending) is None:
        settings.announce_down()
    return code


def _complain(problem: Problem) -> None:
    sys.stderr.write(f"iriai daemon: {problem}\n")


if __name__ == "__main__":
    sys.exit(main())
