"""What this machine has granted: its calendar, who holds what of it, and which GPUs are whose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from iriai.model.claim import Claim
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.resources import Resources
from iriai.node.held_claim import HeldClaim
from iriai.node.lease_renewal import ASK_PART, LeaseRenewal
from iriai.node.settings import NodeSettings
from iriai.policy.placement.calendar import AHEAD_WAIT_S, Calendar
from iriai.protocol.messages.scheduling import Run


class Claims:
    """By attempt, in the order in which they were granted; each until its end is acknowledged."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self.calendar: Calendar[AttemptId] = Calendar(settings.capacity)
        self.leases = LeaseRenewal(settings.machine)
        self._held: dict[AttemptId, HeldClaim] = {}
        self._waiting: dict[AttemptId, HeldClaim] = {}
        """Granted ahead: they hold nothing yet. In the order in which they came."""
        self._free_gpu_ids = list(range(settings.capacity.gpus))

    def restore(self, claims: Iterable[Claim], now: Instant) -> None:
        """Those that were found in the store; what became of them is not known yet."""
        for claim in claims:
            self._hold(HeldClaim.restored(claim, now, self._settings.end_slack_s), now)
            self._free_gpu_ids = [gpu for gpu in self._free_gpu_ids if gpu not in claim.gpu_ids]

    def __iter__(self) -> Iterator[AttemptId]:
        return iter(self._held)

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self._held

    def get(self, attempt: AttemptId) -> HeldClaim | None:
        """What is known of an attempt; None: it has no claim, or its end was acknowledged."""
        return self._held.get(attempt)

    def all(self) -> list[HeldClaim]:
        """Each of them."""
        return list(self._held.values())

    def running(self) -> list[AttemptId]:
        """The attempts that hold a claim, in the order in which it was granted."""
        return [attempt for attempt, held in self._held.items() if held.end is None]

    def live(self, now_s: float) -> list[AttemptId]:
        """Those of them that may run: their lease, if they have one, was confirmed and is not over.

        Of claims that a restarted node found, nothing is known before their homes have answered.
        """
        return [
            attempt
            for attempt in self.running()
            if self._held[attempt].is_confirmed and not self._held[attempt].is_lease_over(now_s)
        ]

    def stored(self) -> list[Claim]:
        """All that a node which came up now must find: granted, and not acknowledged."""
        return [held.as_charged() for held in self._held.values()]

    def specs(self) -> list[JobSpec]:
        """What the attempts are that may still have to be started."""
        return [held.spec for held in self._held.values() if held.spec and not held.end]

    def grant(
        self, run: Run, minted_s: float, now: Instant, *, is_ahead: bool = False
    ) -> HeldClaim:
        """A claim for what was asked, with a capability of that moment; the caller has judged it.

        Its lease begins at once, unless the capability is too old to say that its home wants it.
        """
        settings, lease_s = self._settings, run.lease_s
        held = HeldClaim(
            self._claim(run, now, is_ahead=is_ahead),
            run.spec,
            now.steady_s,
            run.capability,
            end_slack_s=settings.end_slack_s,
        )
        if lease_s is not None and now.steady_s < minted_s + lease_s * ASK_PART:
            held.leased_steady_s = minted_s
        self._hold(held, now)
        return held

    def _claim(self, run: Run, now: Instant, *, is_ahead: bool) -> Claim:
        spec = run.spec
        resources = self._settings.capacity if spec.exclusive else spec.resources
        gpu_ids = tuple(self._free_gpu_ids[: resources.gpus])
        del self._free_gpu_ids[: resources.gpus]
        return Claim(
            run.attempt,
            spec.account,
            spec.user,
            resources,
            spec.time_limit_s,
            spec.urgency,
            now.wall_s,
            gpu_ids,
            self._settings.boot_id,
            spec.kill_grace_s,
            lease_s=run.lease_s,
            is_ahead=is_ahead,
        )

    def _hold(self, held: HeldClaim, now: Instant) -> None:
        claim = held.claim
        if claim.is_ahead:
            self._waiting[claim.attempt] = held
        else:
            self.calendar.add(claim.attempt, claim.resources, now.steady_s, held.stay_left_s(now))
        self._held[claim.attempt] = held
        if claim.lease_s is not None:
            self.leases.add(held, now.steady_s)

    # --- granted ahead ---------------------------------------------------------------------------

    @property
    def waiting(self) -> list[HeldClaim]:
        """What was granted ahead and has no place yet, in the order in which it came."""
        return list(self._waiting.values())

    @property
    def followable(self) -> Resources:
        """What claims hold that nobody waits for yet."""
        claimed = self._settings.capacity.minus(self.calendar.free)
        for held in self._waiting.values():
            claimed = claimed.minus(held.claim.resources)
        return claimed

    @property
    def give_back_s(self) -> float | None:
        """When the first has waited too long, on the steady clock; None: nothing waits."""
        first = next(iter(self._waiting.values()), None)
        return None if first is None else first.granted_steady_s + AHEAD_WAIT_S

    def begin(self, held: HeldClaim, now: Instant) -> None:
        """What waited takes its place."""
        claim = held.claim = replace(held.claim, is_ahead=False)
        held.granted_steady_s = now.steady_s
        del self._waiting[claim.attempt]
        self.calendar.add(claim.attempt, claim.resources, now.steady_s, held.stay_left_s(now))

    # --- what ends -------------------------------------------------------------------------------

    def free(self, claim: Claim) -> None:
        """The attempt is over: nothing of the machine is its any more."""
        if self._waiting.pop(claim.attempt, None) is None:
            self.calendar.remove(claim.attempt)
        self.leases.remove(claim.attempt)
        gpus = self.calendar.capacity.gpus
        # A machine that came back with fewer gpus has no use for the others.
        self._free_gpu_ids = sorted(
            [*self._free_gpu_ids, *(gpu for gpu in claim.gpu_ids if gpu < gpus)]
        )

    def drop(self, attempt: AttemptId) -> None:
        """Nobody will ask for this attempt any more."""
        del self._held[attempt]

    def check(self) -> None:
        """Raise where invariant (a) is broken, or what it rests on."""
        self.calendar.check()
        gpu_ids = list(self._free_gpu_ids)
        for attempt, held in self._held.items():
            is_waiting = attempt in self._waiting
            assert is_waiting == (held.claim.is_ahead and held.end is None), f"{attempt}: ahead"
            assert not (is_waiting and held.started_wall_s), f"{attempt} runs without a place"
            is_there = attempt in self.calendar or is_waiting
            assert is_there == (held.end is None), f"{attempt}: claim and end"
            assert len(held.claim.gpu_ids) == held.claim.resources.gpus, f"{attempt}: gpus"
            if held.end is None:
                gpu_ids += held.claim.gpu_ids
        claims = len(self.calendar) + len(self._waiting)
        assert claims == len(self.running()), "a claim that nobody holds"
        assert sorted(gpu_ids) == list(range(self.calendar.capacity.gpus)), f"gpus {gpu_ids}"
