"""Flame graphs: what is left of samples, and that nothing of the machine is in them."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from harness.flame_graph import Box, boxes, flame_graph, frame_name

LIBRARY = "/home/ann/x/.venv/lib/python3.11/site-packages/"
MAIN = "thread (25056): MainThread;_run_code (<frozen runpy>);"
SAMPLES = [
    MAIN + "main (iriai/daemon/__main__.py);turn (iriai/machine/core.py) 6",
    MAIN + f"main (iriai/daemon/__main__.py);encode ({LIBRARY}msgspec/_core.so) 2",
    MAIN + "main (iriai/daemon/__main__.py);epoll_pwait (libc.so.6) 90",
    "thread (7): store-writer;Thread._bootstrap (threading.py);run (iriai/store/writer.py) 2",
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("turn (iriai/machine/core.py)", "turn (iriai/machine/core.py)"),
        ("turn (/work/x/src/iriai/machine/core.py:17)", "turn (iriai/machine/core.py)"),
        (f"run ({LIBRARY}uvloop/__init__.py)", "run (uvloop/__init__.py)"),
        ("loop (/usr/lib/python3.11/asyncio/runners.py:118)", "loop (asyncio/runners.py)"),
        ("read (/opt/secret/thing.py:1)", "read (thing.py)"),
        (
            f"decode ({LIBRARY}msgspec/_core.cpython-311-x86_64-linux-gnu.so)",
            "decode (msgspec/_core)",
        ),
        ("thread (0x7F3A)", "thread"),
        ("thread (12): store-writer", "store-writer"),
        ("0x7f00 (libc.so.6)", ""),
        ("Py_DECREF (object.h)", ""),
        ("_run_code (<frozen runpy>)", ""),
    ],
)
def test_a_frame_is_shown_by_its_function_and_its_place_within_its_package(text, shown):
    assert frame_name(text) == shown


def test_boxes_are_as_wide_as_they_were_found_and_threads_that_wait_are_in_none():
    assert boxes(SAMPLES) == [
        Box("all", 10, 0, 0),
        Box("MainThread", 8, 1, 0),
        Box("main (iriai/daemon/__main__.py)", 8, 2, 0),
        Box("encode (msgspec/_core.so)", 2, 3, 0),
        Box("turn (iriai/machine/core.py)", 6, 3, 2),
        Box("store-writer", 2, 1, 8),
        Box("run (iriai/store/writer.py)", 2, 2, 8),
    ]


def test_a_picture_is_an_svg_that_names_its_boxes():
    text = flame_graph([*SAMPLES, "<module> (iriai/a.py) 1"], "What <it> does")
    picture = ET.fromstring(text)
    told = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert told[:2] == ["What <it> does", "all: 100.0 %"]
    assert "turn (iriai/machine/core.py): 54.5 %" in told
    assert "/home" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_without_samples_there_is_a_picture_of_nothing():
    assert "Nothing" in flame_graph([], "Nothing")
