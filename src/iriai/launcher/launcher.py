"""The launcher itself: messages in, messages out, with the journal between.

One turn handles everything that has arrived, writes it to the journal at once, and only then acts:
intents are in the journal before anything is spawned, ends before they are reported.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from iriai.launcher.connection import Passed
from iriai.launcher.contract.machine_config import BadMachineFile
from iriai.launcher.contract.messages import (
    LAUNCHER_VERSION,
    LOWERING,
    Alive,
    Attach,
    Attached,
    Discard,
    EndBarrier,
    EndInput,
    Enforced,
    Enforcement,
    Exit,
    Exited,
    Freeze,
    FreezeState,
    FromLauncher,
    Frozen,
    HookFailed,
    Launch,
    MeasureLowering,
    Prolong,
    SampleAll,
    Sampled,
    SetCycle,
    SetStandingOrder,
    ShutDown,
    Spawned,
    StartStep,
    Template,
    Terminate,
    ToLauncher,
    UnreadTemplate,
)
from iriai.launcher.journal.journal import (
    Boot,
    Dropped,
    EpilogsDone,
    Exits,
    Intent,
    Intents,
    Journal,
    Owed,
    ProcessStarts,
)
from iriai.launcher.spawn.spawn import Prepared
from iriai.launcher.system.crash_points import crash_point
from iriai.launcher.tasks.admission import Authorizer, NotStarted
from iriai.launcher.tasks.limit_monitor import LeaseTimers
from iriai.launcher.tasks.parts import ENDED, LauncherParts
from iriai.launcher.tasks.start_queue import SPAWNS_A_TURN, Epilogs, StartQueue
from iriai.launcher.tasks.suspended_tasks import SuspendedTasks
from iriai.launcher.tasks.task import LimitExceeded, RunningTask
from iriai.launcher.tasks.tasks import Tasks
from iriai.model.ids import AttemptId
from iriai.model.state import START_TOLD_IN_CROWD_S, START_TOLD_WITHIN_S, EndCause
from iriai.model.usage import Usage
from iriai.system.clock import steady_s, wall_s

if TYPE_CHECKING:
    from iriai.launcher.tasks.lowering import TaskLowering

log = logging.getLogger(__name__)

CROWD_PER_CPU = 4
"""With more tasks than this for each processor, no processor idles until the next one starts."""
SHUT_DOWN_GRACE_S = 5.0
"""The longest grace between SIGTERM and SIGKILL when the launcher ends."""
RETRY_S = 1.0
"""Pause before ends are journalled again after a failure (the disk is full)."""
SYNC_WITHIN_S = 1.0
"""How long a record may stay unsynced: a power cut loses at most the ends of one second, and of
those only what no daemon has stored (docs/adr/0006). Seldom enough to cost nothing."""
NEVER_ORDERED = "it was ended before it was ordered"
SHUT_DOWN = LimitExceeded(EndCause.EVICTED, "the launcher was shut down")


class MessageProblem(Exception):
    """The daemon violates the protocol."""


class Launcher:
    """Executes the requests of the daemon, each once."""

    def __init__(
        self,
        parts: LauncherParts,
        journal: Journal,
        admission: Authorizer,
        starting: StartQueue,
        tasks: Tasks,
        epilogs: Epilogs,
        leases: LeaseTimers,
        suspended: SuspendedTasks,
        configure: Callable[[], tuple[Enforcement, ...]],
    ) -> None:
        """`configure` applies the configuration of the machine and returns how limits are enforced.

        It raises `BadMachineFile`.
        """
        self._configure = configure
        self.defects = parts.defects
        """Unforeseen errors: each costs one attempt or message."""
        self._journal = journal
        self._known = journal.known
        self._admission = admission
        self._starting = starting
        self._tasks = tasks
        self._steps = tasks.steps
        self._hooks = parts.hooks
        self._epilogs = epilogs
        self._unfit_reported: dict[AttemptId, None] = {}
        self._timers = parts.timers
        self._leases = leases
        self._suspended = suspended
        self._switcher = parts.switcher
        self._owner = parts.owner
        self._parts = parts
        self._lowering: TaskLowering | None = None
        """None: no order has lowered any task."""
        self._intents: list[Intent] = []
        """Not journalled yet; each of them is starting too, unless it was given up since."""
        self._ends: dict[AttemptId, Exit] = {}
        """Not journalled yet."""
        self._crowd = CROWD_PER_CPU * len(os.sched_getaffinity(0))
        self._retry_s = 0.0
        """When ends are journalled again after a failure."""
        self._sync_s: float | None = None
        """When the journal is synced; None: it has nothing unsynced."""
        self._untold: dict[AttemptId, tuple[float, Alive]] = {}
        """Starts that the daemon has not heard of, and when each is told, in this order."""
        self._started_again: list[Alive] = []
        self._ended_again: list[Exit] = []
        """The state of attempts that were ordered again."""
        self._replies: list[FromLauncher | Passed] = []
        self._is_shutting_down = False
        self.children_ended = False
        """To be set when a child may have ended."""

    @property
    def has_work(self) -> bool:
        """Whether the next turn has work to do without waiting for anything."""
        return self._starting.has_work or (bool(self._ends) and steady_s() >= self._retry_s)

    @property
    def is_crowded(self) -> bool:
        """Whether so many tasks run that none of them waits for another moment."""
        return len(self._tasks) > self._crowd

    @property
    def is_finished(self) -> bool:
        """Whether it was shut down, and all ends have been reported."""
        return self._is_shutting_down and not (
            self._tasks or self._starting or self._ends or self._epilogs
        )

    def next_s(self) -> float | None:
        """Return when the next turn is due on the steady clock if nothing happens before."""
        retry_s = self._retry_s if self._ends else None
        tell_s = next(iter(self._untold.values()))[0] if self._untold else None
        moments = (self._timers.next_s(), self._sync_s, tell_s, retry_s)
        return min((each for each in moments if each is not None), default=None)

    def attach(self, message: Attach) -> list[FromLauncher | Passed]:
        """Return all streams and the state, for a daemon that connected.

        Raises `MessageProblem`.
        """
        try:
            enforcement = self._configure()
        except BadMachineFile as bad:
            raise MessageProblem(str(bad)) from bad
        if self._lowering is not None:
            enforcement = (*enforcement, self._lowering.enforcement())
        self._epilogs.recover()
        self._admission.forget()
        self._admission.users.require_at_least(message.run_minimum_uid)
        # An end is not reported before it is journalled; until then its task counts as running.
        unwritten = (Alive(end.attempt, 0, end.started_wall_s) for end in self._ends.values())
        waiting = (Alive(end.attempt, 0, end.started_wall_s) for end in self._epilogs.running())
        alive = (*(task.alive for task in self._tasks), *unwritten, *waiting, *self._steps.alive())
        ends = tuple(e for e in self._known.exits.values() if e.attempt not in self._epilogs)
        unfit = tuple(self._hooks.unfit.values())
        boot = self._known.boot
        if boot is None:
            raise RuntimeError("no boot was recorded when this launcher began")
        attached = Attached(
            LAUNCHER_VERSION,
            os.getpid(),
            boot.boot_id,
            enforcement,
            alive,
            self._steps.ended() + ends,
            unfit,
            self.defects.so_far(),
        )
        states = self._suspended.states()
        frozen = [Frozen(states)] if states else []
        seen = [self._owner.seen()] if self._owner.has_order else []
        streams, barriers = self._tasks.streams.all_passed(), self._tasks.pmi.barriers()
        return [*streams, attached, *barriers, *seen, *frozen]

    def handle(self, message: ToLauncher) -> None:
        """Handle one message. Raises `MessageProblem`."""
        match message:
            case Launch():
                self._launch(message)
            case Terminate():
                reason = LimitExceeded(message.cause, message.message)
                for attempt in message.attempts:
                    self._terminate(attempt, reason, message.grace_s)
            case StartStep():
                self._steps.start(message)
            case Discard():
                self._discard(message.attempts)
            case SampleAll():
                samples = tuple((task.attempt, task.usage_now()) for task in self._tasks)
                self._replies.append(Sampled(samples))
            case Prolong():
                self._run_timers()  # a lease that is over stays over
                self._leases.renew(message.home, message.asked_s)
            case Freeze(orders):
                self._suspended.take(orders, self._starting.__contains__)
            case SetCycle():
                self._suspended.take_cycle(message)
            case SetStandingOrder() | MeasureLowering():
                self._serve_owner(message)
            case EndBarrier(attempt, number, put):
                self._tasks.pmi.fenced(attempt, number, dict(put))
            case EndInput(attempt):
                self._tasks.streams.end_input(attempt)
            case ShutDown():
                self.shut_down()
            case Attach():
                self._replies += self.attach(message)

    def _serve_owner(self, order: SetStandingOrder | MeasureLowering) -> None:
        """Go by an order for signs of the owner; tasks enter the idle class, or leave it."""
        if isinstance(order, MeasureLowering):
            if self._lowering is None:
                row = Enforcement(LOWERING, "not lowered", "no order has asked for it")
                self._replies.append(Enforced(row))
            else:
                self._lowering.measure()
            return
        self._owner.take(order)
        if not order.lowers and self._lowering is None:
            return
        if self._lowering is None:
            from iriai.launcher.tasks.lowering import TaskLowering

            background, boot = self._parts.lower_tasks(), self._known.boot
            if background.idle and boot is not None:  # so that the next launcher looks there
                self._note(Boot(boot.boot_id, (*boot.parents, background.idle)))
            self._lowering = TaskLowering(self._parts, self._tasks, background)
        self._lowering.follow()

    def shut_down(self) -> None:
        """End all tasks; start none from here on."""
        log.info("shutting down, %d tasks run", len(self._tasks))
        self._is_shutting_down = True
        for attempt in self._starting.attempts():
            self._terminate(attempt, SHUT_DOWN, 0.0)
        for task in list(self._tasks):
            grace_s = min(task.spec.kill_grace_s, SHUT_DOWN_GRACE_S)
            self._tasks.end(task, SHUT_DOWN, grace_s, steady_s())

    def turn(self) -> list[FromLauncher | Passed]:
        """Do what is due; return the messages for the daemon."""
        if self.children_ended:
            self.children_ended = False
            self._tasks.reap()
        self._run_timers()
        self._timers.drop_stale(len(self._tasks))
        ended = self._ended_again + self._after(self._write())
        started = self._told(self._spawn(), ended)
        if self._switcher.is_dirty:
            self._switcher.flush()
        self._sync()
        messages, self._replies = self._replies, []
        messages += self._tasks.streams.passed()
        frozen = self._frozen(started, ended) if self._suspended.news else ()
        if self._hooks.unfit:
            messages += self._unfit()
        if self._owner.has_conditions:
            self._owner.tasks_run(bool(self._tasks))
        if self._lowering is not None and self._lowering.has_news:
            messages.append(Enforced(self._lowering.enforcement()))
        if self._owner.has_news:
            messages.append(self._owner.seen())
            messages += map(Enforced, self._owner.news())
        if started:
            messages.append(Spawned(tuple(started)))
        if frozen:
            messages.append(Frozen(frozen))
        if self._tasks.pmi.news:
            messages += self._tasks.pmi.drain_news()
        if steps := self._steps.drain_exits():
            messages.append(Exited(tuple(steps)))
        if ended:
            messages.append(Exited(tuple(ended)))
            self._ended_again = []
        if self._switcher.has_news and (row := self._switcher.news()) is not None:
            messages.append(Enforced(row))
        defective = self.defects.news()
        if defective is not None:
            messages.append(defective)
        return messages

    def _run_timers(self) -> None:
        """Run the timers that are due; an error ends the task that it concerns."""
        now_s = steady_s()
        for about, error in self._timers.run_due(now_s):
            if isinstance(about, RunningTask):
                words = self.defects.record(f"checking limits of {about.attempt}", error, ENDED)
                self._tasks.give_up(about, words, now_s)
            else:
                self.defects.record("a timer", error)

    def _after(self, ends: list[Exit]) -> list[Exit]:
        """Return the ends that may be reported: without an epilog, or after it."""
        if not (ends or self._epilogs):
            return ends
        reported = self._epilogs.after(ends)
        owed = self._known.owed
        done = tuple(end.attempt for end in reported if end.attempt in owed) if owed else ()
        if done:
            self._note(EpilogsDone(done))
        return reported

    def _unfit(self) -> list[HookFailed]:
        """Return the failures of hooks since the last call."""
        fresh = [
            each for each in self._hooks.unfit.values() if each.attempt not in self._unfit_reported
        ]
        self._unfit_reported.update(dict.fromkeys(each.attempt for each in fresh))
        return fresh

    def _launch(self, message: Launch) -> None:
        now_wall_s = wall_s()
        prepared = self._prepared(message)
        if self._is_shutting_down:
            refusal = NotStarted(EndCause.REFUSED, "the launcher is shutting down")
            prepared = [refusal for _ in prepared]
        for order in message.orders:
            if self._is_known(order.attempt):
                continue
            try:
                intent = self._starting.admit(order, prepared[order.template], now_wall_s)
            except NotStarted as why:
                self._not_started(order.attempt, why)
            except Exception as error:  # noqa: BLE001 - it costs this attempt alone
                text = self.defects.record(f"admitting {order.attempt}", error)
                self._not_started(order.attempt, NotStarted(EndCause.FAILED, text))
            else:
                self._intents.append(intent)

    def _prepared(self, message: Launch) -> list[Prepared | NotStarted]:
        """Return the common part of the tasks of each template, which all have one home."""
        homes: dict[int, str] = {}
        count = len(message.templates)
        for order in message.orders:
            if not 0 <= order.template < count:
                raise MessageProblem("an order names a template that does not exist")
            if homes.setdefault(order.template, order.attempt.home) != order.attempt.home:
                raise MessageProblem("a template is for tasks of two homes")
        result: list[Prepared | NotStarted] = []
        templates: Sequence[Template | UnreadTemplate] = message.templates
        for place, template in enumerate(templates):
            home = homes.get(place, "")
            if isinstance(template, UnreadTemplate):
                result.append(NotStarted(EndCause.FAILED, template.problem))
                continue
            try:
                result.append(self._admission.prepare(template, home, steady_s()))
            except Exception as error:  # noqa: BLE001 - it costs the attempts of this job alone
                text = self.defects.record(f"preparing a job of {home}", error)
                result.append(NotStarted(EndCause.FAILED, text))
        return result

    def _is_known(self, attempt: AttemptId) -> bool:
        """Return whether `attempt` was ordered before; if so, report its state again."""
        known = self._known
        if attempt in known.intents:
            task = self._tasks.get(attempt)
            if task is not None:
                self._started_again.append(task.alive)
        elif attempt in self._epilogs:
            return True
        elif attempt in known.exits:
            self._ended_again.append(known.exits[attempt])
        elif attempt in known.forgotten:
            text = "this attempt ended here earlier, and its end was acknowledged"
            self._not_started(attempt, NotStarted(EndCause.REFUSED, text))
        else:
            return attempt in self._starting or attempt in self._ends
        return True

    def _terminate(self, attempt: AttemptId, reason: LimitExceeded, grace_s: float) -> None:
        task = self._tasks.get(attempt)
        if task is None and attempt.rank:  # over the output of a rank
            task = self._tasks.get(self._tasks.streams.seat_of(attempt))
        if attempt.step:
            self._steps.terminate(attempt, reason, grace_s)
        elif task is not None:
            self._tasks.end(task, reason, grace_s, steady_s())
        elif attempt in self._starting:
            self._starting.give_up(attempt)
            self._not_started(attempt, NotStarted(reason.cause, reason.message))
        elif not (attempt in self._known or attempt in self._epilogs or attempt in self._ends):
            # Its daemon has come back without what it would be started from.
            self._not_started(attempt, NotStarted(reason.cause, NEVER_ORDERED))

    def _discard(self, attempts: tuple[AttemptId, ...]) -> None:
        """Forget the ends of attempts and steps, which the daemon has stored."""
        has_steps = False
        for attempt in attempts:
            if attempt.step:
                has_steps = True
                self._steps.discard(attempt)
                continue
            self._hooks.unfit.pop(attempt, None)
            self._unfit_reported.pop(attempt, None)
            self._tasks.streams.close(attempt)
        if has_steps:  # which the journal does not know
            attempts = tuple(each for each in attempts if not each.step)
        if attempts:
            self._note(Dropped(attempts))

    def _spawn(self) -> list[Alive]:
        """Spawn journalled attempts; return those that run, with those that were ordered again."""
        started = self._starting.spawn_some()
        further = self._tasks.start_ranks(SPAWNS_A_TURN) if self._tasks.unfinished else ()
        if started or further:
            self._note(ProcessStarts(tuple(started), tuple(further)))
        failed, self._starting.failed = self._starting.failed, []
        for attempt, why in failed:
            self._not_started(attempt, why)
        again, self._started_again = self._started_again, []
        return again + [alive for alive, _ in started] if started else again

    def _told(self, started: list[Alive], ended: list[Exit]) -> list[Alive]:
        """Return the starts that are told now; those of the ended are told by their ends."""
        untold = self._untold
        if not (started or untold):
            return []
        for end in ended:
            untold.pop(end.attempt, None)
        now_s, told = steady_s(), list[Alive]()
        for due_s, alive in untold.values():
            if due_s > now_s:
                break
            told.append(alive)
        for alive in told:
            del untold[alive.attempt]
        tell_s = now_s + (START_TOLD_IN_CROWD_S if self.is_crowded else START_TOLD_WITHIN_S)
        for alive in started:
            if alive.attempt in self._tasks.streams:  # somebody looks at what it prints
                told.append(alive)
            else:
                untold[alive.attempt] = (tell_s, alive)
        return told

    def _frozen(self, started: list[Alive], ended: list[Exit]) -> tuple[FreezeState, ...]:
        """Return how far tasks are frozen; adds those to `started` whose start was not told."""
        over = dict.fromkeys(end.attempt for end in ended)
        states = [each for each in self._suspended.drain_news() if each.attempt not in over]
        for state in states:
            found = self._untold.pop(state.attempt, None)
            if found is not None:
                started.append(found[1])
        return tuple(states)

    def _not_started(self, attempt: AttemptId, why: NotStarted) -> None:
        now_s = wall_s()
        end = Exit(attempt, why.cause, why.exit_code, None, Usage(), now_s, now_s, 0.0, why.message)
        self._ends.setdefault(attempt, end)

    def _note(self, record: Boot | Dropped | ProcessStarts | EpilogsDone) -> None:
        """Journal a record that may be lost: after a crash, its question is asked again."""
        try:
            self._journal.append(record, sync=False)
            self._journal.compact_if_grown()
        except OSError:
            log.exception("the journal could not be written")

    def _write(self) -> list[Exit]:
        """Journal new intents and ends; return the ends, or nothing if that failed."""
        for end in self._tasks.drain_exits():
            self._ends[end.attempt] = end
            self._epilogs.begun(end.attempt)
        intents, self._intents = self._intents, []
        if not intents and (not self._ends or steady_s() < self._retry_s):
            return []
        ends, records = list(self._ends.values()), list[Intents | Exits | Owed]()
        if intents:
            records.append(Intents(tuple(intents)))
            records += self._epilogs.drain_new()
        if ends:
            crash_point("before-exit-journal")
            records.append(Exits(tuple(ends)))
        try:
            self._journal.append(*records, sync=False)
        except OSError as error:
            self._retry_s = steady_s() + RETRY_S
            self._refuse_unwritten(intents, error)
            return []
        if intents:
            crash_point("after-intent")
        if ends:
            crash_point("after-exit-journal")
        self._ends.clear()
        return ends

    def _sync(self) -> None:
        """Sync the journal once its oldest unsynced record is `SYNC_WITHIN_S` old."""
        if self._journal.is_synced:
            return
        if self._sync_s is None:
            self._sync_s = steady_s() + SYNC_WITHIN_S
        elif steady_s() >= self._sync_s:
            self._journal.sync()
            self._sync_s = None

    def _refuse_unwritten(self, intents: list[Intent], error: OSError) -> None:
        """Refuse intents that could not be journalled; ends are kept for later."""
        log.error("not written: %d intents, %d ends: %s", len(intents), len(self._ends), error)
        why = f"the launcher's journal could not be written: {error.strerror}"
        for intent in intents:
            if intent.attempt in self._starting:
                self._starting.give_up(intent.attempt)
                self._not_started(intent.attempt, NotStarted(EndCause.REFUSED, why))
