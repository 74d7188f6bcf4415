"""The front end's side of its links: linked back ends, and messages to them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.daemon.loop.routes import StreamMessage
from iriai.daemon.net.link import LinkOwner, MachineLink
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.startup.settings import DaemonSettings
from iriai.jobs.payloads import PayloadStore
from iriai.links.session import LOCAL, LinkSession
from iriai.model.ids import JobId
from iriai.model.problem import NotAllowed, Problem, Refused, Unreachable, problem_from
from iriai.protocol.messages.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.protocol.messages.scheduling import Begun, Message
from iriai.state.state_directory import problem_of
from iriai.system.atomic_files import write_whole
from iriai.system.clock import now as read_clocks
from iriai.system.passwd_cache import Person
from iriai.wire.links import Bid, Obeyed, OutOfPlace
from iriai.wire.machines import Drain, Link, Linked, LinkRow, MemberRow, Resume
from iriai.wire.parts import PARTS_VERSION
from iriai.wire.requests import SAME_VERSION

FILE = "machines.json"


class LocalMachines:
    """The machines that were ever linked here, and the state directory of each.

    A machine with unsettled attempts must not be replaced by another of its name, which knows
    nothing of them and would answer wrongly. So this is stored, in a small file in the daemon's
    `directory`, written when a machine is new or an operator removes one.
    """

    def __init__(self, directory: str) -> None:
        self._path = Path(directory, FILE)
        self._tokens = self._read()

    def names(self) -> list[str]:
        """Return the machines, in the order of their first link."""
        return list(self._tokens)

    def token_of(self, name: str) -> str | None:
        """Return the token of the state directory that has this name, or None."""
        return self._tokens.get(name)

    def learn(self, name: str, token: str) -> None:
        """Store which state directory has this name; durable on return.

        Raises OSError if it cannot be written; then nothing was changed.
        """
        if self._tokens.get(name) == token:
            return
        self._write(self._tokens | {name: token})

    def forget(self, name: str) -> None:
        """Remove a machine; durable on return.

        Raises OSError if it cannot be written; then nothing was changed.
        """
        if name in self._tokens:
            self._write({each: token for each, token in self._tokens.items() if each != name})

    def _write(self, tokens: dict[str, str]) -> None:
        write_whole(self._path, json.dumps(tokens).encode())
        self._tokens = tokens

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self._path.read_text())
            return {str(name): str(token) for name, token in found.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError) as error:
            # The file is replaced whole, so it is not torn: another program wrote it. Machines are
            # known again when they link.
            log.warning("%s was not written by iriai (%s): it is replaced", self._path, error)
            return {}


log = logging.getLogger(__name__)

TO_A_BACK_END = frozenset({Part.HOME, Part.BROKER, Part.SUCCESSION})
"""The parts of a front end that a back end may send messages to."""


REFUSED_SHOWN_S = 60.0
"""How long a refused machine is reported: one that still tries comes every 10 s."""
REFUSED_MAX = 64
"""Refused machines that are kept, the latest: any local user may try."""


class _RefusedMachine(NamedTuple):
    """A machine whose link was refused."""

    wall_s: float
    problem: Problem


class LocalLinks(LinkOwner):
    """The front end's links to its back ends."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        payloads: PayloadStore,
        unsettled: Callable[[str], list[JobId]],
    ) -> None:
        """`unsettled` returns the jobs with unsettled attempts on a machine."""
        self.known = LocalMachines(settings.paths.store)
        self._settings = settings
        self._engine = engine
        self._payloads = payloads
        self._unsettled = unsettled
        self._links: dict[str, MachineLink] = {}
        self._offline: dict[str, tuple[float, str]] = {}
        """Machines without a link: since when (wall clock), and why."""
        self._refused: dict[str, _RefusedMachine] = {}
        self._bids: dict[int, tuple[str, Pending[None]]] = {}
        self._numbers = count(1)

    def send(self, sends: list[Send]) -> None:
        """Send messages to other machines; those to a machine without a link are lost."""
        by_machine: dict[str, list[Send]] = {}
        for send in sends:
            by_machine.setdefault(send.machine, []).append(send)
        for machine, ours in by_machine.items():
            link = self._links.get(machine)
            if link is not None:
                link.send(ours)

    def is_up(self, machine: str) -> bool:
        """Whether there is a link with a machine."""
        return machine in self._links

    def rows(self) -> tuple[LinkRow, ...]:
        """Return the state of each link, for people."""
        now_s = read_clocks("links").wall_s
        rows = []
        for name in self.known.names():
            link = self._links.get(name)
            if link is not None:
                rows.append(LinkRow(name, True, f"up for {_ago(now_s - link.began_wall_s)}"))
                continue
            since_s, reason = self._offline.get(name, (now_s, "it has not linked since the start"))
            rows.append(LinkRow(name, False, f"for {_ago(now_s - since_s)}: {reason}"))
        return tuple(rows)

    def members(self) -> tuple[MemberRow, ...]:
        """Return none: only a cluster over a network has members."""
        return ()

    def trouble(self) -> list[str]:
        """Return what is wrong with links, for `status` and `doctor`."""
        found = [f"{row.machine} is offline {row.words}" for row in self.rows() if not row.is_up]
        now_s = read_clocks("links").wall_s
        for who, refused in self._refused.items():
            if now_s - refused.wall_s < REFUSED_SHOWN_S:
                found.append(f"a machine ({who}) was refused: {refused.problem}")
        return found

    def pass_on(self, machine: str, body: Drain | Resume, by: str) -> Pending[None]:
        """Forward the request of the operator `by` to another machine.

        Await the result until it is durable there.

        Raises:
            Unreachable: there is no link with the machine.
        """
        link = self._links.get(machine)
        if link is None:
            raise Unreachable(
                "no-link",
                f"{machine} is not linked: {self._offline.get(machine, (0, 'it never was'))[1]}",
                "run the command on that machine (use --state)",
            )
        number = next(self._numbers)
        pending: Pending[None] = Pending()
        self._bids[number] = (machine, pending)
        link.send_frame(Bid(number, body, by))
        return pending

    def forget(self, machine: str) -> None:
        """Remove a machine that will not come back; durable on return."""
        try:
            self.known.forget(machine)
        except OSError as error:
            raise problem_of(error, self._settings.paths.store) from None
        self._offline.pop(machine, None)
        self._refused.pop(_calls_itself(machine), None)

    def close(self) -> None:
        """End all links."""
        for link in list(self._links.values()):
            link.close("the front end ends")

    # --- new links -------------------------------------------------------------------------------

    @handles(Link)
    async def _link(self, asked: RequestContext, body: Link) -> None:
        try:
            self._check(asked, body)
        except Problem as problem:
            self._note_refusal(asked, body.name, problem)
            raise
        self._refused.pop(_calls_itself(body.name), None)
        before = self._links.get(body.name)
        if before is not None:
            before.close("a new connection of the same machine replaces it")
        asked.answer(Linked(self._settings.home))
        stream = asked.connection.hand_over()
        profile = LOCAL._replace(silence_s=self._settings.configuration.cluster.silence_s)
        session = LinkSession(body.name, read_clocks("links").steady_s, profile=profile)
        link = MachineLink(stream, session, self, self._payloads)
        self._links[body.name] = link
        self._offline.pop(body.name, None)
        log.info("%s is linked (iriai %s)", body.name, body.version)
        self._link_changed(LinkUp(body.name))

    def _link_changed(self, event: LinkUp | LinkDown) -> None:
        self._engine.event(event)
        self._engine.routes.tell(event)

    def _note_refusal(self, asked: RequestContext, name: str, problem: Problem) -> None:
        """Keep a refusal, under the user's name if the user may have no back end here."""
        caller = asked.caller.person
        is_known = self._may_have_a_back_end(caller)
        who = _calls_itself(name) if is_known else f"a back end of {caller.name}"
        if self._refused.pop(who, None) is None:
            log.warning("%s was refused: %s", who, problem)
        self._refused[who] = _RefusedMachine(self._engine.now.wall_s, problem)
        if len(self._refused) > REFUSED_MAX:
            del self._refused[next(iter(self._refused))]

    def _may_have_a_back_end(self, person: Person) -> bool:
        trusted = {0, self._settings.owner_uid}
        return person.uid in trusted or person.name == self._settings.daemon_user

    def _check(self, asked: RequestContext, body: Link) -> None:
        """Raise a `Problem` if this machine may not link."""
        caller = asked.caller.person
        if not self._may_have_a_back_end(caller):
            raise NotAllowed(
                "not-a-back-end",
                f"a back end of {caller.name} cannot run tasks of all users here",
                "back ends must belong to the owner of the front end",
            )
        if body.parts_version != PARTS_VERSION:
            raise Refused(
                "other-version",
                f"{body.name} (iriai {body.version}) uses version {body.parts_version} of the "
                f"protocol between machines, the front end uses version {PARTS_VERSION}",
                SAME_VERSION,
            )
        known = self.known.token_of(body.name)
        if body.name == self._settings.home:
            raise self._name_taken(body.name, "that is the front end's own name")
        if known not in (None, body.identity):
            if body.name in self._links:
                raise self._name_taken(body.name, "another machine of that name is linked")
            if self._unsettled(body.name):
                words = "another machine of that name has tasks that are not settled"
                raise self._name_taken(body.name, words)
        try:
            self.known.learn(body.name, body.identity)
        except OSError as error:
            raise problem_of(error, self._settings.paths.store) from None

    def _name_taken(self, name: str, why: str) -> Refused:
        return Refused(
            "name-taken",
            f"{self._settings.home} cannot be the front end of a second '{name}': {why}",
            "give this one another --name and state directory, or bring the other one back",
        )

    # --- events of links -------------------------------------------------------------------------

    def delivered(self, link: MachineLink, part: Part, message: Message) -> None:
        """Handle a message of a back end's node."""
        if part is Part.STREAMS:
            self._engine.routes.tell(StreamMessage(link.machine, message))
            return
        if part not in TO_A_BACK_END:
            raise OutOfPlace(f"a front end has no {part} for {link.machine}")
        if isinstance(message, Begun):
            self._engine.routes.tell(message)
        self._engine.news(Delivered(link.machine, part, message))

    def obeyed(self, link: MachineLink, answer: Obeyed) -> None:
        """Answer the operator whose request a back end has carried out, or refused."""
        waiting = self._bids.pop(answer.number, None)
        if waiting is None:
            return
        _, pending = waiting
        if answer.exit_code == 0:
            pending.resolve(None)
            return
        answered = (answer.exit_code, answer.code, answer.message, answer.hint)
        pending.fail(problem_from(*answered))

    def link_over(self, link: MachineLink, reason: str) -> None:
        """Note that a machine is offline, and fail the requests that it has not answered."""
        if self._links.get(link.machine) is not link:
            return
        del self._links[link.machine]
        self._offline[link.machine] = (read_clocks("links").wall_s, reason)
        log.warning("%s is offline: %s", link.machine, reason)
        self._link_changed(LinkDown(link.machine))
        lost = [number for number, (name, _) in self._bids.items() if name == link.machine]
        for number in lost:
            _, pending = self._bids.pop(number)
            pending.fail(
                Unreachable(
                    "link-lost",
                    f"the link to {link.machine} broke before it answered",
                    "check with 'iriai nodes' whether it was done, and repeat it if not",
                )
            )


def _calls_itself(name: str) -> str:
    return f"it calls itself {name}"


def _ago(seconds: float) -> str:
    return f"{max(0.0, seconds):.0f} s"
