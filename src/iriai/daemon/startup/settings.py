"""Settings of a daemon: one frozen object, built in one place."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from iriai.config.cluster_part import parse_cluster_configuration, with_cluster
from iriai.config.reader import BadConfiguration, Configuration, parse_configuration
from iriai.config.values import MEASURED
from iriai.daemon.startup.hardware import MachineFacts, home_name
from iriai.daemon.startup.kept_drain import KeptDrain
from iriai.daemon.startup.owner_expressions import check_expressions
from iriai.daemon.startup.role import AS_BEFORE, RequestedRole, Role
from iriai.daemon.startup.state_directory import StateIdentity, prepare, problem_of
from iriai.launcher.contract.machine_config import MachineSettings, write_machine_file
from iriai.model.admission_rules import HomeRules
from iriai.model.paths import StatePaths
from iriai.model.problem import NotAllowed
from iriai.model.resources import Resources
from iriai.model.units import format_size
from iriai.system.exit_report import ExitReport, announce, announce_started
from iriai.system.lock_file import holder_of, lock_holder
from iriai.wire.reports import Setting

if TYPE_CHECKING:
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.users.permissions import Caller


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
    """What the machine gives away."""
    mode: ServiceMode
    home: str
    """The machine's name; of one with a home the first part of every job id."""
    role: Role
    """Which parts the machine has."""
    token: str
    """Tells its state directory from others whose machine has the same name."""
    daemon_user: str
    """The Unix user that this process runs as once privileges are dropped."""
    owner_uid: int
    """Whose state directory it is: 0, or the one user of a single-user daemon."""
    table: tuple[Setting, ...]
    """Every value in force and its source, for `config show`."""
    listener: socket.socket
    """Bound and listening at `paths.daemon_socket`, since after the drop nobody could bind it."""
    ending: int
    """Descriptor of the file that says why this process ended; see `announce_down`."""
    kept_drain: KeptDrain | None = None
    """What an operator asked while no daemon ran; read after the listener began to listen."""
    doors: tuple[socket.socket, ...] = ()
    """Where other machines of the cluster connect; bound and listening."""
    cluster: ClusterState | None = None
    """The machine's place in a cluster; None: it is in none. What it needs is loaded only then."""
    started_by: int | None = None
    """The supervisor's process id when this daemon was started."""
    supervisor_lock: int | None = None
    """Its lock, open: the daemon's user could not open it."""

    @property
    def single_uid(self) -> int | None:
        """Return the only user of a single-user daemon; None if it serves all users."""
        return None if self.mode is ServiceMode.SYSTEM else self.owner_uid

    @property
    def rules(self) -> HomeRules:
        """Return the rules for whose tasks this machine runs."""
        is_member = self.cluster is not None
        return home_rules(self.configuration, self.home, is_member=is_member)

    @property
    def supervisor_pid(self) -> int | None:
        """Return the current supervisor's process id, which may not have started this daemon."""
        if self.supervisor_lock is not None:
            return holder_of(self.supervisor_lock)
        return lock_holder(self.paths.lock("supervisor"))

    def require_operator(self, caller: Caller, what: str) -> None:
        """Raise `NotAllowed` if `caller` is no operator; `what` is what operators alone may do."""
        if not caller.operator:
            raise NotAllowed(
                "not-an-operator",
                f"{caller.person.name} may not {what}",
                f"members of the group {self.configuration.identity.operators} may",
            )

    def announce_started(self) -> None:
        """Report to the supervisor that this daemon has started successfully."""
        announce_started(self.ending)

    def announce_again(self) -> None:
        """Ask the supervisor to start a daemon again when this one has ended."""
        announce(self.ending, ExitReport(0, again=True))

    def announce_down(self, *, kill: bool = False) -> None:
        """Report to the supervisor that the daemon's end is wanted, before anything is stopped."""
        announce(self.ending, ExitReport(0, kill=kill))


def read_configuration(paths: StatePaths) -> Configuration:
    """Return the configuration of a state directory; the defaults if there is no file.

    Raises:
        Problem: it cannot be read, or is wrong.
    """
    path = Path(paths.configuration)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Configuration()
    except UnicodeDecodeError as error:
        raise BadConfiguration(
            f"{path} is not UTF-8 text (byte {error.start})", "save it as UTF-8"
        ) from None
    except OSError as error:
        raise problem_of(error, paths.configuration) from None
    configuration = parse_configuration(text, paths.configuration)
    check_expressions(configuration)
    return configuration


def load_cluster(paths: StatePaths) -> ClusterState | None:
    """Return the machine's cluster state; None outside of a cluster. Raises a `Problem`."""
    if not Path(paths.cluster).is_dir():
        return None
    from iriai.identity.certificates.host_binding import check_dwelling, this_machine_id
    from iriai.identity.cluster_state import ClusterState

    check_dwelling(Path(paths.cluster), this_machine_id())
    return ClusterState.load(paths.cluster)


def with_document(configuration: Configuration, cluster: ClusterState | None) -> Configuration:
    """Return the configuration with the cluster's applied; raise `BadConfiguration`."""
    document = cluster.document if cluster else None
    if document is None:
        return configuration
    return with_cluster(configuration, parse_cluster_configuration(document.text, document.words()))


def with_mode(configuration: Configuration, mode: ServiceMode) -> Configuration:
    """Return the configuration with the defaults that depend on the mode."""
    identity = configuration.identity
    if identity.name_accounts is not None:
        return configuration
    decided = replace(identity, name_accounts=mode is ServiceMode.SINGLE_USER)
    return replace(configuration, identity=decided)


def home_rules(configuration: Configuration, home: str, *, is_member: bool) -> HomeRules:
    """Return the rules for whose tasks the machine `home` runs."""
    guest = configuration.users.guest or ""
    return HomeRules(home, configuration.homes, guest, is_member)


def leave_for_launcher(paths: StatePaths, configuration: Configuration, rules: HomeRules) -> None:
    """Write the launcher's part of `[machine]` to a file that only this user can write.

    Raises a `Problem`.
    """
    settings = msgspec.convert(configuration.machine, MachineSettings, from_attributes=True)
    try:
        write_machine_file(paths.directory, replace(settings, rules=rules))
    except OSError as error:
        raise problem_of(error, paths.directory) from None


def current_mode() -> ServiceMode:
    """Return the mode of this process's user: root serves all users."""
    return ServiceMode.SYSTEM if os.geteuid() == 0 else ServiceMode.SINGLE_USER


def settle_directory(
    paths: StatePaths,
    configuration: Configuration,
    facts: MachineFacts,
    user: str | None = None,
    wanted: RequestedRole = AS_BEFORE,
) -> StateIdentity:
    """Make the state directory ready for a daemon that runs as `user`; see `prepare`."""
    given = configuration.machine.name
    return prepare(
        paths,
        home=given or home_name(facts.host_name),
        home_given=given is not None,
        user=user,
        wanted=wanted,
    )


def settings_table(
    configuration: Configuration, home: str, amounts: Resources
) -> tuple[Setting, ...]:
    """Return the rows of `config show`, with measured values where none is configured."""
    measured = {
        "machine.name": home,
        "machine.cpus": str(amounts.cpus),
        "machine.memory": format_size(amounts.memory_bytes),
        "machine.gpus": str(amounts.gpus),
    }
    rows = configuration.rows()
    given = configuration.machine.resources
    rows += [
        (f"machine.resources.{name}", str(amount), MEASURED)
        for name, amount in amounts.named
        if name not in given
    ]
    return tuple(
        Setting(key, measured.get(key, value) if source == MEASURED else value, source)
        for key, value, source in rows
    )
