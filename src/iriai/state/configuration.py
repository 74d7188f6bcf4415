"""The configuration of a state directory, and the directory made ready for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from iriai.config.cluster_part import parse_cluster_configuration, with_cluster
from iriai.config.reader import BadConfiguration, Configuration, parse_configuration
from iriai.host.hardware import MachineFacts, home_name
from iriai.host.owner_expressions import check_expressions
from iriai.model.paths import StatePaths
from iriai.state.role import AS_BEFORE, RequestedRole
from iriai.state.state_directory import StateIdentity, prepare, problem_of

if TYPE_CHECKING:
    from iriai.identity.cluster_state import ClusterState


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


def with_defaults(configuration: Configuration, *, single_user: bool) -> Configuration:
    """Return the configuration with the defaults that depend on whom the daemon works for."""
    identity = configuration.identity
    if identity.name_accounts is not None:
        return configuration
    return replace(configuration, identity=replace(identity, name_accounts=single_user))


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
