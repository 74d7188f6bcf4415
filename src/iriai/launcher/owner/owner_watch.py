"""What the launcher knows of the machine's owner, and what it is to do at a sign."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from iriai.launcher.contract.messages import OWNER_SIGNS, Enforcement, OwnerSeen, SetStandingOrder
from iriai.launcher.owner.sensor_messages import (
    SIGN_PAUSE_S,
    FromSensors,
    Noticed,
    SensorReport,
)
from iriai.launcher.owner.sensor_process import SensorProcess
from iriai.launcher.pmi.pmi_sockets import Watch
from iriai.launcher.system.timers import Timers
from iriai.model.ids import AttemptId
from iriai.model.owner import (
    NO_CONDITIONS,
    SensorSettings,
    SensorState,
    Sign,
    SignKind,
    StandingOrder,
)
from iriai.system.clock import steady_s

SENSORS = SignKind.TERMINAL, SignKind.INPUT, SignKind.SESSION
SOONEST_S = SIGN_PAUSE_S / 2
"""A sign that comes sooner after one of its kind is not counted: honest ones were only delayed."""
_BEGINS = "it has not begun yet"


def _unheard() -> None:
    """Do nothing: nobody is to be told."""


class OwnerWatch:
    """The standing order of the node, the signs so far, and how the sensors do."""

    def __init__(
        self,
        watch: Watch,
        timers: Timers,
        devices: str,
        state: str,
        own: tuple[str, int] = ("", 1),
    ) -> None:
        """`devices` is like /dev, `state` the state directory.

        `own` is the control group above all tasks that counts processor time, and its version;
        empty: there is none. Nothing is watched before the first order.
        """
        self.process = SensorProcess(watch, timers, devices, state, own, self._hear, self._lost)
        self.on_change: Callable[[], None] = _unheard
        """Called when other attempts are to be frozen than before."""
        self._order = StandingOrder()
        self.lowers = False
        """Whether `puts_behind` is true of any attempt."""
        self._last: dict[SignKind, Sign] = {}
        self._heard_s: dict[SignKind, float] = {}
        """When the last sign of each kind came from the process that there is now."""
        self._conditions = NO_CONDITIONS
        self._kinds: tuple[SignKind, ...] = SENSORS
        self.has_conditions = False
        """Whether it is to know whether tasks run."""
        self._is_busy = False
        self._sensors = self._none_works(_BEGINS)
        self.reclaimed: tuple[AttemptId, ...] = ()
        """The attempts whose memory the owner is to have back."""
        self.has_news = False
        """Whether the daemon is to be told `seen`."""
        self._told = self._outline()

    @property
    def has_order(self) -> bool:
        """Whether there was a standing order."""
        return self._order.number >= 0

    @property
    def is_given(self) -> bool:
        """Whether a sign keeps attempts frozen now."""
        return self._order.is_given

    def puts_behind(self, attempt: AttemptId) -> bool:
        """Return whether an attempt belongs into the idle class."""
        return self._order.puts_behind(attempt)

    def keeps(self, attempt: AttemptId) -> bool:
        """Return whether an attempt is to be frozen for the owner."""
        return self._order.keeps(attempt)

    def take(self, order: SetStandingOrder) -> None:
        """Go by this order, if it is newer than the last; it is answered in any case."""
        number, exempt, signs = order.number, order.exempt, order.signs
        suspends, are_over, lowers = order.suspends, order.are_over, order.lowers
        self.has_news = True
        if self._order.take(
            number, exempt, signs, suspends=suspends, are_over=are_over, lowers=lowers
        ):
            self.reclaimed, self.lowers = order.reclaimed, self._order.lowers
            self.on_change()
            self._watch_conditions(order.conditions)
        self.process.start()

    def _watch_conditions(self, conditions: SensorSettings) -> None:
        if conditions != self._conditions:
            self._conditions, self._kinds = conditions, SENSORS + conditions.kinds
            self.has_conditions = bool(conditions.kinds)
            known = {each.kind: each for each in self._sensors}
            self._set(tuple(known.get(each, _broken(each, _BEGINS)) for each in self._kinds))
            self.process.watch(conditions, is_busy=self._is_busy)

    def tasks_run(self, is_busy: bool) -> None:
        """Note whether tasks run; sensors of conditions look more often then."""
        if is_busy is not self._is_busy:
            self._is_busy = is_busy
            self.process.watch(self._conditions, is_busy=is_busy)

    def seen(self) -> OwnerSeen:
        """Return what the daemon is told."""
        self.has_news = False
        return OwnerSeen(self._order.signs, tuple(self._last.values()), self._sensors)

    def enforcement(self) -> Enforcement:
        """Return how the owner is noticed here, for `doctor`."""
        if not self.has_order:
            return Enforcement(OWNER_SIGNS, "not watched", "this machine has no owner policy")
        works = [each.kind.value for each in self._sensors if each.works]
        lasting = [each for each in self._sensors if not (each.works and each.kind.is_condition)]
        notes = [f"{each.kind}: {each.note}" for each in lasting]
        by = f"sensors: {', '.join(works)}" if works else "no sensor works: it counts as in use"
        return Enforcement(OWNER_SIGNS, by, "; ".join(notes))

    def news(self) -> list[Enforcement]:
        """Return the same if others work than at the last call."""
        before, self._told = self._told, self._outline()
        return [] if self._told == before else [self.enforcement()]

    def _outline(self) -> tuple[bool, list[SensorState]]:
        return self.has_order, [each.outline._replace(holds=False) for each in self._sensors]

    # --- the process -----------------------------------------------------------------------------

    def _hear(self, message: FromSensors) -> None:
        match message:
            case Noticed(kind, at_s):
                self._sign(kind, at_s, steady_s())
            case SensorReport(sensors):
                told = {each.kind: each for each in sensors}
                self._set(tuple(told.get(kind, _broken(kind, "not there")) for kind in self._kinds))

    def _sign(self, kind: SignKind, at_s: float, now_s: float) -> None:
        if now_s < self._heard_s.get(kind, -inf) + SOONEST_S:
            return
        self._heard_s[kind] = now_s
        last = self._last.get(kind)
        at_s = min(at_s, now_s)
        self._last[kind] = Sign(kind, at_s if last is None else max(at_s, last.at_s))
        self.has_news = True
        if self._order.sign():
            self.on_change()

    def _lost(self, why: str) -> None:
        self._heard_s.clear()  # the next begins a second after the last, as late as that was heard
        self._set(self._none_works(why))

    def _set(self, sensors: tuple[SensorState, ...]) -> None:
        if sensors != self._sensors:
            self._sensors, self.has_news = sensors, True

    def _none_works(self, why: str) -> tuple[SensorState, ...]:
        return tuple(_broken(kind, why) for kind in self._kinds)


def _broken(kind: SignKind, why: str) -> SensorState:
    return SensorState(kind, False, why)
