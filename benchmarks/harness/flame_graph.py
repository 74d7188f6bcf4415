"""Draws samples of call stacks as a flame graph: how wide a box is says how often it was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

WIDTH, ROW = 1200, 17
CHARACTER = 6.1
"""Width of one in the font below, at most."""
LEAST_WIDTH = 1.5
"""Narrower boxes are left out, with all that is above them."""
_OWN, _PYTHON, _OTHER = "#e8894a", "#e9c46a", "#b7c4cf"
_FRAME = re.compile(r"(?P<name>.*) \((?P<place>[^()]*)\)")
_THREAD = re.compile(r"thread \(\w+\)(?:: (?P<name>.*))?")
_ABOVE_PACKAGES = re.compile(r".*/(?:site-packages|dist-packages|src|python\d\.\d+)/|.*/(?=[^/]+$)")
_LINE = re.compile(r":\d+$")
_TAGGED = re.compile(r"\.cpython-[^/]*\.so$")
_COMPILED = (".c", ".h", ".pyx", ".cpp")
"""Ends of files of native code that was compiled with its lines: what libraries do within."""
_BOTTOM = re.compile(r".* \(<frozen runpy>\)|Thread\..*bootstrap.*")
"""What each process and each thread begins with."""
_WAITS = ("epoll_wait ", "epoll_pwait ", "PyThread_acquire_lock_timed ", "clock_nanosleep ")
"""Innermost functions of a thread that has nothing to do."""


class Box(NamedTuple):
    """A frame with all frames above it that are not told apart."""

    name: str
    samples: int
    depth: int
    first: int
    """Samples to the left of it."""


class _Node:
    def __init__(self) -> None:
        self.samples = 0
        self.above: dict[str, _Node] = {}


def frame_name(text: str) -> str:
    """Return what is shown of a frame: the function, and the file within its package.

    Nothing that says where the program lies on the machine that was looked at. Empty: it is left
    out, as what each process begins with, and what libraries do within.
    """
    if found := _THREAD.fullmatch(text):
        return found["name"] or "thread"
    found = _FRAME.fullmatch(text)
    if found is None:
        return _ABOVE_PACKAGES.sub("", text, 1)
    place = _TAGGED.sub("", _LINE.sub("", found["place"]))
    if place.startswith("/"):
        place = _ABOVE_PACKAGES.sub("", place, 1)
    is_left_out = place.endswith(_COMPILED) or found["name"].startswith("0x")
    is_left_out = is_left_out or _BOTTOM.fullmatch(text) is not None
    return "" if is_left_out else f"{found['name']} ({place})"


def boxes(samples: Iterable[str]) -> list[Box]:
    """Return the boxes of samples, each `frame;frame;... count`, the outermost frame first.

    Samples of threads that wait for something to do are left out.
    """
    root = _Node()
    for line in samples:
        stack, _, count = line.rpartition(" ")
        frames = list(filter(None, map(frame_name, stack.split(";"))))
        if not frames or frames[-1].startswith(_WAITS):
            continue
        root.samples += int(count)
        node = root
        for frame in frames:
            node = node.above.setdefault(frame, _Node())
            node.samples += int(count)
    return list(_placed("all", root, 0, 0))


def _placed(name: str, node: _Node, depth: int, first: int) -> Iterator[Box]:
    yield Box(name, node.samples, depth, first)
    for above, inner in sorted(node.above.items()):
        yield from _placed(above, inner, depth + 1, first)
        first += inner.samples


def flame_graph(samples: Iterable[str], title: str) -> str:
    """Return the picture of samples as an SVG that needs nothing else."""
    found = boxes(samples)
    total = max(1, found[0].samples)
    shown = [each for each in found if each.samples * WIDTH / total >= LEAST_WIDTH]
    height = (3 + max((each.depth for each in shown), default=0)) * ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" font-family="ui-monospace, Menlo, Consolas, monospace" '
        'font-size="10">'
    )
    words = f"<title>{escape(title)}</title>"
    paper = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    heading = f'<text x="4" y="13" font-size="12">{escape(title)}</text>'
    drawn = (_drawn(each, total, height) for each in shown)
    return "\n".join([head, words, paper, heading, *drawn, "</svg>", ""])


def _drawn(box: Box, total: int, height: int) -> str:
    x, width = (part * WIDTH / total for part in (box.first, box.samples))
    y = height - (box.depth + 1) * ROW
    place = box.name.rpartition("(")[2]
    own = place.startswith("iriai/")
    colour = _OWN if own else _PYTHON if place.endswith(".py)") else _OTHER
    told = escape(f"{box.name}: {100 * box.samples / total:.1f} %")
    drawn = (
        f'<g><title>{told}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
        f'height="{ROW - 1}" fill="{colour}" stroke="#fff" stroke-width=".5"/>'
    )
    room = int((width - 4) / CHARACTER)
    if room >= 3:
        name = box.name if len(box.name) <= room else box.name[: room - 1] + "…"
        drawn += f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(name)}</text>'
    return drawn + "</g>"
