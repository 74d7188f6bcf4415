"""What a machine pays for that is in no cluster: nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
import {module}
print(*({libraries} & sys.modules.keys()))
"""
LIBRARIES = {"cryptography", "classad2", "numpy"}


@pytest.mark.parametrize("module", ["iriai.daemon.__main__", "iriai.client.client"])
def test_certificates_cost_nothing_where_there_are_none(module: str):
    program = LOADED.format(module=module, libraries=LIBRARIES)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"
