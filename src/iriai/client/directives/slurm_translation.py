"""From the directives of sbatch to options of iriai."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from iriai.client.directives.block import DirectiveLine, ScriptPosition
from iriai.client.directives.option import (
    Collected,
    Given,
    OptionValue,
    Surroundings,
    Translation,
    bad_value,
    check_families,
    contradiction,
)
from iriai.client.directives.slurm import FAMILIES
from iriai.client.directives.slurm_words import (
    UNLIMITED,
    duration_s,
    given_options,
    size_bytes,
    whole,
)
from iriai.client.directives.variables import slurm_variables
from iriai.model.batch_variables import BatchSystem
from iriai.model.problem import UsageProblem
from iriai.model.units import parse_size

_CONDITIONS = {"afterok": "ok", "afterany": "any", "afternotok": "fail"}
_MAIL = frozenset({"END", "ALL"}), ","
_GPU_COUNTS = ("--gpus", "--gpus-per-node", "--gpus-per-task", "--gres")


def translate_slurm(lines: Iterable[DirectiveLine], around: Surroundings) -> Translation:
    """What the directives of `lines` (at least one, all of sbatch) ask for, as options of iriai.

    Raises:
        Refused: something would run differently from what the script says.
        UsageProblem: two directives contradict each other, or sbatch would not understand one.
    """
    return _Slurm(lines, around).translation()


class _Slurm:
    """One translation."""

    def __init__(self, lines: Iterable[DirectiveLine], around: Surroundings) -> None:
        self._around = around
        self._all = Collected()
        self._settings: list[OptionValue] = []
        self._place = ScriptPosition("", 0)
        for line in lines:
            self._place = self._place if self._place.number else line.place
            for given in given_options(line):
                self._all.add(given)
        check_families(self._all.given, FAMILIES)

    def translation(self) -> Translation:
        self._plain()
        for name, follow in self._followed().items():
            if given := self._all.given.get(name):
                follow(given)
        self._settings += self._all.mail("--mail-type", "--mail-user", _MAIL, self._around.user)
        self._machine()
        tasks = self._tasks()
        gpus = self._gpus(tasks)
        cpus = self._cpus(tasks, gpus)
        memory_bytes = self._memory(cpus, gpus)
        array = self._around.chosen.get("--array") or self._all.value("--array")
        self._files(is_array=bool(array))
        self._all.check()
        variables = slurm_variables(
            self._around, self._name(), cpus, tasks, gpus, memory_bytes, array
        )
        warnings = tuple(self._all.warnings)
        return Translation(tuple(self._settings), variables, warnings, system=BatchSystem.SLURM)

    def _followed(self) -> dict[str, Callable[[Given], None]]:
        return {
            "--time": self._time,
            "--export": self._export,
            "--dependency": self._dependency,
            "--licenses": lambda given: self._named(given, given.value),
            "--exclusive": self._exclusive,
        }

    def _set(self, given: Given | None, option: str, value: str | None) -> None:
        self._settings.append(OptionValue(option, value, given.place if given else self._place))

    def _plain(self) -> None:
        """What has the same meaning in both."""
        for name, option in (
            ("--job-name", "--name"),
            ("--array", "--array"),
            ("--chdir", "--chdir"),
            ("--input", "--stdin"),
        ):
            if given := self._all.given.get(name):
                self._set(given, option, given.value)
        for name, option in (("--hold", "--hold"), ("--no-requeue", "--no-restart")):
            if given := self._all.given.get(name):
                self._set(given, option, None)

    def _time(self, given: Given) -> None:
        if given.value.upper() in UNLIMITED:
            self._all.warn(given, "the machine's default limit applies, where it has one")
        else:
            self._set(given, "--time", f"{duration_s(given)}s")

    def _export(self, given: Given) -> None:
        names = [each for each in given.value.split(",") if each]
        if "ALL" not in names:
            self._set(given, "--no-env", None)
        for each in names:
            if each not in ("ALL", "NIL", "NONE"):
                if "=" in each or each in self._around.environment:
                    self._set(given, "--env", each)
                else:
                    self._all.warn(given, f"there is no variable {each} here")

    def _dependency(self, given: Given) -> None:
        if "?" in given.value:
            self._all.refuse(given, "one of them would not be enough: all must hold")
            return
        for each in given.value.split(","):
            kind, _, ids = each.partition(":")
            condition = _CONDITIONS.get(kind)
            if condition is None:
                self._all.refuse(given, f"there is no dependency of the kind '{kind}'")
            elif any(part.replace("+", "").replace("_", "").isdecimal() for part in ids.split(":")):
                self._all.refuse(given, "a number names no job here: write its id, as ume-42")
            else:
                self._set(given, "--after", f"{condition}:{ids.replace(':', ',')}")

    def _exclusive(self, given: Given) -> None:
        if given.value in ("", "exclusive"):
            self._set(given, "--exclusive", None)
        else:
            self._all.refuse(given, "it would share the machine: say --exclusive without a value")

    def _named(self, given: Given, text: str) -> None:
        for each in text.split(","):
            name, _, count = each.replace(":", "=").partition("=")
            self._set(given, "--resource", f"{name}={whole(given, count or '1')}")

    def _machine(self) -> None:
        if (given := self._all.given.get("--nodes")) and given.value.split("-")[0] != "1":
            whole(given, given.value.split("-")[0])
            self._all.refuse(given, "it would run on one machine alone")

    def _tasks(self) -> int | None:
        """How many tasks the script says it has, if it does."""
        total, per_node = (self._all.given.get(n) for n in ("--ntasks", "--ntasks-per-node"))
        if total and per_node and whole(total) > whole(per_node):
            raise contradiction(*sorted((total, per_node), key=lambda each: each.place.number))
        found = total or per_node
        return whole(found) if found else None

    def _gpus(self, tasks: int | None) -> int:
        counts: list[tuple[Given, int]] = []
        for name in _GPU_COUNTS:
            if (given := self._all.given.get(name)) is None:
                continue
            count = self._gres(given) if name == "--gres" else self._gpu_count(given, given.value)
            if count is not None:
                counts.append((given, count * (tasks or 1 if name == "--gpus-per-task" else 1)))
        for (first, one), (second, other) in pairwise(counts):
            if one != other:
                raise contradiction(*sorted((first, second), key=lambda each: each.place.number))
        if counts:
            self._set(counts[0][0], "--gpus", str(counts[0][1]))
        chosen = self._around.chosen.get("--gpus")
        if chosen is not None and chosen.isdecimal():
            return int(chosen)
        return counts[0][1] if counts else 0

    def _gres(self, given: Given) -> int | None:
        """GPUs of `--gres`; other resources are set at once."""
        gpus = None
        for each in given.value.split(","):
            name, _, rest = each.removeprefix("gres/").removeprefix("gres:").partition(":")
            if name == "gpu":
                gpus = (gpus or 0) + self._gpu_count(given, rest)
            else:
                self._named(given, each)
        return gpus

    def _gpu_count(self, given: Given, text: str) -> int:
        kind, _, count = text.rpartition(":")
        if not count.isdecimal():
            kind, count = count, "1"
        if kind:
            self._all.refuse(given, f"the GPU might not be one of the kind '{kind}'")
        return whole(given, count)

    def _cpus(self, tasks: int | None, gpus: int) -> int:
        given = self._all.given
        found = [given[n] for n in ("--ntasks", "--ntasks-per-node", "--mincpus") if n in given]
        count = tasks or 1
        if each := given.get("--ntasks-per-gpu"):
            count, found = whole(each) * max(gpus, 1), [*found, each]
        if each := given.get("--cpus-per-task"):
            count, found = count * whole(each), [*found, each]
        if each := given.get("--cpus-per-gpu"):
            count, found = whole(each) * max(gpus, 1), [*found, each]
        if each := given.get("--mincpus"):
            count = max(count, whole(each))
        if found:
            self._set(found[-1], "--cpus", str(count))
        chosen = self._around.chosen.get("--cpus", "")
        return int(chosen) if chosen.isdecimal() and int(chosen) else count

    def _memory(self, cpus: int, gpus: int) -> int:
        total = 0
        for name, times in (("--mem", 1), ("--mem-per-cpu", cpus), ("--mem-per-gpu", gpus)):
            if (given := self._all.given.get(name)) is None:
                continue
            total = size_bytes(given) * times
            if total:
                self._set(given, "--memory", str(total))
            elif name != "--mem":
                raise bad_value(given, "this is no memory at all", "write a size")
            elif "--exclusive" not in self._all.given:
                self._all.refuse(given, "it would not have all memory: say --exclusive with it")
        try:
            return parse_size(self._around.chosen["--memory"])
        except (KeyError, UsageProblem):  # what the command line says is checked with it
            return total

    def _name(self) -> str:
        script = self._place.script.rpartition("/")[2]
        return self._around.chosen.get("--name") or self._all.value("--job-name") or script

    def _files(self, *, is_array: bool) -> None:
        for name in ("--output", "--error"):
            if given := self._all.given.get(name):
                self._set(given, name, self._pattern(given, is_array=is_array))
        if "--output" not in self._all.given:
            self._set(None, "--output", "slurm-%n_%t.out" if is_array else "slurm-%n.out")

    def _pattern(self, given: Given, *, is_array: bool) -> str:
        """A file name pattern of Slurm as one of iriai."""
        own = "%n_%t" if is_array else "%n"
        letters = {
            "%": "%%",
            "A": "%n",
            "a": "%t",
            "j": own,
            "J": own,
            "u": self._around.user.replace("%", "%%"),
            "x": self._name().replace("%", "%%"),
            "t": "0",
        }
        pieces = given.value.replace("\\", "").split("%")
        result = [pieces[0]]
        rest = iter(pieces[1:])
        for piece in rest:
            if not piece:  # two in a row
                result.append("%%" + next(rest, ""))
            elif (letter := letters.get(piece[0])) is not None:
                result.append(letter + piece[1:])
            else:
                self._all.refuse(given, f"the file would have another name: no %{piece[0]} here")
        return "".join(result)
