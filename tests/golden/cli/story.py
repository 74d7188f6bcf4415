"""One small story of two machines, in which every command is called with `--json`.

`ume` makes a cluster, runs jobs and is backed up; `momo` joins it, and is thrown out.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.endtoend.installation import Installation
from tests.golden.cli.golden_file import FOLDER
from tests.golden.cli.shape import Rules, shape_text
from tests.support.waiting import until

DOCUMENTS = FOLDER / "json"
CONFIGURATION = """
[machine]
cpus = 4
memory = "4G"
gpus = 0
load_file = "{load_file}"
[jobs]
kill_grace_s = 1
[identity]
minimum_uid = 0
[cluster]
listen = "{address}"
address = "{address}"
"""
FIFO = f"{Path(__file__).parents[3] / 'examples' / 'fifo.py'}:Fifo"
NOT_IDLE = "3.20 3.20 3.20 1/100 1\n"
"""Else whether it is off-peak, and what is charged, would follow from what the host does."""
ANY = ".*"
COUNTED = ("active", "attempt", "cpus", "exit_code", "failed", "signal", "succeeded", "waiting")
CODES = ("cause", "code", "field", "key", "link", "order", "rule", "state")
RULES = Rules(
    kept=dict.fromkeys((*COUNTED, *CODES), ANY)
    | {
        "cluster": "(lab)?",
        "home": "ume|momo",
        "id": "ume-.*",
        "job": "ume-.*",
        "kind": "[a-z]*",
        "machine": "(ume|momo)?",
        "machines": "ume|momo",
        "name": "bob|later|momo|sh|sums|true|ume",
        "node": "ume",
        "operator": "bob",
        "parts": "[a-z]*",
        "task": "ume-.*",
        "tasks": ANY,
    },
    measured=frozenset({"differs", "foreign_load", "load", "trouble"}),
    left_out="has_.*",
)
"""Values that are the same on every machine, for every user and each time, are kept."""


class Story:
    """What was called so far, and what it said: the golden file of each command."""

    def __init__(self) -> None:
        self._parts: dict[str, list[str]] = {}

    def documents(self) -> dict[str, str]:
        """The text of the golden file of each command, by its name."""
        return {name: "\n".join(parts) for name, parts in sorted(self._parts.items())}

    def say(
        self, machine: Installation, words: str, *more: str, given: str = "", code: int = 0
    ) -> dict[str, object]:
        """Call `iriai WORDS --json`, and keep the form of what it says.

        `more` are words that differ from time to time; `code` is how it is to exit.
        """
        command, *rest = words.split()
        first, dashes, last = (*rest, *more), (), ()
        if "--" in rest:
            place = rest.index("--")
            first, dashes, last = tuple(rest[:place]), ("--",), tuple(rest[place + 1 :])
        done = machine.call(command, *first, "--json", *dashes, *last, stdin=given)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        document = json.loads(done.stdout)
        shown = " ".join((words, *("..." for _ in more)))
        self.keep(command, rest, f"$ iriai {shown}  # exits with {code}\n", document)
        return dict(document)

    def keep(self, command: str, rest: list[str], heading: str, document: object) -> None:
        """Put what a command said to what its golden file is to be."""
        groups = ("cluster", "config", "gang", "operator", "policy", "pool", "queue", "reservation")
        name = f"iriai-{command}-{rest[0]}" if command in groups else f"iriai-{command}"
        text = shape_text(document, RULES)
        self._parts.setdefault(name, []).append(f"{heading}{text}\n")


@contextmanager
def machine(name: str) -> Iterator[Installation]:
    """A machine of this host at a port of its own, not started; ended in the end."""
    installation = Installation(None, "--name", name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    load_file = installation.directory / "load"
    load_file.write_text(NOT_IDLE)
    installation.configure(CONFIGURATION.format(address=address, load_file=load_file))
    try:
        yield installation
    finally:
        installation.stop()


def told() -> dict[str, str]:
    """Tell the whole story; the golden file of each command by its name."""
    story = Story()
    with machine("ume") as ume:
        ume.start()
        _jobs(story, ume)
        _machine(story, ume)
        with machine("momo") as momo:
            momo.start()
            _cluster(story, ume, momo)
        _up_and_down(story, ume)
    return story.documents()


def _jobs(story: Story, ume: Installation) -> None:
    say = story.say
    say(ume, "run -- true")
    say(ume, "run -- sh -c false", code=1)
    say(ume, "run --dry-run -- true")
    say(ume, "submit --array 1-3 --name sums -- true")
    say(ume, "submit --hold --requirements Cpus>=1 --name later -- true")
    say(ume, "submit --dry-run -- true")
    say(ume, "submit --memory 999T -- true", code=3)
    say(ume, "submit --time abc -- true", code=2)
    say(ume, "submit --what -- true", code=2)
    say(ume, "wait ume-3 ume-1 ume-2", code=1)
    say(ume, "wait ume-3.1")
    say(ume, "wait ume-99", code=4)
    say(ume, "jobs")
    say(ume, "jobs --finished")
    say(ume, "show ume-3")
    say(ume, "show ume-3.2")
    say(ume, "show ume-4")
    say(ume, "show ume-99", code=4)
    say(ume, "show what?", code=2)
    say(ume, "why ume-4")
    say(ume, "story ume-2")
    say(ume, "logs ume-3")
    say(ume, "alter ume-4 --cpus 2")
    say(ume, "release ume-4")
    say(ume, "wait ume-4")
    say(ume, "submit --hold -- true")
    say(ume, "hold ume-5")
    say(ume, "cancel ume-5")
    say(ume, "submit -- sleep 600")
    until(lambda: '"running"' in ume.call("show", "ume-6", "--json").stdout, "the start of ume-6")
    say(ume, "suspend ume-6")
    say(ume, "suspend ume-4", code=3)
    say(ume, "unsuspend ume-6")
    say(ume, "exec ume-6 -- true")
    say(ume, "exec ume-6 -- sh -c false", code=1)
    say(ume, "exec ume-6.0.1 -- true", code=4)
    say(ume, "exec ume-5 -- true", code=3)
    say(ume, "remote-shell -- ume true", code=2)
    say(ume, "cancel ume-6")
    say(ume, "wait ume-6", code=130)
    _reservations(story, ume)
    say(ume, "shares")
    for kind in ("job", "account"):
        say(ume, f"usage --by {kind}")
    say(ume, "simulate --generate lublin --jobs 20")
    say(ume, "simulate --faults --seeds 1")
    say(ume, "policy check --seeds 1", FIFO)


def _reservations(story: Story, ume: Installation) -> None:
    say = story.say
    say(ume, "reserve --start now --duration 1h --nodes 1 --cpus 1 --dry-run")
    say(ume, "reserve --start now --duration 1h --nodes 1 --cpus 1")
    say(ume, "reserve --start +1h --duration 1h --nodes 2", code=3)
    say(ume, "reserve --start soon --duration 1h --nodes 1", code=2)
    say(ume, "submit --reservation ume-r1 -- true")
    say(ume, "wait ume-7")
    say(ume, "submit --reservation ume-7 -- true", code=2)
    say(ume, "submit --reservation ume-r9 -- true", code=3)
    say(ume, "reservations")
    say(ume, "reservation show ume-r1")
    say(ume, "reservation modify ume-r1 --duration 2h --dry-run")
    say(ume, "reservation modify ume-r1 --duration 2h")
    say(ume, "reservation modify ume-r1 --nodes 2", code=3)
    say(ume, "reservation modify ume-r1 --duration 2h", code=2)
    say(ume, "reservation end ume-r1")
    say(ume, "reservation cancel ume-r1", code=3)
    say(ume, "reservation show ume-r9", code=4)
    say(ume, "reservations --all")
    once = "reserve --every FREQ=DAILY;COUNT=1 --duration 1h --nodes 1 --cpus 1"
    say(ume, f"{once} --start", "tomorrow 9:00 Europe/Berlin")
    say(ume, f"{once} --dry-run --start", "tomorrow 9:00 Europe/Berlin")
    say(ume, "reserve --every hourly --duration 1h --nodes 1 --start", "9:00 UTC", code=2)
    say(ume, "reservation show ume-r3")
    say(ume, "reservation show ume-r3.1")
    say(ume, "reservation cancel ume-r3")


def _machine(story: Story, ume: Installation) -> None:
    say = story.say
    say(ume, "status")
    say(ume, "doctor")
    say(ume, "session-agent", code=3)  # there is no display
    say(ume, "nodes")
    say(ume, "pools")
    say(ume, "queues")
    say(ume, "gangs")
    say(ume, "top")
    say(ume, "top --all --once")
    say(ume, "top --interval 0.1", code=2)
    say(ume, "queue set 2 state=enabled")
    say(ume, "queue unset 2")
    say(ume, "pool set blades jobs_max=8")
    say(ume, "pool unset blades")
    say(ume, "gang set quantum_s=0.5")
    say(ume, "gang unset")
    say(ume, "console -", given="gang set rows_max=2")
    say(ume, "ads")
    say(ume, "match Cpus>=1")
    say(ume, "drain --reason repairs")
    say(ume, "resume")
    say(ume, "config show")
    say(ume, "backup", str(ume.directory / "backup"))
    look = Installation(None)
    try:
        say(look, "restore", str(ume.directory / "backup"))
    finally:
        look.stop()
    desk = Installation(None)
    desk.configure('[owner]\nprofile = "desk"\n')
    try:
        desk.start()
        say(desk, "owner here --for 1h")
        say(desk, "owner")
    finally:
        desk.stop()


def _cluster(story: Story, ume: Installation, momo: Installation) -> None:
    say = story.say
    say(ume, "config edit --file -", given="[order]\nburst = 1\n", code=3)
    say(ume, "cluster show")
    say(ume, "cluster create lab")
    say(ume, "config edit --file -", given="[groups.physics]\nright = 3\n")
    say(ume, "config edit --file -", given="[order]\nburts = 1\n", code=2)
    token = say(ume, "token --machine momo")["text"]
    say(momo, "join --token", str(token), "--name=momo")

    def knows_momo() -> bool:
        return "momo" in ume.call("cluster", "show", "--json").stdout

    until(knows_momo, "ume to know momo")
    say(ume, "token --list")
    say(ume, "cluster show")
    say(ume, "trust")
    say(ume, "consent --list")
    say(ume, "operator show")
    word = say(momo, "operator request --name bob")["word"]
    say(ume, "operator add", str(word))
    say(ume, "operator remove bob")
    say(momo, "leave")
    say(ume, "eject momo --reason sold --anyway")
    say(ume, "leave", code=3)


def _up_and_down(story: Story, ume: Installation) -> None:
    say = story.say
    say(ume, "up --detach")
    say(ume, "down")
    say(ume, "status", code=6)
    say(ume, "up --detach")
    say(ume, "down --kill")
