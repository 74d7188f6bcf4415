"""The purity rule finds every way out that it is for, and lets decisions be written."""

from __future__ import annotations

import pytest

from tests.architecture.rules_purity import PURE_PACKAGES, impurities
from tests.architecture.source import module_from_text


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio",
        "import socket",
        "import subprocess",
        "import threading",
        "import time",
        "import os",
        "import io",
        "import sys",
        "import logging",
        "import psutil",
        "from pathlib import Path",
        "from os import environ",
        "def f():\n    from concurrent.futures import Future",
        "from random import choice",
        "from random import SystemRandom",
        "import random\nx = random.random()",
        "import random\nrandom.shuffle(tasks)",
        "import random\nx = random.Random(1).choice\nrandom.SystemRandom()",
        "from random import Random\nx = Random()",
        "def f(dice: random.Random) -> int:\n    return dice.randrange(6)",
        "class A:\n    def f(self):\n        return self._random.choice([1])",
        "from random import Random\nself.dice = Random(1)\nself.dice.shuffle(tasks)",
        "def f(when):\n    return datetime.datetime.now()",
        "from datetime import date\nx = date.today()",
        "open('x')",
        "print('x')",
        "eval('1')",
        "order = hash('x')",
        "order = id(task)",
        "async def f(): pass",
        "def f():\n    return (x async for x in y)",
    ],
)
def test_a_way_out_of_a_core_is_found(text: str):
    assert impurities([module_from_text("iriai.broker.core", text)])


@pytest.mark.parametrize("package", sorted(PURE_PACKAGES))
def test_every_pure_package_is_looked_at(package: str):
    assert impurities([module_from_text(f"iriai.{package}.core", "import time")])


def test_other_packages_may_do_what_they_are_for():
    assert impurities([module_from_text("iriai.daemon.main", "import asyncio, time")]) == []


def test_a_decision_is_let_through():
    decision = module_from_text(
        "iriai.policy.orders.lottery",
        """
        import math
        import random
        from collections.abc import Sequence

        from iriai.model.ids import Account

        def draw(weights: Sequence[float], dice: random.Random, now_s: float) -> int:
            '''Draw an index in proportion to its weight.'''
            point = dice.random() * math.fsum(weights)
            return int(point) ^ dice.getrandbits(1)
        """,
    )
    assert impurities([decision]) == []
