"""What a daemon does once it has given up its privileges; see `main`."""

from __future__ import annotations

import sys

import iriai.daemon.__main__
from iriai.daemon.out_of_reach import keep_within_reach
from iriai.daemon.startup.order_plugins import load_orders
from iriai.system.privileges import drop_privileges
from tests.support.before_the_drop import evaluate_expressions


def main(user: str, *, keeps: bool) -> None:
    """Become `user` as a daemon does, and do what loads more of the program and its libraries."""
    sys.stdout.write(f"{iriai.daemon.__main__.__file__}\n")
    if keeps:
        keep_within_reach(user)
    drop_privileges(user)
    sys.stdout.write(f"{'numpy' in sys.modules}\n")
    evaluate_expressions()
    assert "last" in load_orders()


if __name__ == "__main__":
    main(sys.argv[1], keeps=sys.argv[2] == "keeps")
