"""Settings shared by all tests."""

import os

from hypothesis import settings

# No deadline: a busy machine is no failure. The same examples in every run of `make test`, so that
# a red run is red again; HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("search", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
