"""The role of a machine: all parts, those of a front end, or the node of a back end."""

from __future__ import annotations

import os
from typing import NamedTuple

from iriai.model.address import host_address
from iriai.model.ids import HOME_NAME
from iriai.model.paths import SOCKET_PATH_BYTES_MAX, StatePaths, state_directory_of
from iriai.model.problem import UsageProblem
from iriai.protocol.messages.effects import Part

EVERY_PART = (Part.NODE, Part.HOME, Part.BROKER)
FRONT_END = (Part.HOME, Part.BROKER)
BACK_END = (Part.NODE,)


class Role(NamedTuple):
    """The role of a machine, as its state directory stores it."""

    parts: tuple[Part, ...] = EVERY_PART
    front: str = ""
    """Of a back end: the socket of its front end. Else empty."""

    @property
    def has_node(self) -> bool:
        """Return whether it runs tasks."""
        return Part.NODE in self.parts

    @property
    def has_launcher(self) -> bool:
        """Return whether it runs programs: tasks, or notifications of finished jobs."""
        return self.has_node or self.has_home

    @property
    def has_home(self) -> bool:
        """Return whether jobs are submitted here."""
        return Part.HOME in self.parts

    @property
    def front_address(self) -> str:
        """Return the address where the front end of a back end accepts links."""
        return host_address(StatePaths(state_directory_of(self.front)).links_socket)

    def __str__(self) -> str:
        parts = ",".join(self.parts)
        return (
            f"parts {parts}, of the front end at {self.front}" if self.front else f"parts {parts}"
        )


class RequestedRole(NamedTuple):
    """The role given to `iriai up`; None: as before, or the default."""

    name: str | None = None
    parts: tuple[Part, ...] | None = None
    front: str | None = None

    def role(self) -> Role:
        """Return the role of a new directory; raise UsageProblem if the parts do not fit."""
        parts = self.parts
        if parts is None:
            parts = BACK_END if self.front else EVERY_PART
        if parts == BACK_END and not self.front:
            raise UsageProblem(
                "no-front-end",
                "a machine with a node alone needs a front end that takes its jobs",
                "name the front end's socket with --home",
            )
        if len(os.fsencode(self.front or "")) > SOCKET_PATH_BYTES_MAX:
            raise UsageProblem(
                "socket-path-too-long",
                f"the socket {self.front} has a path of more than {SOCKET_PATH_BYTES_MAX} bytes",
                "give the front end a shorter state directory",
            )
        if parts != BACK_END and self.front:
            raise UsageProblem(
                "home-and-front-end",
                "--home names the front end of a back end, which has a node alone",
                "use --parts node, or leave --home out",
            )
        return Role(parts, self.front or "")

    def conflict(self, name: str, role: Role) -> str | None:
        """Return the option that contradicts `name` or `role`; None if all agree."""
        if self.name not in (None, name):
            return f"--name {self.name}"
        if self.parts not in (None, role.parts):
            return f"--parts {','.join(self.parts or ())}"
        if self.front not in (None, role.front):
            return f"--home {self.front}"
        return None


AS_BEFORE = RequestedRole()


def read_parts(text: str) -> tuple[Part, ...]:
    """Return the parts in a text such as `home,broker`; raise UsageProblem."""
    words = [word.strip() for word in text.split(",")]
    parts = tuple(part for part in EVERY_PART if part in words)
    if len(parts) != len(words) or parts not in (EVERY_PART, FRONT_END, BACK_END):
        raise UsageProblem(
            "bad-parts",
            f"--parts cannot be '{text}'",
            "a back end has 'node', a front end 'home,broker', a machine alone all three (which is "
            "what it has without --parts)",
        )
    return parts


def check_name(name: str) -> str:
    """Return `name` if it is a valid machine name; raise UsageProblem."""
    if not HOME_NAME.fullmatch(name):
        raise UsageProblem(
            "bad-name",
            f"--name cannot be '{name}'",
            "use small letters, digits and -, with a letter first, 31 at most",
        )
    return name
