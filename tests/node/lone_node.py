"""A node alone: home, broker and launcher are played by the test."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from iriai.model.ad import MachineAd
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.records import Drained
from iriai.model.reservable import UNLIMITED, Reservable
from iriai.model.reservation import NO_SHOW_CHARGE
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.node.core import Node
from iriai.node.queues import NodeQueues
from iriai.node.settings import JudgeUser, NodeSettings, admit_everybody, no_port
from iriai.policy.accounting.decay import ChargeRule, Decay
from iriai.policy.owner.owner_steps import OwnerSteps
from iriai.protocol.messages.effects import AttemptExited, LauncherAttached
from iriai.protocol.messages.reservations import BookedTime
from iriai.protocol.messages.scheduling import Capability, Counted, Idle, Run
from tests.support.told import HOME, WALL_S, Told, attempt, instant, spec, told


class LoneNode:
    """Each event is a turn of its own; capabilities are those of its reports."""

    def __init__(
        self,
        cpus: int = 4,
        gpus: int = 0,
        *,
        claims=(),
        ledger=(),
        incarnation: int = 1,
        boot_id: str = "boot",
        now_s: float = 0.0,
        attached: bool = True,
        is_checked: bool = True,
        load_max: float | None = None,
        rule: ChargeRule | None = None,
        drained: Drained | None = None,
        ad: MachineAd | None = None,
        judge_user: JudgeUser = admit_everybody,
        free_port: Callable[[], int] = no_port,
        queues: NodeQueues | None = None,
        memory_bytes: int = 0,
        owner: OwnerSteps | None = None,
        bookings=(),
        stepped_s: float = 0.0,
        half_life_s: float = 3600.0,
        unused_factor: float = 1.0,
        no_show_charge: float = NO_SHOW_CHARGE,
        reservable: Reservable = UNLIMITED,
        reserves_above: bool = False,
    ) -> None:
        self.now_s = now_s
        self.stepped_s = stepped_s
        self.started: set[int] = set()
        self.is_checked = is_checked
        settings = NodeSettings(
            HOME,
            Resources(cpus, memory_bytes, gpus),
            rule or ChargeRule(),
            Decay(half_life_s),
            boot_id=boot_id,
            load_max=load_max,
            ad=ad,
            judge_user=judge_user,
            free_port=free_port,
            queues=queues or NodeQueues(),
            owner=owner,
            unused_factor=unused_factor,
            no_show_charge=no_show_charge,
            reservable=reservable,
            reserves_above=reserves_above,
        )
        kept = (claims, ledger, self.instant(), drained, bookings)
        self.node = Node(settings, Random(1), incarnation, *kept)
        self.capabilities: list[Capability] = []
        self.ahead: list[Capability] = []
        self.idle: Idle
        self.bookings: tuple[BookedTime, ...] = ()
        """As the broker knows them."""
        self.counted: Counted
        self.first = self.settle()
        if attached:
            self.tell(LauncherAttached(()))

    def tell(self, *events) -> Told:
        """Give it the events of one instant; returns what it says, without its reports."""
        effects = []
        for event in events:
            effects += self.node.handle(event, self.instant())
        return self.settle(effects)

    def settle(self, effects=()) -> Told:
        said = told([*effects, *self.node.end_turn(self.instant())])
        for message in said.broker:
            match message:
                case Idle():
                    self.idle = message
                    self.bookings = self.bookings if message.bookings is None else message.bookings
                    self.capabilities = [c for c in self.capabilities if c not in message.spent]
                    known = [] if message.whole else self.capabilities
                    self.capabilities = [*known, *message.capabilities]
                    self.ahead = [c for c in self.ahead if c not in message.spent]
                    self.ahead = [*([] if message.whole else self.ahead), *message.ahead]
                case Counted():
                    self.counted = message
        if self.is_checked:
            self.node.check()
        return said

    def run(
        self,
        number: int = 1,
        job: JobSpec | None = None,
        lease_s: float | None = None,
        **changes,
    ) -> Told:
        """A home asks for the first attempt of a job, with a good capability."""
        asked = Run(attempt(number), job or spec(**changes), self.capabilities[0], lease_s)
        return self.tell(asked)

    def instant(self) -> Instant:
        now = instant(self.now_s)
        return now._replace(wall_s=now.wall_s + self.stepped_s)

    def step_clock(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.stepped_s += seconds

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


def exited(number: int = 1, cause=EndCause.COMPLETED, *, ran_s: float = 10.0, cpu_s=0.0, why=""):
    """How the launcher tells an end."""
    code = {EndCause.COMPLETED: 0, EndCause.FAILED: 1}.get(cause)
    return AttemptExited(
        attempt(number), cause, code, None, Usage(cpu_s), WALL_S, WALL_S + ran_s, ran_s, why
    )
