"""Settings of a daemon: one frozen object, built in one place."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.host.hardware import MachineFacts
from iriai.launcher.contract.machine_config import MachineSettings, write_machine_file
from iriai.model.admission_rules import HomeRules
from iriai.model.paths import StatePaths
from iriai.model.problem import Problem
from iriai.model.resources import Resources
from iriai.state.kept_drain import KeptDrain
from iriai.state.rc_file import RcFile
from iriai.state.role import Role
from iriai.state.state_directory import problem_of
from iriai.system.exit_report import ExitReport, announce, announce_started
from iriai.system.lock_file import holder_of, lock_holder

if TYPE_CHECKING:
    from iriai.identity.cluster_state import ClusterState


class ServiceMode(StrEnum):
    """The users for whom the daemon works."""

    SYSTEM = "system"
    """Root's: every user of the machine."""
    SINGLE_USER = "single-user"
    """A user's own: that user alone, without privileges."""


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """Everything that the daemon's service needs to begin."""

    paths: StatePaths
    configuration: Configuration
    facts: MachineFacts
    capacity: Resources
    """What the machine gives away, but for the bounds of its pool."""
    mode: ServiceMode
    home: str
    """The machine's name; of one with a home the first part of every job id."""
    role: Role
    """Which parts the machine has."""
    daemon_user: str
    """The Unix user that this process runs as once privileges are dropped."""
    owner_uid: int
    """Whose state directory it is: 0, or the one user of a single-user daemon."""
    listener: socket.socket
    """Bound and listening at `paths.daemon_socket`, since after the drop nobody could bind it."""
    ending: int
    """Descriptor of the file that says why this process ended; see `announce_down`."""
    kept_drain: KeptDrain | None = None
    """What an operator asked while no daemon ran; read after the listener began to listen."""
    rc: RcFile | None = None
    """Console lines that are to be run, since `iriai up` starts this daemon; None: there are none.
    """
    doors: tuple[socket.socket, ...] = ()
    """Where machines elsewhere connect; bound and listening."""
    host_door: socket.socket | None = None
    """Where back ends of this host connect; bound and listening."""
    unenrolled: Problem | None = None
    """Why a back end is not a member of its front end's cluster."""
    cluster: ClusterState | None = None
    """The machine's place in a cluster; None: it is in none. What it needs is loaded only then."""
    own: Configuration = field(default_factory=Configuration)
    """The machine's own file, without what its cluster's document changes."""
    supervisor_lock: int | None = None
    """Its lock, open: the daemon's user could not open it."""

    @property
    def single_uid(self) -> int | None:
        """Return the only user of a single-user daemon; None if it serves all users."""
        return None if self.mode is ServiceMode.SYSTEM else self.owner_uid

    @property
    def is_outward_only(self) -> bool:
        """Return whether no machine can connect to this one: others reach it through relays."""
        return bool(self.role.front) or self.configuration.cluster.outward_only

    @property
    def rules(self) -> HomeRules:
        """Return the rules for whose tasks this machine runs."""
        return rules_of(self.configuration, self.home, self.cluster)

    @property
    def supervisor_pid(self) -> int | None:
        """Return the current supervisor's process id, which may not have started this daemon."""
        if self.supervisor_lock is not None:
            return holder_of(self.supervisor_lock)
        return lock_holder(self.paths.lock("supervisor"))

    @property
    def operators(self) -> str:
        """Return the group whose members are operators."""
        return self.configuration.identity.operators

    def announce_started(self) -> None:
        """Report to the supervisor that this daemon has started successfully."""
        announce_started(self.ending)

    def announce_again(self) -> None:
        """Ask the supervisor to start a daemon again when this one has ended."""
        announce(self.ending, ExitReport(0, again=True))

    def announce_down(self, *, kill: bool = False) -> None:
        """Report to the supervisor that the daemon's end is wanted, before anything is stopped."""
        announce(self.ending, ExitReport(0, kill=kill))


def rules_of(configuration: Configuration, home: str, cluster: ClusterState | None) -> HomeRules:
    """Return the rules for whose tasks the machine `home` runs.

    To a back end its front end is its own home: they have one owner, and one host.
    """
    own = cluster.front_end if cluster is not None else ""
    return configuration.home_rules(own or home, is_member=cluster is not None)


def leave_for_launcher(paths: StatePaths, configuration: Configuration, rules: HomeRules) -> None:
    """Write the launcher's part of `[machine]` to a file that only this user can write.

    Raises a `Problem`.
    """
    settings = msgspec.convert(configuration.machine, MachineSettings, from_attributes=True)
    try:
        owners = configuration.owner.users
        settings = replace(settings, rules=rules, owner_users=owners)
        write_machine_file(paths.directory, settings)
    except OSError as error:
        raise problem_of(error, paths.directory) from None


def current_mode() -> ServiceMode:
    """Return the mode of this process's user: root serves all users."""
    return ServiceMode.SYSTEM if os.geteuid() == 0 else ServiceMode.SINGLE_USER
