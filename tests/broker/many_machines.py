"""Several machines around a lone broker: what is matched runs, may end, and links may break."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from iriai.classad.expression import parse_expression
from iriai.classad.reference_evaluator import evaluate
from iriai.classad.syntax_tree import holds
from iriai.classad.volatile_attributes import clock_attributes, load_attributes
from iriai.model.ad import Value, job_attributes, machine_ad
from iriai.model.ids import AttemptId
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import longest_stay_s
from iriai.protocol.messages.effects import LinkDown, LinkUp, Part, Wake, WakeAt
from iriai.protocol.messages.scheduling import (
    Decline,
    FailedAtOnce,
    Idle,
    Match,
    Running,
    Want,
    Withdraw,
)
from tests.broker.lone_broker import LoneBroker, as_running, want
from tests.support.told import instant, job, told

KINDS = (Resources(2), Resources(4), Resources(8, 0, 2))
DRAINED = Reason(Rule.DRAINED, "that it is resumed", "drained by ann")


@dataclass
class Node:
    """One machine as it is."""

    name: str
    capacity: Resources
    running: dict[AttemptId, Running] = field(default_factory=dict)
    is_away: bool = False
    is_drained: bool = False
    load: float = 0.0
    speed: float = 1.0
    owner: str = ""
    """What its owner requires of jobs."""

    @property
    def attributes(self) -> dict[str, Value]:
        return {"MyType": "Machine", "Machine": self.name, "Cpus": self.capacity.cpus}

    @property
    def free(self) -> Resources:
        left = self.capacity
        for running in self.running.values():
            left = left.minus(running.resources)
        return left


class ManyMachines:
    """Each call is a turn, and those that follow from it."""

    def __init__(self, *capacities: Resources, owners=(), **section) -> None:
        self.broker = LoneBroker(**section)
        self.nodes = {
            f"m{number}": Node(f"m{number}", capacity) for number, capacity in enumerate(capacities)
        }
        for node, owner in zip(self.nodes.values(), owners, strict=False):
            node.owner = owner
        self.wants: dict[int, Want] = {}
        self.waiting: dict[int, int] = {}
        self.started: list[tuple[int, str]] = []
        self._attempts = 0

    @property
    def state(self):
        return self.broker.broker.state

    def report_all(self) -> None:
        self.tell(*[self.idle(node, whole=True) for node in self.nodes.values()])

    def idle(self, node: Node, *, whole: bool = False, **fields) -> Idle:
        began = tuple(node.running.values()) if whole else ()
        return self.broker.idle(
            node.capacity.cpus if whole else 0,
            whole=whole,
            machine=node.name,
            capacity=node.capacity,
            unavailable=DRAINED if node.is_drained else None,
            load=node.load,
            ad=machine_ad(node.attributes, node.owner) if whole else None,
            speed=node.speed,
            **({"began": began} | fields),
        )

    def tell(self, *messages) -> None:
        """And have what is matched run, until nothing more starts."""
        inbox = list(messages)
        while inbox:
            said = told(self.broker.turn(*inbox))
            inbox = self._begin([message for message in said.home if isinstance(message, Match)])
            if WakeAt(Part.BROKER, self.broker.now_s) in said.others:
                inbox.append(Wake(Part.BROKER))

    def _begin(self, matches: list[Match]) -> list[Decline | Idle]:
        messages: list[Decline | Idle] = []
        for match in matches:
            node = self.nodes[match.seats[0].machine]
            assert not node.is_away, f"{match} is asked of a machine that is away"
            assert not node.is_drained, f"{match} is asked of a machine that is drained"
            number = match.job.number
            if not self.waiting.get(number):
                messages.append(Decline(match.job, match.seats))
                continue
            self.waiting[number] -= 1
            self._attempts += 1
            running = self._claim(node, self.wants[number], match)
            self.started.append((number, node.name))
            fresh = self.broker.capabilities(1)
            spent = (match.seats[0].capability,)
            fields = {"began": (running,), "spent": spent, "capabilities": fresh}
            messages.append(self.idle(node, **fields))
        return messages

    def _claim(self, node: Node, wanted: Want, match: Match) -> Running:
        resources = node.capacity if wanted.exclusive else wanted.resources
        assert resources.fits_in(node.free), f"{match} does not fit"
        assert self._agree(node, wanted), f"{match} does not match"
        made = as_running(
            wanted,
            attempt_id=AttemptId("ume", wanted.job.number, 0, self._attempts),
            ends_in_s=longest_stay_s(wanted.limit_s, wanted.grace_s),
            capability=match.seats[0].capability,
        )
        fields = {name: getattr(made, name) for name in made.__struct_fields__}
        running = Running(**(fields | {"resources": resources}))
        node.running[running.attempt] = running
        return running

    def _agree(self, node: Node, wanted: Want) -> bool:
        """As HTCondor's library sees it."""
        clock = clock_attributes(instant(self.broker.now_s).wall_s // 60 * 60, {})
        machine = node.attributes | load_attributes(node.load, 0.0, None) | clock
        job_ad = job_attributes(
            wanted.account,
            wanted.resources,
            wanted.limit_s,
            wanted.urgency,
            exclusive=wanted.exclusive,
        )
        sides = ((wanted.requirements, job_ad, machine), (node.owner, machine, job_ad))
        return all(
            not text or holds(evaluate(parse_expression(text, "a test"), my, target))
            for text, my, target in sides
        )

    # --- what happens ----------------------------------------------------------------------------

    def submit(self, user: str = "ann", **fields) -> int:
        number = len(self.wants) + 1
        self.wants[number] = wanted = want(number, user, **fields)
        self.waiting[number] = wanted.count
        self.tell(wanted)
        return number

    def withdraw(self, number: int) -> None:
        self.waiting[number] = 0
        self.tell(Withdraw(job(number)))

    def lose(self, *names: str) -> None:
        """All that runs on these machines is lost at once, in one report; it waits again."""
        for name in names:
            node = self.nodes[name]
            lost = tuple(node.running)
            node.running.clear()
            fresh = self.broker.capabilities(len(lost))
            back = []
            for attempt in lost:
                self.waiting[attempt.number] += 1
                wanted = self.wants[attempt.number]
                back.append(replace(wanted, count=self.waiting[attempt.number]))
            self.tell(self.idle(node, ended=lost, lost=lost, capabilities=fresh), *back)

    def fail(self, *names: str, spare: int = 0) -> None:
        """All that runs on these machines fails at once, but for tasks of the job `spare`."""
        for name in names:
            node = self.nodes[name]
            ended = tuple(attempt for attempt in node.running if attempt.number != spare)
            for attempt in ended:
                del node.running[attempt]
            failed = tuple(FailedAtOnce(attempt, 127) for attempt in ended)
            fresh = self.broker.capabilities(len(ended))
            self.tell(self.idle(node, ended=ended, failed=failed, capabilities=fresh))

    def end(self, node: Node, attempt: AttemptId) -> None:
        del node.running[attempt]
        if not node.is_away:
            fresh = self.broker.capabilities(1)
            self.tell(self.idle(node, ended=(attempt,), capabilities=fresh))

    def end_all(self, name: str) -> None:
        for attempt in list(self.nodes[name].running):
            self.end(self.nodes[name], attempt)

    def drain(self, name: str, *, is_drained: bool = True) -> None:
        self.nodes[name].is_drained = is_drained
        if not self.nodes[name].is_away:
            self.tell(self.idle(self.nodes[name]))

    def break_link(self, name: str) -> None:
        self.nodes[name].is_away = True
        self.tell(LinkDown(name))

    def mend_link(self, name: str) -> None:
        self.nodes[name].is_away = False
        self.tell(LinkUp(name), self.idle(self.nodes[name], whole=True))

    def forget(self, name: str) -> None:
        """Somebody says that a machine which is away is gone for good."""
        self.broker.broker.forget_machine(name, instant(self.broker.now_s))
        self.tell(LinkDown(name))

    @property
    def wake_s(self) -> float:
        """When a user's tasks are tried again where they were kept away."""
        return self.state.exclusions.next_s

    # --- what is so ------------------------------------------------------------------------------

    def place_of(self, number: int) -> str:
        [name] = [name for started, name in self.started if started == number]
        return name

    def wake(self) -> None:
        """Its alarm goes off."""
        self.tell(Wake(Part.BROKER))

    def why(self, number: int) -> list[Reason]:
        return self.broker.broker.explain(job(number), instant(self.broker.now_s))

    def rules(self, number: int) -> list[Rule]:
        return [reason.rule for reason in self.why(number)]

    def load(self, name: str, load: float) -> None:
        """Its load is that."""
        node = self.nodes[name]
        node.load = load
        self.tell(self.idle(node))

    def owned(self, name: str, owner: str) -> None:
        """Its owner thinks better of it, and its daemon was started anew."""
        node = self.nodes[name]
        node.owner = owner
        self.tell(self.idle(node, whole=True))
