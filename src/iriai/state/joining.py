"""Changes to a state directory when its machine joins or founds a cluster: all of them, or none."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path
from typing import NamedTuple

from iriai.host.hardware import home_name, measure
from iriai.identity.enrolment.bootstrap import already_member, found_cluster
from iriai.model.paths import StatePaths
from iriai.model.problem import UsageProblem
from iriai.state.configuration import read_configuration, settle_directory
from iriai.state.role import AS_BEFORE, RequestedRole, check_name
from iriai.state.state_directory import (
    absolute_paths,
    daemon_owner,
    locked_directory,
    problem_of,
    read_identity,
)


class EnrolmentPaths(NamedTuple):
    """Paths where a joining machine stores what it receives."""

    paths: StatePaths
    name: str
    """The machine's."""
    given: str | None
    """The name that was asked for."""
    key_file: str
    """Keeps the newcomer's key until it is a member: a second try is then the same machine."""


def make_ready(directory: str, given: str | None) -> EnrolmentPaths:
    """Check everything that could keep this machine from joining under the name `given`.

    Raises:
        Problem: it is a member already, or has another name, or files cannot be written there.
    """
    paths = absolute_paths(directory)
    if Path(paths.cluster).exists():
        raise already_member(paths)
    identity = read_identity(paths)
    configured = read_configuration(paths).machine.name
    wanted = None if given is None else check_name(given)
    if identity is not None and wanted not in (None, identity.home):
        raise UsageProblem(
            "settled",
            f"this machine is {identity.home}: the ids of its jobs have that name",
            "leave --name out, or choose another directory with --state",
        )
    name = identity.home if identity else wanted or configured or home_name(measure().host_name)
    key_file = f"{paths.directory}.joining"
    try:
        Path(paths.directory).parent.mkdir(parents=True, exist_ok=True, mode=0o711)
        Path(key_file).touch(mode=0o600)
    except OSError as error:
        raise problem_of(error, str(Path(paths.directory).parent)) from None
    return EnrolmentPaths(paths, name, wanted, key_file)


def settle(place: EnrolmentPaths) -> tuple[StatePaths, tuple[int, int] | None]:
    """Make the state directory; return its paths and, for root, the daemon user's ids.

    Raises a `Problem`.
    """
    configuration = read_configuration(place.paths)
    wanted = AS_BEFORE if place.given is None else RequestedRole(place.given, None, None)
    settle_directory(place.paths, configuration, measure(), None, wanted)
    return place.paths, daemon_owner(place.paths)


def found(
    paths: StatePaths, name: str, machine: str, *, passphrase: str = "", is_host_only: bool = False
) -> None:
    """Create the cluster `name` with the current user as its operator; see `found_cluster`.

    Raises:
        Refused: the machine is in a cluster already, or files cannot be written. Nothing was.
    """
    with locked_directory(paths.directory):
        found_cluster(
            paths,
            cluster=name,
            machine=machine,
            operator=operator_name(),
            now_wall_s=time.time(),
            daemon=daemon_owner(paths),
            passphrase=passphrase,
            is_host_only=is_host_only,
        )


def operator_name() -> str:
    """Return the name of the current user as signed documents write it."""
    return home_name(pwd.getpwuid(os.geteuid()).pw_name)
