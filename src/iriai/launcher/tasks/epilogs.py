"""Epilogs that are due, and the ends that wait for them.

An attempt's end is written down when it is known, and told when the epilog is over: until then the
machine is not free for others. What is owed is in the journal, so that a launcher that comes after
a crash runs the epilogs of all that was lost with the one before.
"""

from __future__ import annotations

from iriai.launcher.contract.messages import Exit, StartOrder
from iriai.launcher.hooks.hooks import Hooks, cleaned, hook_environment, uncleanness
from iriai.launcher.journal.journal import JournalState, Owed
from iriai.launcher.spawn.spawn import Prepared
from iriai.launcher.tasks.admission import NotStarted
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause


class Epilogs:
    """From the order of an attempt to the end of its epilog."""

    def __init__(self, hooks: Hooks, known: JournalState) -> None:
        self._hooks = hooks
        self._known = known
        self._new: list[Owed] = []
        self._due: dict[AttemptId, dict[str, str]] = {}
        """The environment of each epilog to come."""
        self._begun: dict[AttemptId, None] = {}
        """Of these, those before which something was done on the machine."""
        self._running: dict[AttemptId, Exit] = {}
        """Ends that wait for their epilog."""
        self._done: list[Exit] = []

    def __len__(self) -> int:
        """How many run, or have ended and were not taken."""
        return len(self._running) + len(self._done)

    def __contains__(self, attempt: AttemptId) -> bool:
        """Whether the end of `attempt` waits for its epilog."""
        return attempt in self._running

    def running(self) -> list[Exit]:
        """The ends that wait."""
        return list(self._running.values())

    def owe(self, order: StartOrder, prepared: Prepared) -> None:
        """An attempt is about to be admitted: it owes an epilog, if one is configured.

        Raises `NotStarted` where the epilog may not be told whose it is.
        """
        if self._hooks.wants_epilog(order.attempt):
            environment = hook_environment(order, prepared)
            words = uncleanness(environment)
            if words:
                raise NotStarted(EndCause.FAILED, words)
            self._due[order.attempt] = environment
            self._new.append(Owed(order.attempt, environment))

    def drain_new(self) -> list[Owed]:
        """What is owed since the last call, to be written down before it begins."""
        new, self._new = self._new, []
        return new

    def begun(self, attempt: AttemptId) -> None:
        """Its prolog or the attempt itself began."""
        if attempt in self._due:
            self._begun[attempt] = None

    def forgive(self, attempt: AttemptId) -> None:
        """The machine is to stay as it is after this attempt."""
        self._begun.pop(attempt, None)

    def recover(self) -> None:
        """Run what attempts of an earlier launcher owe; call it once settings are known."""
        for attempt, owed in list(self._known.owed.items()):
            end = self._known.exits.get(attempt)
            if end is not None and not self._is_in_hand(attempt):
                self._due[attempt] = cleaned(owed.environment)
                self._begun[attempt] = None
                self._after(end)

    def _is_in_hand(self, attempt: AttemptId) -> bool:
        is_done = any(end.attempt == attempt for end in self._done)
        return is_done or attempt in self._running or attempt in self._due

    def after(self, ends: list[Exit]) -> list[Exit]:
        """Begin the epilogs of `ends`; returns those that need not wait, and those that have."""
        free = [end for end in ends if not self._after(end)]
        done, self._done = self._done, []
        return free + done

    def _after(self, end: Exit) -> bool:
        """Whether the end has to wait now."""
        attempt = end.attempt
        environment = self._due.pop(attempt, None)
        if environment is None:
            return False
        is_begun = attempt in self._begun
        self._begun.pop(attempt, None)
        if not is_begun or not self._hooks.wants_epilog(attempt):
            return False
        result = {
            "IRIAI_CAUSE": end.cause.value,
            "IRIAI_EXIT_CODE": "" if end.exit_code is None else str(end.exit_code),
            "IRIAI_SIGNAL": "" if end.signal is None else str(end.signal),
        }
        self._running[attempt] = end
        self._hooks.start_epilog(attempt, environment | result, lambda _: self._ended(attempt))
        return True

    def _ended(self, attempt: AttemptId) -> None:
        self._done.append(self._running.pop(attempt))
