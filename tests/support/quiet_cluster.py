"""Memberships and directories of several machines, with the product's links, in virtual time.

Each pair has its link from the start; what goes over it is counted by the machine that says it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from iriai.daemon.net.link import MachineLink
from iriai.jobs.payloads import PayloadStore
from iriai.links.session import LinkSession
from iriai.protocol.membership.cluster_core import OF_PEERS, ClusterCore
from iriai.protocol.messages.effects import Delivered, Effect, Part, Send, Wake, WakeAt
from iriai.protocol.messages.members import Member, MemberState
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier
from iriai.system.frames import FrameReader
from iriai.wire.links import decode_link_frame
from tests.support.virtual_loop import VirtualLoop

WAY_S = 0.01
"""From one end of a link to the other."""


class Wire:
    """One end of a connection in memory: a `FrameStream`."""

    unsent_bytes_max = 0
    is_at_fault = False

    def __init__(self, loop: VirtualLoop, counted: Counter[str]) -> None:
        self.is_closed = False
        self.is_cut = False
        """Whether what is said here arrives nowhere."""
        self.far: Wire
        self._loop = loop
        self._counted = counted
        self._on_frames: Callable[[list[bytes]], None] = list
        self._on_close: Callable[[str], None] = str

    def redirect(
        self, on_frames: Callable[[list[bytes]], None], on_close: Callable[[str], None]
    ) -> None:
        self._on_frames, self._on_close = on_frames, on_close

    def write(self, data: bytes) -> None:
        payloads = FrameReader().feed(data)
        self._counted["bytes"] += len(data)
        for payload in payloads:
            self._counted[type(decode_link_frame(payload)).__name__] += 1
        if not self.is_cut:
            self._loop.call_later(WAY_S, self.far._on_frames, payloads)

    def read_out(self) -> None:
        """Nothing waits here."""

    def close(self, reason: str) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._on_close(reason)


class QuietMachine:
    """One of them; it is the owner of its links."""

    def __init__(self, loop: VirtualLoop, name: str, *, is_outward_only: bool) -> None:
        self.said: Counter[str] = Counter()
        """Frames by kind, and bytes."""
        self.over: dict[str, str] = {}
        """Why links ended."""
        self.links: dict[str, MachineLink] = {}
        self.wires: dict[str, Wire] = {}
        self._loop = loop
        self._alarms: dict[Part, asyncio.TimerHandle] = {}
        addresses = () if is_outward_only else (f"{name}:6174",)
        member = Member(
            name, 0, MemberState.ALIVE, "lab", addresses, is_outward_only=is_outward_only
        )
        self.peers = ClusterCore(
            member,
            incarnation=1,
            signer=KeyedSigner(1, name),
            verifier=KeyedVerifier(1, False),
            rng=Random(name),
            seeds=["m0"],
        )

    def begin(self) -> None:
        """Take part from here on; before, only its links are there."""
        self._perform(self.peers.begin(self._loop.clocks("")))

    def link_with(self, other: str, wire: Wire) -> None:
        """There is a connection to another machine."""
        payloads = PayloadStore(dict[str, bytes]().__getitem__)
        self.wires[other] = wire
        session = LinkSession(other, self._loop.clocks("").steady_s)
        self.links[other] = MachineLink(wire, session, self, payloads)

    def delivered(self, link: MachineLink, part: Part, message: object) -> None:
        if part in OF_PEERS:
            event = Delivered(link.machine, part, message)
            self._perform(self.peers.handle(event, self._loop.clocks("")))

    def link_over(self, link: MachineLink, reason: str) -> None:
        self.over[link.machine] = reason

    def _wake(self, part: Part) -> None:
        self._perform(self.peers.handle(Wake(part), self._loop.clocks("")))

    def _perform(self, effects: list[Effect]) -> None:
        sends = [effect for effect in effects if isinstance(effect, Send)]
        for other, link in self.links.items():
            if ours := [send for send in sends if send.machine == other]:
                link.send(ours)
        for effect in effects:
            if isinstance(effect, WakeAt):
                if effect.part in self._alarms:
                    self._alarms[effect.part].cancel()
                delay_s = max(0.0, effect.steady_s - self._loop.now_s)
                self._alarms[effect.part] = self._loop.call_later(delay_s, self._wake, effect.part)


def quiet_cluster(loop: VirtualLoop, count: int) -> list[QuietMachine]:
    """So many machines m0, m1, ..., all linked; each third one only connects outwards."""
    machines = [
        QuietMachine(loop, f"m{number}", is_outward_only=number % 3 == 2) for number in range(count)
    ]
    for number, one in enumerate(machines):
        for other in machines[:number]:
            ours, theirs = Wire(loop, one.said), Wire(loop, other.said)
            ours.far, theirs.far = theirs, ours
            name = one.peers.name
            one.link_with(other.peers.name, ours)
            other.link_with(name, theirs)
    return machines
