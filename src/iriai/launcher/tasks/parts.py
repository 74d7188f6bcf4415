"""What tasks are started, watched and ended with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from iriai.launcher.containment.container import Background, Containments
from iriai.launcher.containment.namespaces.pool import Namespaces
from iriai.launcher.contract.messages import Defective
from iriai.launcher.directories.scratch import Scratch
from iriai.launcher.environment.processors import Processors
from iriai.launcher.gpus.gpus import Gpus
from iriai.launcher.hooks.hooks import Hooks
from iriai.launcher.owner.owner_watch import OwnerWatch
from iriai.launcher.pmi.pmi_sockets import Watch
from iriai.launcher.slices.switcher_process import Switcher
from iriai.launcher.spawn.payloads import PayloadFiles
from iriai.launcher.spawn.spawn import ReadyHelper, Spawner
from iriai.launcher.spawn.streams import TaskEnds
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks.task import RunningTask
from iriai.system.internal_errors import InternalErrors

NOT_STARTED = "kept it from starting"
ENDED = "ended it"


class Defects(InternalErrors):
    """Internal errors since this launcher started.

    Guarded by this are the actions of timers, descriptors and ended children, and what is done for
    one attempt. Not guarded are the turn itself and the journal: an error there leaves in doubt
    what is written down, and the launcher begins again from that (ADR 0087).
    """

    def __init__(self) -> None:
        super().__init__()
        self._reported = 0
        """How many the daemon knows of."""

    def so_far(self) -> Defective | None:
        """Return what a daemon that attaches has to know; None: there was no error."""
        self._reported = self.count
        return Defective(self.count, self.last) if self.count else None

    def news(self) -> Defective | None:
        """Return the same if there was another error since the last report, else None."""
        return self.so_far() if self.count != self._reported else None

    def record(self, doing: str, error: Exception, cost: str = NOT_STARTED) -> str:
        """Count and log an error in `doing`; return the message for whoever waits for that."""
        self.add(f"internal error {self.count + 1} of this launcher, {doing}", error)
        kind = type(error).__name__
        return f"an internal error of the launcher {cost} ({kind}); see its log"


class LauncherParts(NamedTuple):
    """What tasks are started, watched and ended with; made once."""

    spawner: Spawner
    containers: Containments
    payloads: PayloadFiles
    scratch: Scratch
    namespaces: Namespaces
    timers: Timers
    hooks: Hooks
    gpus: Gpus
    defects: Defects
    watch: Watch
    processors: Processors
    switcher: Switcher
    owner: OwnerWatch
    lower_tasks: Callable[[], Background]
    """Finds how background tasks are kept behind the owner's programs, and has those be that start
    from then on."""


class ReadyTask(NamedTuple):
    """A task that has everything but a process."""

    task: RunningTask
    helper: ReadyHelper
    ends: TaskEnds
    uid: int
    mark: str
