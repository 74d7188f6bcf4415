"""A command of iriai, counted from its first import to its end; in a process of its own.

    python command.py ANSWER WORD...

ANSWER is the file for the counts. `import MODULE` as words counts how a process of that module
begins. The clock stands still, and who waits for an answer waits until it comes.
"""

from __future__ import annotations

import sys

_AT_FIRST = frozenset(sys.modules)
sys.path[0] = sys.path[0].removesuffix("/counts")

from counts.counter import Counter  # noqa: E402 - modules are counted from before it on

_OWN = frozenset(("counts", "counts.counter", "__future__", "select"))


def main() -> None:
    """Carry out the words, and end as they do."""
    import os
    import select
    import time

    answer, words = sys.argv[1], sys.argv[2:]
    case = os.environ.pop("IRIAI_GUARD_CASE")
    os.environ.pop("PYTHONPATH", None)  # a submission carries the environment
    for name in ("monotonic", "perf_counter"):
        setattr(time, name, lambda: 1_000_000.0)
    setattr(time, "time", lambda: 1_800_000_000.0)  # noqa: B010 - a checker takes it for a mistake
    setattr(select, "poll", _Patient)  # noqa: B010 - as above
    counter = Counter()

    def end(code: int) -> None:
        counter.leave_thread()
        counter.enter(is_on=False)
        counter.tell_functions()
        modules = len(sys.modules.keys() - _AT_FIRST - _OWN)
        import json

        with open(answer, "w", encoding="utf-8") as file:
            json.dump(counter.counts | {"modules": modules, "exit_code": code}, file)
        leave(code)

    leave, os._exit = os._exit, end  # type: ignore[assignment]
    sys.argv = ["iriai", *words]
    with counter.on(case):
        if words[0] == "import":
            __import__(words[1])
            end(0)
        from iriai.cli.main import main as command

        command()


class _Patient:
    """A poll that waits until something comes, however short its time."""

    def __init__(self) -> None:
        self._real = _POLL()

    def register(self, descriptor: object, events: int) -> None:
        """As of poll."""
        self._real.register(descriptor, events)  # type: ignore[arg-type]

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        """Return what is readable; does not return before, but where nobody wants to wait."""
        return self._real.poll(0 if timeout_ms == 0 else None)


if __name__ == "__main__":
    import select as _select

    _POLL = _select.poll
    main()
