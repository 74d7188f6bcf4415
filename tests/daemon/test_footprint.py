"""What the processes of a machine load that stays in memory: what they use, and nothing beside."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = "import sys\nimport {module}\nprint(*sys.modules)"
CLUSTER = {
    *("cryptography", "iriai.cluster.member", "iriai.daemon.cluster.network"),
    *("iriai.daemon.net.mesh", "iriai.daemon.transport.tls_stream"),
    *("iriai.identity.certificates", "iriai.links.core", "iriai.protocol.membership"),
}
"""What only a member of a cluster needs."""
SELDOM = {
    "argparse",
    "classad2",
    "dateutil",
    "difflib",
    "email",
    "http",
    "numpy",
    "typing_extensions",
}
"""What a daemon needs for what few ask of it, or for mistakes."""
LARGE = {"asyncio", "dataclasses", "inspect", "pathlib", "sqlite3", "ssl", "subprocess", "uvloop"}
"""What a small process does without."""


def loaded(module: str) -> set[str]:
    """Return what a process has loaded that loads `module`."""
    program = PROGRAM.format(module=module)
    words = [sys.executable, "-P", "-c", program]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("module", "never", "modules_max"),
    [
        ("iriai.daemon.__main__", CLUSTER | SELDOM, 609),
        ("iriai.launcher.__main__", CLUSTER | SELDOM | LARGE, 248),
        ("iriai.supervisor.supervisor", CLUSTER | SELDOM | LARGE | {"logging", "msgspec"}, 92),
    ],
)
def test_a_process_that_stays_loads_little(module: str, never: set[str], modules_max: int):
    modules = loaded(module)
    assert never & modules == set()
    assert len(modules) <= modules_max, sorted(modules)


def test_a_client_loads_nothing_for_certificates():
    assert {"cryptography", "classad2", "numpy"} & loaded("iriai.client.client") == set()
