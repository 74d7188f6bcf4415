"""Entrances that read texts and files: scripts, expressions, logs, configuration, documents."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec

from iriai.classad.expression import parse_expression
from iriai.client.directives.block import read_block
from iriai.client.directives.option import Surroundings
from iriai.client.directives.reading import translate
from iriai.config.cluster_part import parse_cluster_configuration
from iriai.config.console_lines import change_in, lines_of
from iriai.config.document_editing import edited
from iriai.config.reader import parse_configuration
from iriai.daemon.tasks.spool import attempt_of
from iriai.identity.certificates.authority import Authority
from iriai.identity.documents.cluster_document import document_body, read_cluster_document
from iriai.identity.documents.operator_key import OperatorKey
from iriai.identity.documents.signed_document import DocumentKind, sign_document
from iriai.launcher.contract.machine_config import NAME as MACHINE_FILE
from iriai.launcher.contract.machine_config import (
    BadMachineFile,
    MachineSettings,
    read_machine_file,
)
from iriai.launcher.journal.journal import DamagedJournal, Exits, Intent, Intents, Journal, Lines
from iriai.launcher.pmi.seat_server import BarrierReached, SeatServer
from iriai.model.ids import AttemptId
from iriai.model.name_pattern import name_pattern
from iriai.model.problem import Problem, Refused
from iriai.model.token_text import TokenKind, parse_token
from iriai.sim.workload.swf import read_swf
from tests.fuzz.entrance import Entrance
from tests.fuzz.messages import refusing
from tests.fuzz.mutation import mutated_bytes, mutated_text

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
EXPRESSIONS = (
    'TARGET.Memory >= 1024 && Arch == "X86_64"',
    'member(Machine, {"ume", "take"}) || Cpus * 2 > 7.5e3',
    "ifThenElse(isUndefined(KFlops), 0, KFlops) ?: -1",
    "(LoadAvg < 0.3) ? KeyboardIdle > 15 * 60 : false",
)
EXPRESSION_WORDS = (
    "(", ")", "!", "-", "~", "&&", "||", "?", ":", "=?=", "=!=", "{", "}", "[", "]", '"', "1e999",
    "9" * 5000, "0x", "TARGET.", "MY.", "strcat(", "undefined", "error", ".", ",", "\\", "/* ",
)  # fmt: skip
PATTERN_WORDS = ("[", "[!", "*", "?", "*a", "]", "-", "\\", "[" * 12_000)
NAME = "a" * 256
"""As long as one may be."""
DIRECTIVES = (
    "#SBATCH --array=1-10%2 --time=1-00:00:00 -c 4\n",
    "#PBS -l select=2:ncpus=3:mem=4gb -J 1-9:2\n#PBS -N name -o out -j oe\n",
    "#IRIAI --cpus 2 --time 1h\n",
)
DIRECTIVE_WORDS = (
    "#SBATCH ", "#PBS ", "#IRIAI ", "--", "-l ", "=", "%", "-", ":", ",", "'", '"', "\\", "\n",
    "999999999999", "--array=", "select=", "mem=", "--export=", "$(", "\x1b[2J",
)  # fmt: skip
PMI = (
    "".join(
        "cmd=init pmi_version=1 pmi_subversion=1\n" * 2
        + f"cmd=put kvsname=ume-1.0#1 key=k{key} value=a b=c\n"
        + f"cmd=get kvsname=ume-1.0#1 key=k{key}\n"
        + "cmd=barrier_in\n" * 2
        for key in range(3)
    )
    + "mcmd=spawn\nnprocs=1\nendcmd\ncmd=get_maxes\ncmd=abort exitcode=1\ncmd=finalize\n"
)
PMI_WORDS = ("cmd=", "mcmd=spawn", "endcmd", "value=", "=", " ", "\n", "\0", "-" * 5000, "9" * 500)
LOG = (
    "; MaxProcs: 64\n; UnixStartTime: 843161400\n"
    "1 0 5 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1\n"
    "2 10 -1 50 8 -1 -1 8 60 -1 0 2 1 -1 1 -1 1 5\n"
)
LOG_WORDS = ("; MaxProcs: ", "-1 ", "1e400 ", "nan ", "9" * 400, "\n", ";", " ", "0x1 ", "\u0661 ")
CONFIGURATION = """
[machine]
name = "ume"
cpus = 4
memory = "8G"
[groups.lab]
right = 2.0
[groups.lab.users]
ann = 1
[order]
half_life_s = 604800
[jobs]
time_limit_s = 3600
"""
CLUSTER_CONFIGURATION = (
    "[groups.lab]\nright = 2.0\n[queues.1] # day\nstate = 'active' # why\n\n[gang]\nrows_max = 2\n"
    "[order]\nhalf_life_s = 604800\n"
)
CONSOLE_LINES = (
    "# by night\nqueue set 1 state=enabled group='a b'\npool unset x\ngang set rows_max=2\n"
)
CONSOLE_WORDS = (
    "queue", "pool", "gang", " set ", " unset ", "=", "'", '"', "\\", "#", "\n", "none", "nan",
    "9" * 400, "-1", "1e999", "\u0000", "\u2028", "\r",
)  # fmt: skip
CONFIGURATION_WORDS = (
    "[", "]", "=", '"', "'''", "{", "}", "nan", "inf", "-inf", "1e999", "9" * 400, "0x7fffffff",
    "[machine]\n", "[limits]\n", "1979-05-27T07:32:00Z", "\\u0000", ".", ",", "[[", "true",
)  # fmt: skip
_TOKEN_BYTES = 60


def _text_maker(seeds: tuple[str, ...], words: tuple[str, ...]) -> Callable[[Random], bytes]:
    def make(rng: Random) -> bytes:
        text = rng.choice(seeds)
        changed = mutated_text(text, rng, words) if rng.random() < 0.95 else text
        content = changed.encode(errors="surrogatepass")
        return mutated_bytes(content, rng) if rng.random() < 0.1 else content

    return make


def _bytes_maker(*seeds: bytes) -> Callable[[Random], bytes]:
    return lambda rng: mutated_bytes(rng.choice(seeds), rng)


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _expression(content: bytes) -> None:
    parse_expression(_text(content), "--requirements")


def _pattern(content: bytes) -> None:
    name_pattern.cache_clear()
    name_pattern(_text(content)).match(NAME)


def _script(content: bytes) -> None:
    around = Surroundings("/tmp", "ann", "/home/ann", "ume", {"PATH": "/bin"}, {}, lambda _: False)
    translate(read_block(content, "job.sh"), around)


class Files:
    """A directory of memory with the file that is read."""

    def __init__(self) -> None:
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._directory = tempfile.TemporaryDirectory(prefix="iriai-fuzz-", dir=place)
        self.path = Path(self._directory.name)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)

    def log(self, content: bytes) -> None:
        """As a workload log."""
        file = self.path / "log.swf"
        file.write_bytes(content)
        read_swf(file)

    def journal(self, content: bytes) -> None:
        """As the launcher's journal."""
        (self.path / "journal").write_bytes(content)
        with suppress(DamagedJournal):
            Journal(self.fd).close()

    def machine_file(self, content: bytes) -> None:
        """As what the daemon tells the launcher to go by."""
        (self.path / MACHINE_FILE).write_bytes(content)
        with suppress(BadMachineFile):
            read_machine_file(self.fd)

    def journal_seed(self) -> bytes:
        """A journal with some of everything."""
        with tempfile.TemporaryDirectory() as place:
            fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            journal = Journal(fd)
            attempts = [AttemptId("ume", number, 0, 1) for number in range(5)]
            intents = tuple(Intent(each, 1000, 1, b"digest", 1e9) for each in attempts)
            journal.append(Lines(()), Intents(intents), Exits(()), sync=False)
            journal.close()
            os.close(fd)
            return (Path(place) / "journal").read_bytes()


def _documents() -> tuple[tuple[bytes, ...], bytes]:
    """Signed documents of a cluster, and its authority's certificate."""
    authority = Authority.create("lab", time.time())
    key = OperatorKey.generate("ann").signing
    certificate = authority.operator("ann", key.public_key(), time.time())
    body = document_body(1, time.time(), CLUSTER_CONFIGURATION)
    signed = sign_document(DocumentKind.CONFIGURATION, body, key, certificate)
    return (signed,), authority.certificate.der


def _console_lines(content: bytes) -> None:
    """As an rc file."""
    for line in lines_of(content, "iriai.rc"):
        with suppress(Problem):
            change_in(line.text)


def _edited_document(content: bytes) -> None:
    """As the document in force, in which an operator's own command sets keys, in no hurry."""
    text = _text(content[:10_000])
    before = parse_cluster_configuration(text, "document")
    for line in ("queue set 1 state=enabled", "gang unset", "pool set 'a b' jobs_max=1"):
        with suppress(Refused):
            after = parse_cluster_configuration(edited(text, change_in(line)), "document")
            if (after.order, after.groups) != (before.order, before.groups):
                raise AssertionError(f"{line} changes more")


def entrances() -> list[Entrance]:
    """All of them."""
    return [*_written_by_people(), *_of_operators(), *_written_by_iriai()]


def _written_by_people() -> list[Entrance]:
    files = Files()
    scripts = tuple(each.read_text() for each in sorted(SCRIPTS.iterdir())) + DIRECTIVES
    changed = _text_maker((CONFIGURATION,), CONFIGURATION_WORDS)
    changed_cluster = _text_maker((CLUSTER_CONFIGURATION,), CONFIGURATION_WORDS)
    token = ("iriai-join-" + "A" * _TOKEN_BYTES,)
    return [
        Entrance(
            "E9",
            "directives",
            _text_maker(scripts, DIRECTIVE_WORDS),
            refusing(_script),
            ("iriai.client.directives",),
        ),
        Entrance(
            "E10",
            "expressions",
            _text_maker(EXPRESSIONS, EXPRESSION_WORDS),
            refusing(_expression),
            ("iriai.classad.parser", "iriai.classad.lexer", "iriai.classad.expression"),
        ),
        Entrance(
            "E2",
            "patterns",
            _text_maker(("sweep*", "run-[0-9]?", "[!a]*"), PATTERN_WORDS),
            refusing(_pattern),
            ("iriai.model.name_pattern",),
        ),
        Entrance(
            "E11",
            "workload logs",
            _text_maker((LOG,), LOG_WORDS),
            refusing(files.log),
            ("iriai.sim.workload.swf",),
        ),
        Entrance(
            "E12",
            "configuration",
            changed,
            refusing(lambda content: parse_configuration(_text(content), "iriai.toml")),
            ("iriai.config.reader", "iriai.config.keys", "iriai.config.values"),
        ),
        Entrance(
            "E13",
            "cluster configuration",
            changed_cluster,
            refusing(lambda content: parse_cluster_configuration(_text(content), "document")),
            ("iriai.config.cluster_part",),
        ),
        Entrance(
            "E14",
            "tokens",
            _text_maker(token, ("=", "-", "_", "iriai-user-", "\u00e9")),
            refusing(lambda content: parse_token(_text(content), TokenKind.JOIN)),
            ("iriai.model.token_text",),
        ),
    ]


def _of_operators() -> list[Entrance]:
    return [
        Entrance(
            "E12",
            "console lines",
            _text_maker((CONSOLE_LINES,), CONSOLE_WORDS),
            refusing(_console_lines),
            ("iriai.config.console_lines", "iriai.config.live_settings"),
        ),
        Entrance(
            "E13",
            "settings in a cluster configuration",
            _text_maker((CLUSTER_CONFIGURATION,), CONFIGURATION_WORDS),
            refusing(_edited_document),
            ("iriai.config.document_editing",),
        ),
    ]


def _written_by_iriai() -> list[Entrance]:
    files = Files()
    documents, authority = _documents()
    spool_names = ("ume-1.2-3.out", "ume-1.2-3.err")
    return [
        Entrance(
            "E12",
            "machine file",
            hostile_json(MachineSettings()),
            files.machine_file,
            ("iriai.launcher.contract.machine_config",),
        ),
        Entrance(
            "E13",
            "signed documents",
            _bytes_maker(*documents),
            refusing(lambda content: read_cluster_document(content, authority)),
            ("iriai.identity.documents.signed_document", "iriai.identity.certificates.certificate"),
        ),
        Entrance(
            "E15",
            "journal",
            _bytes_maker(files.journal_seed()),
            files.journal,
            ("iriai.launcher.journal.journal",),
        ),
        Entrance(
            "E16",
            "process manager",
            _text_maker((PMI,), PMI_WORDS),
            _pmi,
            ("iriai.launcher.pmi",),
        ),
        Entrance(
            "E15",
            "names in the spool",
            _text_maker(spool_names, ("9" * 5000, ".", "-", "/", "\0")),
            lambda content: void(attempt_of(_text(content))),
            ("iriai.daemon.tasks.spool",),
        ),
    ]


def _pmi(content: bytes) -> None:
    """What two ranks of a seat say in turn, in pieces of any size."""
    server = SeatServer("ume-1.0#1", (2, 1), 0, 2)
    for place, line in enumerate(content.splitlines(keepends=True)):
        for piece in (line[: len(line) // 2], line[len(line) // 2 :]):
            events = server.receive(place % 2, piece)
            for fence in (event for event in events if isinstance(event, BarrierReached)):
                server.fenced(fence.number, fence.put)


def void(_: object) -> None:
    """What was read is of no interest."""


def hostile_json(value: object) -> Callable[[Random], bytes]:
    """Changes the JSON of `value`."""
    seed = msgspec.json.encode(value)
    return lambda rng: mutated_bytes(seed, rng)
