"""The node core: admission, running attempts and their charges, on one machine.

In: messages from homes, events from the launcher, alarms. Out: acceptances and refusals (never
"wait"), orders to the launcher, ends, and to the broker what is idle. docs/spec/002 has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from iriai.model.account import Account
from iriai.model.claim import Claim
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.reason import Reason, Rule
from iriai.model.records import ClaimsDropped, ClaimStored, Incarnated, LedgerRow
from iriai.model.resources import Resources, describe_amount
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.node.capabilities import Capabilities
from iriai.node.ledger import Ledger
from iriai.policy.calendar import Calendar
from iriai.policy.fairshare import ChargeRule, charge
from iriai.protocol.effects import (
    AttemptExited,
    AttemptsSampled,
    AttemptStarted,
    Effect,
    ForgetAttempt,
    LaunchAttempt,
    LauncherAttached,
    LauncherEvent,
    LauncherLost,
    Part,
    Persist,
    SampleAttempts,
    Send,
    TerminateAttempt,
    Wake,
    WakeAt,
)
from iriai.protocol.messages import (
    Accepted,
    Acknowledge,
    Begun,
    Capability,
    Counted,
    End,
    Idle,
    Refusal,
    Run,
    Running,
    Stop,
    ToBroker,
    ToNode,
)

SLICE_S = 10.0
"""Running tasks are charged each slice, so that a draw knows of long ones while they run."""

NodeEvent = ToNode | LauncherEvent | Wake


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a node is told about its machine."""

    machine: str
    capacity: Resources
    rule: ChargeRule
    half_life_s: float
    speed: float = 1.0
    boot_id: str = ""
    """Changes with every boot of the machine."""


@dataclass(slots=True)
class _Held:
    """A claim and what is known of the attempt that holds it."""

    claim: Claim
    spec: JobSpec | None
    granted_steady_s: float
    capability: Capability | None = None
    started_wall_s: float | None = None
    started_steady_s: float | None = None
    charged_s: float = 0.0
    stop: Stop | None = None
    end: End | None = None


class Node:
    """Authority over one machine; see the module."""

    def __init__(
        self,
        settings: NodeSettings,
        rng: Random,
        incarnation: int,
        claims: Iterable[Claim],
        ledger: Iterable[LedgerRow],
        now: Instant,
    ) -> None:
        self.settings = settings
        self.version = 0
        self.calendar: Calendar[AttemptId] = Calendar(settings.capacity)
        self.has_launcher = False
        self._capabilities = Capabilities(incarnation, rng)
        self._ledger = Ledger(settings.half_life_s, ledger)
        self._held: dict[AttemptId, _Held] = {}
        self._free_gpu_ids = list(range(settings.capacity.gpus))
        self._began: list[AttemptId] = []
        self._ended: list[AttemptId] = []
        self._spent: list[Capability] = []
        self._sliced: list[AttemptId] = []
        self._broker_is_new = True
        self._must_report = True
        self._alive: dict[AttemptId, None] | None = None
        """What a launcher that has just attached runs; None: nothing to compare."""
        self._slice_is_set = False
        self._effects: list[Effect] = [Persist(Incarnated(incarnation))]
        self._handlers: dict[type, Callable[[Any, Instant], None]] = {
            Run: self._run,
            Stop: self._stop,
            Acknowledge: self._acknowledge,
            AttemptStarted: self._started,
            AttemptExited: self._exited,
            AttemptsSampled: self._sampled,
            LauncherAttached: self._attached,
            LauncherLost: self._launcher_lost,
            Wake: self._wake,
        }
        for claim in claims:
            self._restore(claim, now)

    def handle(self, event: NodeEvent, now: Instant) -> list[Effect]:
        """Take one event in; the effects that cannot wait for `settle`."""
        self._handlers[type(event)](event, now)
        return self._take_effects()

    def settle(self, now: Instant) -> list[Effect]:
        """After the events of one instant: tell the broker what is idle and what was counted."""
        if self._alive is not None:
            self._reconcile(self._alive, now)
            self._alive = None
        rows = self._ledger.take_changed()
        self._effects.extend(Persist(row) for row in rows)
        if self._must_report:
            self._report(rows, now)
        if not self._slice_is_set and len(self.calendar):
            self._slice_is_set = True
            self._effects.append(WakeAt(Part.NODE, now.steady_s + SLICE_S))
        return self._take_effects()

    def running(self) -> list[AttemptId]:
        """The attempts that hold a claim, in the order in which it was granted."""
        return [attempt for attempt, held in self._held.items() if held.end is None]

    def started_wall_s(self, attempt: AttemptId) -> float | None:
        """When the attempt's process began; None: not yet, or not here."""
        held = self._held.get(attempt)
        return held.started_wall_s if held else None

    def check(self) -> None:
        """Raise where an invariant of this part is broken."""
        self.calendar.check()
        for attempt, held in self._held.items():
            assert (attempt in self.calendar) == (held.end is None), f"{attempt}: claim and end"

    # --- claims ----------------------------------------------------------------------------------

    def _run(self, run: Run, now: Instant) -> None:
        held = self._held.get(run.attempt)
        if held is not None:
            self._run_again(run, held)
            return
        reason = self._refusal(run)
        if reason is not None:
            self._effects.append(Send("", Part.HOME, Refusal(run.attempt, reason)))
            return
        spec = run.spec
        gpu_ids = tuple(self._free_gpu_ids[: spec.resources.gpus])
        del self._free_gpu_ids[: spec.resources.gpus]
        claim = Claim(
            run.attempt,
            spec.account,
            spec.user,
            spec.resources,
            spec.time_limit_s,
            spec.urgency,
            now.wall_s,
            gpu_ids,
            self.settings.boot_id,
        )
        self._hold(claim, spec, now, run.capability)
        self._began.append(run.attempt)
        self._effects.append(Persist(ClaimStored(claim)))
        self._effects.append(LaunchAttempt(run.attempt, spec, gpu_ids))
        self._effects.append(Send("", Part.HOME, Accepted(run.attempt)))

    def _refusal(self, run: Run) -> Reason | None:
        if run.capability is None or not self._capabilities.redeem(run.capability):
            return Reason(
                Rule.STALE_CAPABILITY,
                "a capability of this incarnation, not used before",
                f"{run.capability}",
                self.settings.machine,
            )
        self._must_report = True
        self._spent.append(run.capability)
        if not self.has_launcher:
            return self._no_launcher()
        lacking = run.spec.resources.lacking_in(self.calendar.free)
        if lacking:
            resource, needed, there = lacking[0]
            return Reason(
                Rule.MACHINE_BUSY,
                describe_amount(resource, needed),
                f"{describe_amount(resource, there)} free",
                self.settings.machine,
            )
        return None

    def _no_launcher(self) -> Reason:
        return Reason(
            Rule.NO_LAUNCHER,
            "a launcher that answers",
            "none is connected",
            self.settings.machine,
        )

    def _run_again(self, run: Run, held: _Held) -> None:
        """A restarted home asks again for an attempt that has its claim."""
        held.spec = run.spec
        if held.end is not None:
            self._effects.append(Send("", Part.HOME, held.end))
        elif held.started_wall_s is not None:
            begun = Begun(run.attempt, self.settings.machine, held.started_wall_s)
            self._effects.append(Send("", Part.HOME, begun))
        elif self.has_launcher and held.claim.boot_id == self.settings.boot_id:
            self._effects.append(LaunchAttempt(run.attempt, run.spec, held.claim.gpu_ids))

    def _hold(
        self, claim: Claim, spec: JobSpec | None, now: Instant, capability: Capability | None
    ) -> None:
        self.calendar.add(claim.attempt, claim.resources, now.steady_s, claim.limit_s)
        self._held[claim.attempt] = _Held(claim, spec, now.steady_s, capability)
        self._must_report = True

    def _restore(self, claim: Claim, now: Instant) -> None:
        self._hold(claim, None, now, None)
        self._free_gpu_ids = [gpu for gpu in self._free_gpu_ids if gpu not in claim.gpu_ids]

    def _stop(self, stop: Stop, now: Instant) -> None:
        held = self._held.get(stop.attempt)
        if held is not None and held.end is None:
            held.stop = stop
            self._effects.append(TerminateAttempt(stop.attempt, stop.cause, stop.grace_s))

    def _acknowledge(self, message: Acknowledge, now: Instant) -> None:
        if self._held.pop(message.attempt, None) is not None:
            self._effects.append(Persist(ClaimsDropped((message.attempt,))))
            self._effects.append(ForgetAttempt(message.attempt))

    # --- the launcher ----------------------------------------------------------------------------

    def _attached(self, event: LauncherAttached, now: Instant) -> None:
        self.has_launcher = True
        self._alive = dict.fromkeys(attempt for attempt, _ in event.alive)
        self._must_report = True
        for attempt, started_wall_s in event.alive:
            if attempt in self._held:
                self._started(AttemptStarted(attempt, started_wall_s), now)
            else:
                self._effects.append(TerminateAttempt(attempt, EndCause.LOST, 0.0))

    def _reconcile(self, alive: dict[AttemptId, None], now: Instant) -> None:
        """Compare claims with what a launcher runs, its unacknowledged ends taken in already.

        What it may never have heard of is ordered again: for those it has, a no-op. What has
        run, or was granted in an earlier boot, and is not there any more, is lost.
        """
        for attempt, held in list(self._held.items()):
            if held.end is not None or attempt in alive:
                continue
            if held.started_wall_s is not None or held.claim.boot_id != self.settings.boot_id:
                self._exited(self._lost(held, now), now)
            elif held.spec is not None:
                self._effects.append(LaunchAttempt(attempt, held.spec, held.claim.gpu_ids))
                if held.stop is not None:
                    stop = held.stop
                    self._effects.append(TerminateAttempt(attempt, stop.cause, stop.grace_s))

    def _lost(self, held: _Held, now: Instant) -> AttemptExited:
        start_wall_s = held.started_wall_s or held.claim.granted_wall_s
        return AttemptExited(
            held.claim.attempt,
            EndCause.LOST,
            None,
            None,
            Usage(),
            start_wall_s,
            now.wall_s,
            0.0,
            "the launcher knows nothing of it: the machine was restarted, or its journal is gone",
        )

    def _launcher_lost(self, event: LauncherLost, now: Instant) -> None:
        self.has_launcher = False
        self._must_report = True

    def _started(self, event: AttemptStarted, now: Instant) -> None:
        held = self._held.get(event.attempt)
        if held is None or held.started_wall_s is not None:
            return
        held.started_wall_s = event.started_wall_s
        held.started_steady_s = now.steady_s - max(0.0, now.wall_s - event.started_wall_s)
        begun = Begun(event.attempt, self.settings.machine, event.started_wall_s)
        self._effects.append(Send("", Part.HOME, begun))

    def _exited(self, event: AttemptExited, now: Instant) -> None:
        held = self._held.get(event.attempt)
        if held is None:
            self._effects.append(ForgetAttempt(event.attempt))
            return
        if held.end is None:
            self._end(held, event, now)
        if held.end is not None:
            self._effects.append(Send("", Part.HOME, held.end))

    def _end(self, held: _Held, event: AttemptExited, now: Instant) -> None:
        claim = held.claim
        cause = event.cause
        if cause is EndCause.REFUSED:  # the launcher's word is final: no later attempt fares better
            cause = EndCause.FAILED
        whole_s = self._charge(claim, event.elapsed_s, event.usage.cpu_s)
        self._count(claim.account, held, whole_s, now)
        if cause in (EndCause.COMPLETED, EndCause.FAILED):
            self._ledger.ran(claim.account, event.elapsed_s)
        held.end = End(
            event.attempt,
            self.settings.machine,
            cause,
            event.exit_code,
            event.signal,
            event.usage,
            event.started_wall_s,
            event.ended_wall_s,
            event.elapsed_s,
            held.charged_s,
            event.message,
        )
        self.calendar.remove(event.attempt)
        self._free_gpu_ids.extend(claim.gpu_ids)
        self._free_gpu_ids.sort()
        self._ended.append(event.attempt)
        self._must_report = True

    # --- charges ---------------------------------------------------------------------------------

    def _charge(self, claim: Claim, ran_s: float, cpu_s: float) -> float:
        return charge(
            claim.resources,
            ran_s,
            cpu_s,
            self.settings.rule,
            speed=self.settings.speed,
            urgency=claim.urgency,
        )

    def _count(self, account: Account, held: _Held, whole_s: float, now: Instant) -> None:
        """Add to the ledger what `whole_s` has more than was charged in earlier slices."""
        more_s = max(0.0, whole_s - held.charged_s)
        if more_s:
            held.charged_s += more_s
            self._ledger.add(account, more_s, now.wall_s)

    def _sampled(self, event: AttemptsSampled, now: Instant) -> None:
        for attempt, usage in event.samples:
            held = self._held.get(attempt)
            if held is None or held.end is not None or held.started_steady_s is None:
                continue
            ran_s = now.steady_s - held.started_steady_s
            whole_s = self._charge(held.claim, ran_s, usage.cpu_s)
            self._count(held.claim.account, held, whole_s, now)
            self._sliced.append(attempt)
        self._must_report = True

    def _wake(self, event: Wake, now: Instant) -> None:
        self._slice_is_set = False
        if len(self.calendar) and self.has_launcher:
            self._effects.append(SampleAttempts())

    # --- the broker ------------------------------------------------------------------------------

    def _report(self, rows: tuple[LedgerRow, ...], now: Instant) -> None:
        self._must_report = False
        self.version += 1
        whole = self._broker_is_new
        self._broker_is_new = False
        minted = self._capabilities.mint(max(0, self.calendar.free.cpus), self.version)
        attempts = [a for a in self._began if a in self.calendar] if not whole else self.running()
        idle = Idle(
            machine=self.settings.machine,
            incarnation=self._capabilities.incarnation,
            version=self.version,
            capacity=self.settings.capacity,
            capabilities=self._capabilities.outstanding() if whole else minted,
            spent=tuple(self._spent),
            began=tuple(self._as_running(attempt, now) for attempt in attempts),
            ended=tuple(self._ended),
            whole=whole,
            unavailable=None if self.has_launcher else self._no_launcher(),
        )
        self._began, self._ended, self._spent = [], [], []
        sliced, self._sliced = self._sliced, []
        counted = Counted(
            self.settings.machine,
            self._ledger.rows() if whole else rows,
            tuple((a, self._held[a].charged_s) for a in sliced if a in self._held),
        )
        messages: tuple[ToBroker, ...] = (counted, idle)
        self._effects.extend(Send("", Part.BROKER, message) for message in messages)

    def _as_running(self, attempt: AttemptId, now: Instant) -> Running:
        held = self._held[attempt]
        limit_s = held.claim.limit_s
        began_s = held.started_steady_s or held.granted_steady_s
        return Running(
            attempt,
            held.claim.account,
            held.claim.resources,
            None if limit_s is None else max(0.0, began_s + limit_s - now.steady_s),
            held.charged_s,
            held.claim.urgency,
            held.capability,
        )

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
