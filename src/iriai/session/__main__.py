"""`python -m iriai.session DIRECTORY...`: the session agent, for these state directories.

`iriai session-agent` starts it. It ends with its session. Exit code 3: the session cannot be
watched; the reason is the last line on standard error.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress

from iriai.model.paths import StatePaths
from iriai.session.agent import SessionAgent
from iriai.session.sensor_connection import SensorConnection
from iriai.session.source import ActivitySource, NoSource, SessionOver

log = logging.getLogger("iriai.session")

Environment = Mapping[str, str]


def main(directories: list[str], environment: Environment = os.environ) -> int:
    """Run the agent; return the exit code."""
    logging.basicConfig(format="iriai session-agent: %(message)s", level=logging.INFO)
    try:
        source = find_source(environment)
    except NoSource as problem:
        log.error("this session cannot be watched: %s", problem)  # noqa: TRY400 - the text says all
        return 3
    log.info("watches this session by %s", source.display)
    paths = [StatePaths(each).sessions_socket for each in directories]
    agent = SessionAgent(source, [SensorConnection(path, source.display) for path in paths])
    with suppress(KeyboardInterrupt):
        try:
            agent.run()
        except SessionOver as over:
            log.info("the session is over: %s", over)
    return 0


def find_source(environment: Environment) -> ActivitySource:
    """Return the first way in which this session can be watched. Raises `NoSource`."""
    reasons = []
    # Beside Wayland an X server sees its own clients' part alone.
    is_wayland = bool(environment.get("WAYLAND_DISPLAY"))
    for make in (_wayland, _mutter) if is_wayland else (_x11, _mutter):
        try:
            return make(environment)
        except NoSource as problem:
            reasons.append(str(problem))
        except ImportError as error:
            reasons.append(f"{error.name} is missing: pip install 'iriai[owner]'")
    raise NoSource("; ".join(reasons))


def _x11(environment: Environment) -> ActivitySource:
    from iriai.session.x11 import X11Source

    return X11Source(environment)


def _mutter(environment: Environment) -> ActivitySource:
    from iriai.session.mutter import MutterSource

    return MutterSource(environment)


def _wayland(environment: Environment) -> ActivitySource:
    from iriai.session.wayland import WaylandSource

    return WaylandSource(environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
