"""Laws l and m of reservations, whatever is lost, repeated, late or restarted.

(l) Who asked is told only what all nodes have. (m) Once faults stop no hold outlives its time, and
no reservation is there on some of its nodes alone.
"""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.model.claim import Phase
from iriai.model.problem import Refused
from iriai.model.reservation import Reservation, ReservationState
from iriai.protocol.messages.effects import LinkUp, Part, ReservationAnswered, Send
from iriai.protocol.messages.reservations import NodesOffered, SeekNodes
from tests.home.reserving import KeepingNode, ReservingHome, named, terms

NAMES = ("a", "b", "c", "d")
ASKED_MAX = 4

KINDS = (
    *("deliver",) * 8,
    *("late", "late", "repeat", "repeat", "lose", "lose", "wait", "wait", "wait"),
    *("calm", "refuse", "restart", "ask", "ask", "cancel", "reached", "modify", "modify"),
)
WAITS_S = (0.5, 1.0, 1.0, 2.0, 10.5)
happenings = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 20)), min_size=40, max_size=80
)


class Reserving:
    """A home, its nodes, a broker that offers any of them, and what is under way between them."""

    def __init__(self) -> None:
        self.home = ReservingHome()
        self.nodes = {name: KeepingNode(name) for name in NAMES}
        self.under_way: list[Send] = []
        self.confirmed: list[int] = []
        """What users were told."""
        self._collect()

    def step(self, what: str, choice: int) -> None:
        under_way, name = self.under_way, NAMES[choice % len(NAMES)]
        match what:
            case "deliver":
                for _ in range(min(1 + choice % 5, len(under_way))):
                    self._deliver(under_way.pop(0))
            case "calm":
                while under_way:
                    self._deliver(under_way.pop(0))
            case "late" if under_way:
                under_way.append(under_way.pop(choice % len(under_way)))
            case "repeat" if under_way:
                under_way.insert(choice // 2 % len(under_way), under_way[choice % len(under_way)])
            case "lose" if under_way:
                del under_way[: 1 + choice % 3]
            case "wait":
                self.home.wait(WAITS_S[choice % len(WAITS_S)])
                self._collect()
            case "refuse":
                self.nodes[name].refuses = not self.nodes[name].refuses
            case "restart":
                self.home = self.home.restarted()
                self._collect()
            case "ask" if len(self.home.home.reservations.all()) < ASKED_MAX:
                self.home.ask(nodes=1 + choice % 3)
                self._collect()
            case "modify" if live := self.home.home.reservations.all():
                self._modify(live[choice % len(live)], choice)
            case "cancel" if live := self.home.home.reservations.all():
                self.home.cancel(live[choice % len(live)].number)
                self._collect()
            case "reached":
                self.home.tell(LinkUp(name))
                self._collect()
        self._check_told()

    def _modify(self, reservation: Reservation, choice: int) -> None:
        """A user asks for another time, and a node more or fewer."""
        later_s, nodes = 60.0 * (1 + choice), 1 + choice % 3
        start_s, end_s = reservation.terms.start_wall_s, reservation.terms.end_wall_s
        times = {"start_wall_s": start_s + later_s, "end_wall_s": end_s + later_s}
        wanted = replace(reservation.terms, nodes=nodes, **times)
        reservations, number = self.home.home.reservations, reservation.number
        with suppress(Refused):
            self.home.do(lambda _: reservations.modify(number, wanted, self.home.now))
            self._collect()

    def come_to_rest(self) -> None:
        """Faults stop: what is sent arrives, in order, until nothing is under way any more."""
        for name, node in self.nodes.items():
            node.refuses = False
            self.home.tell(LinkUp(name))
            self._collect()
        for _ in range(40):
            while self.under_way:
                self._deliver(self.under_way.pop(0))
            self.home.wait(30.0)
            self._collect()
            for node in self.nodes.values():
                node.expire(self.home.now_s)

    def _deliver(self, send: Send) -> None:
        match send.part:
            case Part.NODE:
                self.under_way.append(self.nodes[send.machine].take(send.message, self.home.now_s))
            case Part.BROKER:
                self.under_way.append(Send("ume", Part.HOME, self._offer(send.message)))
            case _:
                self.home.tell(send.message)
                self._collect()

    def _offer(self, seek: SeekNodes) -> NodesOffered:
        others = [name for name in NAMES if name not in seek.kept]
        free = [name for name in (*seek.kept, *others) if name not in seek.without]
        chosen = free[: seek.terms.nodes] if len(free) >= seek.terms.nodes else []
        machines = tuple(sorted(chosen))
        return NodesOffered(seek.reservation, seek.version, machines)

    def _collect(self) -> None:
        for effect in self.home.effects:
            if isinstance(effect, Send):
                self.under_way.append(effect)
            elif isinstance(effect, ReservationAnswered) and effect.is_confirmed:
                self.confirmed.append(effect.number)

    def _check_told(self) -> None:
        """Law l, while nobody gave it back."""
        for number in self.confirmed:
            reservation = self.home.of(number)
            if reservation.is_over:
                continue
            for name in reservation.nodes:
                kept = self.nodes[name].version(named(number), reservation.version)
                assert kept is not None
                assert kept.phase is Phase.CONFIRMED
                assert kept.start_wall_s == reservation.terms.start_wall_s

    def check_rest(self) -> None:
        """Law m."""
        there: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            assert not node.until_s, "a hold outlived its time"
            assert not node.later, "a version is on some nodes beside the one that stands"
            for reservation, kept in node.kept.items():
                there.setdefault(f"{reservation} {kept.version}", []).append(name)
        wanted = {}
        for reservation in self.home.home.reservations.all(over=True):
            is_there = reservation.state is ReservationState.CONFIRMED
            assert is_there or reservation.is_over, f"{reservation} does not come to rest"
            assert not reservation.unanswered, f"{reservation} waits for nodes"
            assert reservation.next is None, f"{reservation} changes without end"
            assert not reservation.missing, f"{reservation} lacks nodes"
            if is_there:
                key = f"{named(reservation.number)} {reservation.version}"
                wanted[key] = list(reservation.nodes)
        assert there == wanted


@given(happenings)
def test_all_nodes_or_none_whatever_happens_to_messages_and_the_home(happened):
    reserving = Reserving()
    reserving.step("ask", 1)
    for what, choice in happened:
        reserving.step(what, choice)
    reserving.come_to_rest()
    reserving.check_rest()


def test_without_faults_a_reservation_comes_about():
    reserving = Reserving()
    reserving.step("ask", 2)
    reserving.come_to_rest()
    reserving.check_rest()
    assert reserving.confirmed == [1]
    assert reserving.home.of().nodes == ("a", "b", "c")
    assert reserving.home.of().terms == terms(nodes=3)
