"""A real launcher process, and the daemon's side of its socket."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from iriai.launcher.contract.messages import (
    LAUNCHER_VERSION,
    Alive,
    Attach,
    Attached,
    Discard,
    Enforced,
    Enforcement,
    Exit,
    Exited,
    Freeze,
    FreezeOrder,
    FreezeState,
    FromLauncher,
    Frozen,
    HookFailed,
    Launch,
    OwnerSeen,
    SampleAll,
    Sampled,
    SeatBarrier,
    SetCycle,
    SetStandingOrder,
    Spawned,
    StartOrder,
    StreamEnds,
    Template,
    ToLauncher,
)
from iriai.launcher.journal.journal import Boot, Journal
from iriai.launcher.spawn.spawn import HELPER
from iriai.launcher.system.digest import digest_of
from iriai.model.ids import Account, AttemptId
from iriai.model.job import JobSpec
from iriai.model.owner import NO_CONDITIONS, SensorSettings
from iriai.model.suspension import SuspendReason, in_order
from iriai.model.time_slices import SliceTurn
from iriai.system.clock import steady_s
from tests.support.trusted_place import PARENT

WAIT_S = 30.0
"""How long anything may take before a test fails; nothing takes that long."""
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
"""An interpreter that other users can run, for tasks."""

_decode = msgspec.msgpack.Decoder(FromLauncher).decode


class Variant(NamedTuple):
    """One way in which a launcher can work; all must pass the same tests."""

    name: str
    isolation: str = "auto"
    helper: str = "auto"
    is_privileged: bool = True

    def __str__(self) -> str:
        return self.name


def attempt(number: int, index: int = 0, tries: int = 1) -> AttemptId:
    return AttemptId("ume", number, index, tries)


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until `condition` holds."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    """Whether process `pid` is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class Link:
    """The daemon's side of a connection."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT_S)
        self._socket.connect(str(path))
        self._received = b""
        self._descriptors: list[int] = []
        self.ends: dict[AttemptId, dict[str, int]] = {}
        """Our ends of the streams of tasks, by kind."""
        self.spawned: dict[AttemptId, Alive] = {}
        self.exits: dict[AttemptId, Exit] = {}
        self.sampled: list[Sampled] = []
        self.barriers: list[SeatBarrier] = []
        self.unfit: dict[AttemptId, HookFailed] = {}
        self.frozen: list[FreezeState] = []
        """Of all attempts, in the order in which they were told."""
        self.seen: list[OwnerSeen] = []
        """Of the owner, in the order in which it was told."""
        self.enforced: list[Enforcement] = []
        """Rows of how limits are enforced that were told since."""
        self.told: list[str] = []
        """The kinds of messages, in order."""
        self.welcome: Attached | None = None

    def send(self, message: ToLauncher) -> None:
        self.send_at_once(message)

    def send_at_once(self, *messages: ToLauncher) -> None:
        """Send several messages that the launcher finds together."""
        contents = map(msgspec.msgpack.encode, messages)
        self._socket.sendall(b"".join(len(each).to_bytes(4, "big") + each for each in contents))

    def send_bytes(self, content: bytes) -> None:
        self._socket.sendall(content)

    def attach(self, version: int = LAUNCHER_VERSION, minimum_uid: int = 0) -> Attached:
        self.send(Attach(version, minimum_uid))
        self.until(lambda: self.welcome is not None, "Welcome")
        assert self.welcome is not None
        return self.welcome

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Read until `condition` holds."""
        while not condition():
            message = self.receive()
            assert message is not None, f"the launcher closed the connection; waited for {what}"

    def receive(self) -> FromLauncher | None:
        """Take in the next message; None: the connection was closed."""
        while len(self._received) < 4 or len(self._received) < 4 + self._size:
            try:
                piece, descriptors, _, _ = socket.recv_fds(self._socket, 1 << 20, 253)
                self._descriptors += descriptors
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self._received += piece
        size = self._size
        message: FromLauncher = _decode(self._received[4 : 4 + size])
        self._received = self._received[4 + size :]
        self.told.append(type(message).__name__)
        match message:
            case HookFailed():
                self.unfit[message.attempt] = message
            case Attached():
                self.welcome = message
            case StreamEnds():
                for owner, kinds in message.attempts:
                    own, self._descriptors[: len(kinds)] = self._descriptors[: len(kinds)], []
                    self.ends[owner] = dict(zip(kinds, own, strict=True))
            case Spawned():
                self.spawned.update({alive.attempt: alive for alive in message.started})
            case Exited():
                self.exits.update({each.attempt: each for each in message.exits})
            case SeatBarrier():
                self.barriers.append(message)
            case Frozen():
                self.frozen += message.states
            case Enforced(row):
                self.enforced.append(row)
            case OwnerSeen():
                self.seen.append(message)
            case Sampled():
                self.sampled.append(message)
        return message

    @property
    def _size(self) -> int:
        return int.from_bytes(self._received[:4], "big")

    def order_freeze(self, of: AttemptId, *reasons: SuspendReason, number: int = 0) -> int:
        """Order these reasons; returns the number of the order, by default the next one."""
        self._number = number = number or self._number + 1
        self.send(Freeze((FreezeOrder(of, number, in_order(reasons)),)))
        return number

    _number = 0

    def state_of(self, of: AttemptId, number: int) -> FreezeState:
        """The last word about this order."""

        def told() -> list[FreezeState]:
            return [each for each in self.frozen if (each.attempt, each.number) == (of, number)]

        self.until(lambda: told() or of in self.exits, f"the answer to order {number} about {of}")
        assert told(), f"it has ended: {self.exits[of]}"
        return told()[-1]

    def freeze(self, of: AttemptId, *reasons: SuspendReason) -> FreezeState:
        """Freeze an attempt, by its user unless told otherwise; returns once it is frozen."""
        return self.state_of(of, self.order_freeze(of, *(reasons or (SuspendReason.USER,))))

    def thaw(self, of: AttemptId) -> FreezeState:
        return self.state_of(of, self.order_freeze(of))

    def set_cycle(
        self,
        turns: dict[AttemptId, int],
        *,
        quantum_s: float = 0.25,
        rows: int = 2,
        row_0_s: float | None = None,
        number: int = 0,
    ) -> float:
        """Have attempts take turns, from a row 0 that begins now; returns when that is."""
        now_s = steady_s()
        number = number or int(now_s * 1e6)  # higher than those of links before
        row_0_s = now_s if row_0_s is None else row_0_s
        masks = tuple(SliceTurn(each, mask) for each, mask in turns.items())
        self.send(SetCycle(number, quantum_s, rows, now_s - row_0_s, now_s, masks))
        return row_0_s

    def watch_owner(
        self,
        *exempt: AttemptId,
        suspends: bool = True,
        signs: int = 0,
        are_over: bool = False,
        lowers: bool = False,
        number: int = 0,
        conditions: SensorSettings = NO_CONDITIONS,
        reclaimed: tuple[AttemptId, ...] = (),
    ) -> int:
        """Give a standing order; returns its number, by default one higher than all before."""
        number = number or int(steady_s() * 1e6)
        order = (number, suspends, exempt, signs, are_over, conditions, reclaimed)
        self.send(SetStandingOrder(*order, lowers=lowers))
        return number

    def exit_of(self, wanted: AttemptId) -> Exit:
        self.until(lambda: wanted in self.exits, f"the end of {wanted}")
        return self.exits[wanted]

    def pid_of(self, wanted: AttemptId) -> int:
        self.until(lambda: wanted in self.spawned, f"the start of {wanted}")
        return self.spawned[wanted].pid

    def printed(self, of: AttemptId, kind: str = "out") -> str:
        """All that a task has printed, once it is over."""
        self.exit_of(of)
        descriptor, pieces = self.ends[of][kind], []
        with suppress(OSError):  # of a terminal that no process has open any more
            while piece := os.read(descriptor, 1 << 16):
                pieces.append(piece)
        return b"".join(pieces).decode()

    def close(self) -> None:
        for ends in self.ends.values():
            for descriptor in ends.values():
                os.close(descriptor)
        self.ends.clear()
        self._socket.close()


class Machine:
    """A state directory and the launcher that serves it, one after the other."""

    def __init__(self, variant: Variant, user: str) -> None:
        self.variant = variant
        self.user = user
        entry = pwd.getpwnam(user)
        self.uid, self.gid = entry.pw_uid, entry.pw_gid
        self.directory = Path(tempfile.mkdtemp(prefix="iriai-test-"))
        self.directory.chmod(0o755)
        self.state = self.directory / "state"
        self.state.mkdir(mode=0o755)
        self.work = self.directory / "work"
        self.work.mkdir()
        if os.geteuid() == 0:
            os.chown(self.work, self.uid, self.gid)
            if not variant.is_privileged:
                os.chown(self.state, self.uid, self.gid)
        self.socket = self.directory / "launcher.sock"
        if not variant.is_privileged:
            self.socket = self.state / "launcher.sock"
        self.programs = Path(tempfile.mkdtemp(prefix="iriai-test-", dir=PARENT))
        """Where hooks lie: nobody but their owner can write the way to it."""
        self.programs.chmod(0o755)
        self.log = self.directory / "log"
        self.minimum_uid = 0
        self.devices = Path("/dev")
        """Where terminals and input devices are."""
        self.daemon_uid: int | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._links: list[Link] = []
        self._bystanders: list[subprocess.Popen[bytes]] = []

    def command(self, *more: str) -> list[str]:
        options = ["--state", str(self.state), "--socket", str(self.socket)]
        options += ["--minimum-uid", str(self.minimum_uid)]
        options += ["--isolation", self.variant.isolation, "--devices", str(self.devices)]
        if self.daemon_uid is not None:
            options += ["--daemon-uid", str(self.daemon_uid)]
        options += ["--helper", self.variant.helper, *more]
        if self.variant.is_privileged:
            return [sys.executable, "-m", "iriai.launcher", *options]
        runner = Path(__file__).with_name("as_user.py")
        helper = self.directory / "iriai-exec"  # the user may not be able to read the original
        if Path(HELPER).exists() and not helper.exists():
            shutil.copy(HELPER, helper)
        identity = (str(self.uid), str(self.gid), str(helper))
        return [sys.executable, str(runner), *identity, *options]

    def start(self, crash_at: str = "", *, wait: bool = True) -> Machine:
        """Start a launcher; it is ready when this returns."""
        self.socket.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"IRIAI_CRASH_AT": crash_at},
            )
        if wait:
            until(lambda: self.socket.exists() or self.has_ended, "the launcher's socket")
            assert not self.has_ended, self.log.read_text()[-2000:]
        return self

    @property
    def has_ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def link(self) -> Link:
        """Connect without a word."""
        result = Link(self.socket)
        self._links.append(result)
        return result

    def attach(self) -> Link:
        result = self.link()
        result.attach()
        return result

    def kill(self) -> None:
        """End the launcher as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(WAIT_S)

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(WAIT_S)

    def wait_until_read(self, link: Link) -> None:
        """Wait until the launcher has taken in all that `link` sent."""
        count = len(link.sampled)
        link.send(SampleAll())
        link.until(lambda: len(link.sampled) > count, "an answer")

    def numbers(self, *names: str) -> list[int]:
        """The numbers that tasks wrote into these files, as far as they did."""
        paths = [self.work / name for name in names]
        texts = [path.read_text() for path in paths if path.exists()]
        return [int(text) for text in texts if text.endswith("\n")]

    def bystander(self) -> int:
        """A process of the same user that no launcher knows of."""
        is_root = os.geteuid() == 0
        process = subprocess.Popen(["sleep", "600"], user=self.uid if is_root else None)
        self._bystanders.append(process)
        return process.pid

    @property
    def mark(self) -> str:
        """What the launcher calls its state directory."""
        return digest_of(os.fsencode(os.path.realpath(self.state)), size_bytes=6).hex()

    @property
    def journal(self) -> Path:
        return self.state / "launcher" / "journal"

    def replace_boot_id(self) -> None:
        """Have the journal say that it was written on another boot."""
        directory_fd = os.open(self.journal.parent, os.O_RDONLY)
        journal = Journal(directory_fd)
        journal.append(Boot("another-boot", ()), sync=True)
        journal.close()
        os.close(directory_fd)

    def close(self) -> None:
        """End the launcher and everything under it."""
        for process in self._bystanders:
            process.kill()
            process.wait()
        for link in self._links:
            link.close()
        if self.process is not None:
            self._end_launcher()
            if self.process.returncode != 0:  # it crashed; the next one cleans up
                self.start(wait=False)
                self._end_launcher()
            if self.process.returncode != 0:  # it could not begin, with this journal
                self.journal.unlink()
                self.start(wait=False)
                self._end_launcher()
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.rmtree(self.programs, ignore_errors=True)

    def new_folder(self) -> Path:
        """An empty directory of the user."""
        folder = Path(tempfile.mkdtemp(dir=self.work))
        folder.chmod(0o755)
        if os.geteuid() == 0:
            os.chown(folder, self.uid, self.gid)
        return folder

    def _end_launcher(self) -> None:
        """End it as a service manager does, once it listens."""
        assert self.process is not None
        until(lambda: self.socket.exists() or self.has_ended, "the launcher's socket")
        self.process.terminate()
        self.process.wait(WAIT_S)

    def spec(self, *command: str, **more: object) -> JobSpec:
        fields = {
            "account": Account("staff", self.user),
            "user": self.user,
            "name": "test",
            "command": command,
            "working_directory": str(self.work),
            "output": "out",
            "kill_grace_s": 0.2,
        }
        return JobSpec(**(fields | more))  # type: ignore[arg-type]

    def output(self, name: str = "out") -> str:
        return (self.work / name).read_text()


def launch(
    link: Link,
    spec: JobSpec,
    *attempts: AttemptId,
    environment: dict[str, str] | None = None,
    script: bytes = b"",
    stdin: bytes = b"",
    gpu_ids: tuple[int, ...] = (),
) -> None:
    """Order tasks of one template."""
    template = Template(spec, msgspec.msgpack.encode(environment or {}), script, stdin)
    orders = tuple(StartOrder(each, 0, gpu_ids) for each in attempts)
    link.send(Launch((template,), orders))


class Lab:
    """A connection to a running launcher, and fresh numbers for what is tried on it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.link = machine.attach()
        self.folder = machine.new_folder()

    def spec(self, *command: str, **more: object) -> JobSpec:
        return self.machine.spec(*command, working_directory=str(self.folder), **more)

    def new_attempt(self) -> AttemptId:
        """One that no launcher knows."""
        return attempt(next(_numbers))

    def launch(self, spec: JobSpec, **more: object) -> AttemptId:
        wanted = self.new_attempt()
        launch(self.link, spec, wanted, **more)  # type: ignore[arg-type]
        return wanted

    def run(self, *command: str, **more: object) -> Exit:
        """Run a command to its end."""
        return self.end_of(self.spec(*command, **more))

    def end_of(self, spec: JobSpec, **more: object) -> Exit:
        return self.link.exit_of(self.launch(spec, **more))

    def python(self, text: str, *arguments: str, **more: object) -> JobSpec:
        return self.spec(PYTHON, "-c", text, *arguments, **more)

    def read(self, name: str = "out") -> str:
        return (self.folder / name).read_text()

    def wait_for(self, name: str) -> str:
        """The content of a file that a task writes in one go."""
        until(lambda: (self.folder / name).exists() and self.read(name), f"file {name}")
        return self.read(name)

    def close(self) -> None:
        ended = tuple(self.link.exits)
        if ended:
            self.link.send(Discard(ended))
        self.link.close()


_numbers = itertools.count(1)
