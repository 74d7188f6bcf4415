"""Paths: the state directory, the files in it, and the sockets. Names only, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from iriai.model.problem import UsageProblem

STATE_VARIABLE = "IRIAI_STATE"
SYSTEM_STATE_DIRECTORY = "/var/lib/iriai"
SYSTEM_SOCKET = "/run/iriai/daemon.sock"
"""The socket of the machine's own daemon: short, well known, removed by a reboot."""
DATABASE_NAME = "iriai.db"
SOCKET_PATH_BYTES_MAX = 107
"""The kernel's room for a socket's path, less the zero at its end."""


class StatePaths(NamedTuple):
    """The files of one state directory, given as an absolute path without a slash at its end."""

    directory: str

    @property
    def configuration(self) -> str:
        """Return the path of the configuration, `iriai.toml`."""
        return f"{self.directory}/iriai.toml"

    @property
    def rc(self) -> str:
        """Return the path of the console lines that are run at a start, `iriai.rc`."""
        return f"{self.directory}/iriai.rc"

    @property
    def identity(self) -> str:
        """Return the path of the directory's identity: version, home's name, the daemon's user."""
        return f"{self.directory}/state.json"

    @property
    def cluster(self) -> str:
        """The directory of the machine's key and certificate as a member; the daemon's.

        It does not exist if the machine is in no cluster.
        """
        return f"{self.directory}/cluster"

    @property
    def operator(self) -> str:
        """The directory of an operator's key, and of the authority's key, sealed to it.

        The owner's alone: not even the daemon reads it.
        """
        return f"{self.directory}/operator"

    @property
    def daemon_socket(self) -> str:
        """Return the path of the socket on which clients reach the daemon."""
        if self.directory == SYSTEM_STATE_DIRECTORY:
            return SYSTEM_SOCKET
        return f"{self.directory}/daemon.sock"

    @property
    def sessions_socket(self) -> str:
        """Return the path of the socket on which session agents say that somebody is there."""
        return f"{self.daemon_socket.rpartition('/')[0]}/sessions.sock"

    @property
    def launcher_socket(self) -> str:
        """Return the path of the socket on which the daemon reaches the launcher."""
        return f"{self.directory}/launcher.sock"

    @property
    def links_socket(self) -> str:
        """Return the path of the socket where back ends of this host link with the daemon."""
        return f"{self.directory}/links.sock"

    @property
    def store(self) -> str:
        """The directory of the database; the daemon's alone."""
        return f"{self.directory}/store"

    @property
    def database(self) -> str:
        """The database of everything durable."""
        return f"{self.store}/{DATABASE_NAME}"

    @property
    def spool(self) -> str:
        """The directory of the output of `run`; each user has their own files in it."""
        return f"{self.directory}/spool"

    @property
    def log(self) -> str:
        """The directory of the logs of launcher, daemon and supervisor."""
        return f"{self.directory}/log"

    def lock(self, part: str) -> str:
        """The file that the running `part` (daemon, supervisor, …) holds locked; with its pid."""
        return f"{self.directory}/{part}.lock"

    def end(self, part: str) -> str:
        """The file in which `part` writes why it ended, if it ended on purpose."""
        return f"{self.directory}/{part}.end"

    @property
    def drain(self) -> str:
        """The file with a drain or resume that was requested while no daemon ran."""
        return f"{self.directory}/drain.json"

    @property
    def outage(self) -> str:
        """The file in which the supervisor records since when no daemon serves, and why."""
        return f"{self.directory}/outage.json"

    def log_of(self, part: str) -> str:
        """The log file of `part`."""
        return f"{self.log}/{part}.log"


def check_socket_path(path: str) -> None:
    """Raise `UsageProblem` if the path of a socket is longer than the kernel accepts."""
    length = len(path.encode(errors="surrogateescape"))
    if length > SOCKET_PATH_BYTES_MAX:
        raise UsageProblem(
            "socket-path-too-long",
            f"the socket {path} has a path of {length} bytes, more than the "
            f"{SOCKET_PATH_BYTES_MAX} that the system allows",
            "choose a shorter directory with --state",
        )


def state_directory_of(daemon_socket: str) -> str:
    """Return the state directory whose daemon listens at `daemon_socket`."""
    if daemon_socket == SYSTEM_SOCKET:
        return SYSTEM_STATE_DIRECTORY
    return daemon_socket.rpartition("/")[0]


def user_state_directory(environment: Mapping[str, str]) -> str:
    """The state directory of a user who is not root, by the XDG rules.

    Raises:
        UsageProblem: the environment does not say where the user's home is.
    """
    base = environment.get("XDG_STATE_HOME", "")
    if base.startswith("/"):
        return f"{base.rstrip('/')}/iriai"
    home = environment.get("HOME", "")
    if not home.startswith("/"):
        raise UsageProblem(
            "no-state-directory",
            "HOME is not set, so there is no place for the state directory",
            f"use --state DIR or set {STATE_VARIABLE}",
        )
    return f"{home.rstrip('/')}/.local/state/iriai"


def state_directory(option: str | None, environment: Mapping[str, str], uid: int) -> str:
    """The state directory that `up` uses: `--state`, the environment, then the user's own."""
    chosen = option or environment.get(STATE_VARIABLE)
    if chosen:
        return chosen
    return SYSTEM_STATE_DIRECTORY if uid == 0 else user_state_directory(environment)


def node_directory(directory: str, name: str) -> str:
    """The state directory of the back end `name`, within the one that is used without a name."""
    return f"{directory.rstrip('/')}/nodes/{name}"
