"""Signs of a machine's owner, the sensors that notice them, and what a launcher does at one.

docs/spec/016 has the rules; the source is paper 003, section 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta

from iriai.model.bounds import Few, Name, Percent, Seconds, Weight, Words
from iriai.model.ids import AttemptId

WORD_S_MIN, WORD_S_MAX = 1.0, 30 * 86_400.0
"""How long the owner's word may hold."""
PROGRAMS_MAX, PROGRAM_LENGTH_MAX = 64, 255
"""Programs that may be named, and the length of a name: that of a file's."""
FOREIGN_CPUS_MAX = 65_536.0
"""More than any machine has."""
TEMPERATURE_MAX_C = 150.0
"""No processor works at more."""


class SignKind(StrEnum):
    """What showed that the owner uses the machine."""

    START = "start"
    """Nothing: the sensors began to look, and nobody knows what was before."""
    TERMINAL = "terminal"
    """Somebody typed at a terminal, here or over ssh."""
    INPUT = "input"
    """A key, the mouse or another input device was used."""
    SESSION = "session"
    """An agent in a graphical session says that somebody uses it."""
    CPU = "cpu"
    """Others than our tasks use more processor time than they may."""
    PRESSURE = "pressure"
    """Programs of the owner wait for memory or disks."""
    GPU = "gpu"
    """Others than our tasks compute on a GPU."""
    PROGRAM = "program"
    """A program runs that was named."""
    BATTERY = "battery"
    """The machine runs on its battery."""
    TEMPERATURE = "temperature"
    """The machine is hotter than it may be."""

    @property
    def is_condition(self) -> bool:
        """Return whether it is looked for again and again, and lasts.

        Such a sensor says nothing of who else may be there: a machine that has no other counts as
        in use.
        """
        return self in CONDITIONS


CONDITIONS = (
    *(SignKind.CPU, SignKind.PRESSURE, SignKind.GPU, SignKind.PROGRAM),
    *(SignKind.BATTERY, SignKind.TEMPERATURE),
)
CONSOLE = SignKind.INPUT, SignKind.SESSION
INPUTS = SignKind.TERMINAL, SignKind.INPUT, SignKind.SESSION
"""Signs of hands: what counts for `ConsoleIdle`, and for `KeyboardIdle`."""


class OwnerWord(StrEnum):
    """What the owner has said."""

    HERE = "here"
    AWAY = "away"


class Sign(NamedTuple):
    """The last sign of one kind."""

    kind: SignKind
    at_s: Seconds
    """On the steady clock."""


class SensorState(NamedTuple):
    """How the sensor of one kind of sign does."""

    kind: SignKind
    works: bool
    note: Words = ""
    """What it watches, or why it does not work; for people."""
    holds: bool = False
    """Whether a condition holds now."""

    @property
    def outline(self) -> SensorState:
        """Return what is told at once: what one that works measures changes all the time."""
        return self._replace(note="") if self.works else self


REPEAT_S_MIN, REPEAT_S_MAX = 1.0, 10.0


class SensorSettings(NamedTuple):
    """Which conditions of the machine are signs; None and False: not that one."""

    programs: Annotated[tuple[Name, ...], Few] = ()
    """Names of processes."""
    foreign_cpus_max: Weight | None = None
    """So many processors others than our tasks may use."""
    pressure_percent_max: Percent | None = None
    """For so much of the time programs of the owner may wait."""
    temperature_max_c: Weight | None = None
    gpu_processes: bool = False
    on_battery: bool = False
    repeat_s: Seconds = REPEAT_S_MAX
    """How often a condition that lasts is told."""

    @property
    def kinds(self) -> tuple[SignKind, ...]:
        """Return which there are sensors for."""
        wanted = {
            SignKind.CPU: self.foreign_cpus_max is not None,
            SignKind.PRESSURE: self.pressure_percent_max is not None,
            SignKind.GPU: self.gpu_processes,
            SignKind.PROGRAM: bool(self.programs),
            SignKind.BATTERY: self.on_battery,
            SignKind.TEMPERATURE: self.temperature_max_c is not None,
        }
        return tuple(kind for kind, is_wanted in wanted.items() if is_wanted)


NO_CONDITIONS = SensorSettings()

Signs = Annotated[tuple[Sign, ...], Meta(max_length=len(SignKind))]
SensorStates = Annotated[tuple[SensorState, ...], Meta(max_length=len(SignKind))]


class MachineUse(NamedTuple):
    """How a machine is used, as it says in its ad beside its load."""

    console_idle_s: Seconds | None = None
    """Time since its keyboard or mouse was used, or a graphical session; None: it is unknown."""
    on_battery: bool | None = None
    """None: nobody looks."""
    all_stand: bool = False
    """Whether all tasks stand for the owner."""
    some_end: bool = False
    """Whether some are being ended for the owner."""


class StandingOrder:
    """What a launcher does at a sign, by the last order of its node (spec 016, section 4)."""

    def __init__(self) -> None:
        self.number = -1
        """Of the last order; negative: there was none."""
        self.signs = 0
        """How many signs there were."""
        self.is_given = False
        """Whether a sign keeps tasks frozen now."""
        self.suspends = False
        """Whether a sign does, by that order."""
        self.lowers = False
        """Whether what gives way runs in the idle class, by that order."""
        self._exempt: Mapping[AttemptId, None] = {}

    def take(
        self,
        number: int,
        exempt: tuple[AttemptId, ...],
        signs: int,
        *,
        suspends: bool,
        are_over: bool,
        lowers: bool = False,
    ) -> bool:
        """Take in an order; return whether it is newer than the last.

        `signs` are those that the node has taken in; if `are_over`, and there were no others since,
        they keep nothing frozen any more.
        """
        if number <= self.number:
            return False
        self.number, self.suspends, self.lowers = number, suspends, lowers
        self._exempt = dict.fromkeys(exempt)
        if not suspends or (are_over and signs == self.signs):
            self.is_given = False
        return True

    def sign(self) -> bool:
        """Count a sign; return whether tasks are to be frozen that were not until now."""
        self.signs += 1
        was_given, self.is_given = self.is_given, self.suspends
        return self.is_given and not was_given

    def keeps(self, attempt: AttemptId) -> bool:
        """Return whether an attempt is to be frozen for it."""
        return self.is_given and attempt not in self._exempt

    def puts_behind(self, attempt: AttemptId) -> bool:
        """Return whether an attempt belongs into the idle class."""
        return self.lowers and attempt not in self._exempt
