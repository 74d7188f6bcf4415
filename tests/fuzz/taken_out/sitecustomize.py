"""Imported by each Python of an installation that a test started without one of its mendings."""

import os

from tests.fuzz.mendings import VARIABLE, take_out

take_out(list(filter(None, os.environ.get(VARIABLE, "").split(","))))
