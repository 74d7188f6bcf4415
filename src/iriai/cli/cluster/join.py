"""`iriai join`: add this machine to a cluster."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import print_document
from iriai.model.admission_rules import OTHERS
from iriai.model.paths import StatePaths
from iriai.model.problem import Problem, Unreachable
from iriai.model.token_text import TokenKind, parse_token

if TYPE_CHECKING:
    from iriai.identity.certificates.machine_identity import MachineIdentity

LINK_WAIT_S = 20.0
"""Time for the daemon to start again as a member, and to try all addresses of one member."""
POLL_S = 0.2


def join(
    options: GlobalOptions,
    token: str = option(..., metavar="TOKEN", help="The token, as 'iriai token' printed it there."),
    address: str = argument(
        "",
        metavar="[HOST:PORT]",
        help="A member that lets machines in. \\[default: the one named in the token]",
    ),
    name: str | None = option(
        None, metavar="NAME", help="Name of the machine. \\[default: the host's]"
    ),
    profile: str | None = option(
        None,
        metavar="PROFILE",
        help="How tasks give way to the owner of this machine: desk, laptop or classroom; it is "
        "written into iriai.toml. \\[default: they do not]",
    ),
) -> None:
    """Add this machine to a cluster, with a token that was made on a member of it.

    The member is believed only if it has the authority that the token names. Either everything is
    written, or nothing. If the daemon is up, the command ends once it is linked with a member, or
    says what is in the way.
    """
    from iriai.client.remote import ask_to_join
    from iriai.identity.certificates.machine_identity import Enrolment
    from iriai.identity.enrolment.bootstrap import enter_cluster
    from iriai.state.joining import make_ready, settle
    from iriai.state.owner_profile import with_profile, write_text

    given = parse_token(token, TokenKind.JOIN)
    place = make_ready(options.directory, name)
    text = None if profile is None else with_profile(place.paths, profile)
    enrolment = Enrolment.resume(place.name, place.key_file)
    joined = ask_to_join(given, address, enrolment.name, enrolment.request())
    paths, owner = settle(place)
    if text is not None:
        write_text(paths, text)
    identity = enter_cluster(paths, enrolment, given, joined, owner)
    Path(place.key_file).unlink(missing_ok=True)
    is_up = _load_identity(paths)
    linked = _wait_until_linked(paths, identity) if is_up else []
    if options.as_json:
        members = [each.name for each in joined.members]
        print_document({"machine": identity.name, "cluster": identity.cluster, "members": members})
        return
    if linked:
        print(f"{identity.name} is linked with {', '.join(linked)}.")
    print(f"{identity.name} is a member of cluster {identity.cluster}.")
    _print_trust(paths, identity.name)
    print("Its daemon uses the certificate from now on." if is_up else "Start it with 'iriai up'.")


def _wait_until_linked(paths: StatePaths, identity: MachineIdentity) -> list[str]:
    """Return the members with which the new member is linked, as soon as there is one.

    Raises:
        Unreachable: there is none after `LINK_WAIT_S`; each address that was tried is named.
    """
    from iriai.client.client import Client

    ends_s = time.monotonic() + LINK_WAIT_S
    problems = ["its daemon does not answer"]
    while time.monotonic() < ends_s:
        with suppress(Problem), Client.connect(paths.directory, follow=False) as client:
            report = client.status()
            linked = [row.machine for row in report.links if row.is_up]
            if linked:
                return linked
            problems = [f"{row.machine}: {row.words}" for row in report.links] or problems
        time.sleep(POLL_S)
    raise Unreachable(
        "joined-but-not-linked",
        f"{identity.name} is a member of cluster {identity.cluster} now, but is not linked with "
        f"another machine after {LINK_WAIT_S:.0f} s: {'; '.join(problems)}",
        "let one of these addresses through the firewalls, or name one that leads to the other "
        "machine there with [cluster] address; its daemon goes on trying, see 'iriai status'",
    )


def _print_trust(paths: StatePaths, machine: str) -> None:
    """Print whose tasks this machine runs from now on, and whose of its own run elsewhere."""
    from iriai.cli.cluster.trusting import users_text
    from iriai.identity.cluster_state import ClusterState
    from iriai.state.configuration import read_configuration

    trust = ClusterState(paths.cluster).home_trust
    if read_configuration(paths).homes:
        print("It runs tasks of the users that [homes] in iriai.toml names.")
    else:
        print("It runs tasks that are submitted on")
        for home in trust.homes:
            where = "other machines" if home == OTHERS else home
            if home != machine:
                print(f"  {where}, of {users_text(trust.users_of(home))}")
        if OTHERS not in trust.homes:
            print(f"  other machines, of {users_text(trust.users_of(OTHERS))}")
        print("and of users who run 'iriai consent HOME' here; [homes] in iriai.toml changes that.")
    print(
        "Tasks that are submitted here run elsewhere for "
        f"{users_text(trust.users_of(machine))}; an operator changes that with 'iriai trust "
        f"{machine} --users all|ann,bob'."
    )


def _load_identity(paths: StatePaths) -> bool:
    """Have a running daemon load the certificate; return whether one did."""
    from iriai.client.client import Client

    with suppress(Unreachable), Client.connect(paths.directory, follow=False) as client:
        client.reload_identity()
        return True
    return False


app = Command(
    join,
    ("iriai join ume.lab:6174 --token iriai-join-...", "as 'iriai token' on ume prints it"),
    ("iriai join --token iriai-join-... --name momo", "with another name than the host's"),
    ("iriai join --token iriai-join-... --profile desk", "tasks give way to whoever uses it"),
)
