"""The pool of control groups: made once, used by one task after the other."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import msgspec

from iriai.launcher.containment.cgroups.controllers import (
    CpuAccount,
    CpuShares,
    Memory,
    MemoryV1,
    MemoryV2,
    Pids,
    make_afresh,
    read_pids,
    write_file,
)
from iriai.launcher.containment.cgroups.devices import Devices, DevicesV1, DevicesV2, Nodes
from iriai.launcher.containment.cgroups.freezer import Freezer
from iriai.launcher.containment.cgroups.hierarchy import ControllerMount
from iriai.launcher.containment.container import (
    Background,
    Containment,
    FreezerFile,
    Limits,
    Use,
)
from iriai.launcher.containment.stopping import HALTS, StoppedProcesses
from iriai.system.clock import steady_s
from iriai.system.procfs import Process, read_processes, sum_of

if TYPE_CHECKING:
    from iriai.launcher.containment.paging import PagedMemory

log = logging.getLogger(__name__)


class TaskGroup(Containment, msgspec.Struct):
    """One group, in each hierarchy that is used; None stands for a missing controller."""

    number: int
    directories: tuple[str, ...]
    """Of its groups, without repetition; the first one lists the members."""
    own_joins: tuple[str, ...]
    """Options of iriai-exec that make it a member, ..."""
    joins: tuple[str, ...]
    """... and those by which it is frozen with the others."""
    cards: tuple[Nodes, ...] = ()
    """All known cards; the group is used as long as they do not change."""
    shares: CpuShares | None = None
    account: CpuAccount | None = None
    memory: Memory | None = None
    count: Pids | None = None
    devices: Devices | None = None
    """None where no GPUs are known."""
    has_kill: bool = False
    """Whether the first directory has `cgroup.kill`."""
    freezer: Freezer | None = None
    """None: it is frozen by signals."""
    _limits: Limits | None = None
    """Those that all controllers have; None: that is not known."""
    _stopped: StoppedProcesses | None = None
    """None: no task was frozen by signals."""

    @property
    def limits_memory(self) -> bool:
        """Whether the kernel keeps the memory limit and the peak."""
        return self.memory is not None

    @property
    def limits_processes(self) -> bool:
        """Whether the kernel keeps the process limit."""
        return self.count is not None

    @property
    def alarm_fd(self) -> int:
        """Readable when the memory limit was hit; -1 where there is no such sign."""
        return self.memory.alarm_fd if self.memory else -1

    def prepare(self, limits: Limits) -> None:
        """Set the limits of the next task. Raises OSError where the kernel refuses one."""
        if limits == self._limits:
            return
        self._limits = None
        if self.shares:
            self.shares.set_cpus(limits.cpus)
        if self.memory:
            self.memory.set_limit(limits.memory_bytes)
        if self.count:
            self.count.set_limit(limits.processes)
        if self.devices:
            self.devices.allow(limits.gpu_ids)
        self._limits = limits

    def processes(self) -> list[int]:
        """Return the live processes of the task, without zombies."""
        return read_pids(self.directories[0])

    def is_empty(self) -> bool:
        """Return whether no process of the task is left."""
        return self.count.count() == 0 if self.count else not self.processes()

    def kill(self) -> None:
        """Send SIGKILL to all; with `pids` the kernel keeps them from forking meanwhile."""
        if self.has_kill:
            write_file(self.directories[0], "cgroup.kill", "1")
            return
        if self.count:
            self._limits = None
            self.count.set_limit(-1)
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.freezer is not None and self.freezer.holds_back_kills:
            self.freezer.thaw()

    @property
    def freezes_by_signals(self) -> bool:
        """Whether the task can notice, and others continue it: it needs to be looked after."""
        return self.freezer is None

    def freeze(self, also: Collection[int], since_s: float) -> bool:
        """Freeze what runs; return whether there was nothing that the call before had not met."""
        del since_s  # each call reads the members now
        if self.freezer is None:
            if self._stopped is None:
                self._stopped = StoppedProcesses()
            self._join_by(HALTS)
            return self._stopped.stop(self._all(also))
        try:
            return self._freeze(self.freezer, also)
        except OSError:
            log.exception("control group %d cannot be frozen; signals stop it", self.number)
            self._give_up_freezer(self.freezer)
            return False

    def _freeze(self, freezer: Freezer, also: Collection[int]) -> bool:
        if not freezer.is_asked:
            freezer.freeze()
            if freezer.is_apart and freezer.join in self.joins:
                return False  # it is there already: others are frozen before its members are read
        if not freezer.is_apart:
            return True
        self._join_by(freezer.join)
        return freezer.take_in((*also, *self.processes()))

    def _give_up_freezer(self, freezer: Freezer) -> None:
        with suppress(OSError):
            freezer.thaw()
        self._join_by("")
        self.freezer = None

    def _join_by(self, further: str) -> None:
        """Set what new members do last: what is frozen there can be found by the other groups."""
        self.joins = (*self.own_joins, further) if further else self.own_joins

    def is_frozen(self, also: Collection[int], since_s: float) -> bool:
        """Return whether nothing of it runs at a moment from `since_s` on, after `freeze`."""
        del since_s
        if self.freezer is not None:
            return self.freezer.reports_frozen()
        begun_s = steady_s()
        return self._stopped is not None and self._stopped.stand(self._all(also), begun_s)

    def thaw(self, also: Collection[int], since_s: float) -> None:
        """Let all of it go on that is there at a moment from `since_s` on."""
        del since_s
        if self.freezer is not None:
            self.freezer.thaw()
        elif self._stopped is not None:
            self._join_by("")
            self._stopped.proceed(self._all(also))

    def lend_freezer(self) -> FreezerFile | None:
        """Let somebody else freeze and thaw it until the next `freeze` or `thaw`."""
        return None if self.freezer is None else self.freezer.lend()

    def let_end(self, pids: Collection[int]) -> None:
        """Let processes end that were sent SIGKILL, although the task is frozen."""
        if self.freezer is not None:
            self.freezer.let_end(pids)

    def _all(self, also: Collection[int]) -> list[Process]:
        return list(read_processes(dict.fromkeys((*also, *self.processes()))))

    def paged_memory(self) -> PagedMemory:
        """Return the memory of the task: of its group where that can be told, else of each."""
        from iriai.launcher.containment.paging import GroupMemory

        path = self.memory.allow_swap() if self.memory else ""
        return GroupMemory(path) if path else super().paged_memory()

    def forbid_swap(self) -> None:
        """Write no more of it to swap than there is."""
        if self.memory:
            self.memory.forbid_swap()

    def cpu_s(self) -> float | None:
        """Return the processor time of the whole task; None where only `wait` tells."""
        return self.account.cpu_s() if self.account else None

    def memory_peak_bytes(self) -> int | None:
        """Return the most memory in use at once; None where only `wait` tells."""
        return self.memory.peak_bytes() if self.memory else None

    def memory_kills(self) -> int:
        """Return how many processes the kernel killed for lack of memory."""
        return self.memory.kills() if self.memory else 0

    def process_refusals(self) -> int:
        """Return how often the process limit refused a new process."""
        return self.count.refusals() if self.count else 0

    def sample(self) -> Use:
        """Return what is used at this moment, read from each process."""
        cpu_s, memory_bytes, processes = sum_of(self.processes())
        counted = self.cpu_s()
        return Use(cpu_s if counted is None else counted, memory_bytes, processes)

    def reset(self) -> bool:
        """Thaw it, and count from now on; return False if no other task should follow here."""
        self._stopped = None
        if self.freezer is not None:
            self.freezer.thaw()
        if self.joins is not self.own_joins:
            self._join_by("")
        if self.account:
            self.account.reset()
        if self.count:
            self.count.reset()
        return self.memory.reset() if self.memory else True

    def close(self) -> None:
        """Close the open files and remove the groups, if they are empty."""
        for controller in (self.account, self.memory, self.count, self.devices):
            if controller:
                controller.close()
        if self.freezer is not None:
            self.freezer.close()
        for directory in self.directories:
            with suppress(OSError):
                os.rmdir(directory)


FREE_MAX = 256
"""Groups kept for later tasks; more exist only while more tasks run at once."""


class Pool:
    """Groups below the parent groups `places`, by controller."""

    def __init__(
        self, places: Mapping[str, ControllerMount], freezing: ControllerMount | None = None
    ) -> None:
        """`places` gives the parent of each controller, and of `unified` where it is used.

        `freezing` is the parent of freezers; None: tasks are frozen by signals.
        """
        self._places = dict(places)
        self._freezing = freezing
        self._free: list[TaskGroup] = []
        self._made = 0
        self._cards: tuple[Nodes, ...] = ()
        self._background: Background | None = None
        self._make_lowered: Callable[[int], TaskGroup] | None = None
        """None: no task is in the idle class."""
        self._free_lowered: list[TaskGroup] = []

    @property
    def parents(self) -> tuple[str, ...]:
        """The parent groups, each once."""
        return tuple(dict.fromkeys(place.directory for place in self._places.values()))

    def keep_devices(self, place: ControllerMount | None, cards: tuple[Nodes, ...]) -> None:
        """Deny `cards` to tasks without them, by groups below `place`; None: deny none.

        Groups that are in use stay as they are until their task is over.
        """
        if (place, cards) == (self._places.get("devices"), self._cards):
            return
        self._drop_free()
        self._places.pop("devices", None)
        if place is not None:
            self._places["devices"] = place
        self._cards = cards

    def lower(self, background: Background, make: Callable[[int], TaskGroup]) -> None:
        """Have those that are acquired for background tasks be made by `make`."""
        self._background, self._make_lowered = background, make

    def acquire(self, *, is_lowered: bool = False) -> TaskGroup:
        """Return an empty group, in the idle class if `lower` has said how.

        Raises OSError if none can be made.
        """
        make = self._make_lowered if is_lowered else None
        free = self._free if make is None else self._free_lowered
        if free:
            return free.pop()
        self._made += 1
        return self.make(str(self._made), self._made) if make is None else make(self._made)

    def release(self, container: Containment) -> None:
        """Take back an empty group."""
        group = cast("TaskGroup", container)  # of `acquire`
        try:
            is_clean = group.reset()
        except OSError:
            log.exception("control group %d could not be reset; it is removed", group.number)
            is_clean = False
        is_of_now = group.cards is self._cards
        free = self._free_lowered if group.is_lowered else self._free
        if is_clean and is_of_now and len(free) < FREE_MAX:
            free.append(group)
        else:
            group.close()

    def close(self) -> None:
        """Remove all groups, and the parents if nothing else is in them."""
        self._drop_free()
        freezing = () if self._freezing is None else (self._freezing.directory,)
        background = self._background
        of_background = () if background is None else (background.idle, background.disk)
        for parent in dict.fromkeys((*self.parents, *freezing, *of_background)):
            with suppress(OSError):
                os.rmdir(parent)

    def _drop_free(self) -> None:
        for free in (self._free, self._free_lowered):
            while free:
                free.pop().close()

    def make(self, name: str, number: int = 0, kind: type[TaskGroup] = TaskGroup) -> TaskGroup:
        """Make a group with this name. Raises OSError if the kernel refuses."""
        directories = tuple(f"{parent}/{name}" for parent in self.parents)
        for directory in directories:
            make_afresh(directory)
        versions = {place.directory: place.version for place in self._places.values()}
        # One thread that moves itself needs no lock over all processes, as writing to
        # cgroup.procs does; version 2 has no such file.
        files = {1: "tasks", 2: "cgroup.procs"}
        joins = tuple(f"g={parent}/{name}/{files[version]}" for parent, version in versions.items())
        slot = kind(number, directories, joins, joins, self._cards)
        try:
            self._control(slot, name)
        except OSError:
            slot.close()
            raise
        return slot

    def elsewhere(self, usual: str, place: str) -> Pool:
        """Return a pool of the groups that `make` makes below `place` instead of `usual`.

        It has nothing to give back.
        """

        def moved(mount: ControllerMount) -> ControllerMount:
            return mount._replace(directory=place) if mount.directory == usual else mount

        places = {controller: moved(each) for controller, each in self._places.items()}
        result = Pool(places, None if self._freezing is None else moved(self._freezing))
        result._cards = self._cards
        return result

    def only(self, directory: str) -> Pool:
        """Return a pool of the groups that `make` makes below this parent alone."""
        places = {name: each for name, each in self._places.items() if each.directory == directory}
        result = Pool(places)
        result._cards = self._cards
        return result

    def _control(self, slot: TaskGroup, name: str) -> None:
        for controller, place in self._places.items():
            directory = f"{place.directory}/{name}"
            is_first = place.version == 1
            match controller:
                case "cpu":
                    slot.shares = CpuShares(directory, place.version)
                case "cpuacct":
                    slot.account = CpuAccount(directory, place.version)
                case "memory":
                    slot.memory = MemoryV1(directory) if is_first else MemoryV2(directory)
                case "pids":
                    slot.count = Pids(directory)
                case "devices":
                    make_devices = DevicesV1 if is_first else DevicesV2
                    slot.devices = make_devices(directory, self._cards)
        if self._freezing is not None:
            directory = f"{self._freezing.directory}/{name}"
            is_apart = directory not in slot.directories
            slot.freezer = Freezer(directory, self._freezing.version, is_apart=is_apart)
        slot.has_kill = os.path.exists(f"{slot.directories[0]}/cgroup.kill")
