"""What a machine pays for that is in no cluster: nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
import {module}
print(*(name for name in ("cryptography", "ssl") if name in sys.modules))
"""


@pytest.mark.parametrize("module", ["iriai.daemon.__main__", "iriai.client.client"])
def test_certificates_cost_nothing_where_there_are_none(module: str):
    command = [sys.executable, "-c", LOADED.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cryptography" not in done.stdout
