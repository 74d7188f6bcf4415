"""Mendings of daemon and launcher that a real installation can be started without.

Supervisor, daemon and launcher are Pythons that `tests/fuzz/taken_out` is on the path of: what
`IRIAI_TEST_WITHOUT` names is patched in each before any other module is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "IRIAI_TEST_WITHOUT"
HUGE = 1 << 60
MIB = 1 << 20
SMALL = "rooms as usual"
"""Not a mending: without it bounds that no configuration lowers are lower, and floods short."""
LONG_S = 1e9


class Patch(NamedTuple):
    """What is put into the place of something."""

    module: str
    name: str
    """Within the module, with dots."""
    value: Any


def take_out(names: list[str]) -> None:
    """Take mendings out of this process."""
    patches = [each for name in names for each in TAKEN_OUT[name]]
    # First what others import: they get what has been put there.
    for each in sorted(patches, key=lambda each: not each.module.startswith("iriai.model.")):
        *path, last = each.name.split(".")
        place = reduce(getattr, path, import_module(each.module))
        setattr(place, last, each.value)
    for name in names:
        MORE.get(name, _nothing)()


def without(*names: str) -> dict[str, str]:
    """The environment of `iriai up` that has these mendings taken out everywhere."""
    here = Path(__file__).resolve()
    path = f"{here.parent / 'taken_out'}{os.pathsep}{here.parents[2]}"
    return {VARIABLE: ",".join(names), "PYTHONPATH": path} if names else {}


def _limit(*keys: str) -> tuple[Patch, ...]:
    """Without limits of `[limits]`, whatever the configuration says."""
    module = "iriai.config.limits"
    return tuple(Patch(module, f"LimitsSection.{key}", HUGE) for key in keys)


def _raw(decoder: Any, content: Any) -> Any:
    """Python's own error for values that are nested too deeply."""
    return decoder.decode(content)


def _unsliced(self: Any, until_s: float, requests_max: int, now: Any) -> int:
    """All of what was asked at once, however long that takes."""
    return _work(self, LONG_S * LONG_S, requests_max, now)


_work: Any = None


def _keep_work() -> None:
    global _work
    clients = import_module("iriai.daemon.server.connections")
    _work, clients.ClientSession.work = clients.ClientSession.work, _unsliced


def _without_bounds_of_links() -> None:
    from tests.fuzz.unbounded import Unbounded

    links = import_module("iriai.wire.links")
    links._decoder = Unbounded(links.LinkFrame)


def _nothing(*_: Any, **__: Any) -> None:
    """Does nothing, and finds nothing."""


def _true(*_: Any, **__: Any) -> bool:
    return True


def _room_for_all(*_: Any) -> tuple[list[Any], str]:
    return [], ""


def _fail(*_: Any, **__: Any) -> None:
    raise ZeroDivisionError("a mistake of ours")


def _all_parts(item: Any) -> Iterator[Any]:
    yield item


TAKEN_OUT: dict[str, tuple[Patch, ...]] = {
    "nesting": (Patch("iriai.model.bounds", "decoded", _raw),),
    "environment": (
        Patch("iriai.jobs.drafts", "ENVIRONMENT_BYTES_MAX", HUGE),
        Patch("iriai.jobs.drafts", "ARGUMENT_BYTES_MAX", HUGE),
        Patch("iriai.jobs.drafts", "ENVIRONMENT_VARIABLES_MAX", HUGE),
    ),
    "orders in several messages": (
        Patch("iriai.daemon.tasks.launcher_client", "LAUNCH_BYTES_MAX", HUGE),
        Patch("iriai.daemon.tasks.launcher_client", "TEMPLATE_BYTES_MAX", HUGE),
    ),
    "ids of a request": (Patch("iriai.jobs.selection", "IDS_MAX", HUGE),),
    "slices": (
        Patch("iriai.daemon.server.request_scheduling", "TURN_S", LONG_S),
        Patch("iriai.daemon.server.request_scheduling", "TURN_ALONE_S", LONG_S),
        Patch("iriai.daemon.server.request_scheduling", "SLICE_S", LONG_S),
    ),
    "letters of a pattern": (Patch("iriai.model.name_pattern", "PATTERN_LENGTH_MAX", HUGE),),
    "connections": _limit("connections"),
    "connections_per_user": _limit("connections_per_user"),
    "connects_per_s": _limit("connects_per_s", "connects_burst"),
    "requests_per_s": _limit("requests_per_s", "requests_burst"),
    "waits_per_user": _limit("waits_per_user"),
    "hello_s": _limit("hello_s"),
    "room of strangers": (
        Patch(
            "iriai.policy.service.unauthenticated",
            "UnauthenticatedConnections.who_goes",
            _room_for_all,
        ),
        Patch("iriai.policy.service.token_bucket", "TokenBucket.consume", _true),
    ),
    "silent ones give way": (
        Patch(
            "iriai.policy.service.unauthenticated",
            "UnauthenticatedConnections._first_to_go",
            _nothing,
        ),
    ),
    "requests of strangers": (
        Patch(
            "iriai.daemon.requests.cluster.unauthenticated",
            "UnauthenticatedClients._check_rate",
            _nothing,
        ),
    ),
    "descriptors": (
        Patch("iriai.daemon.transport.socket_stream", "CLIENT_DESCRIPTORS_MAX", HUGE),
        Patch("iriai.daemon.transport.socket_stream", "DESCRIPTORS_MAX", HUGE),
    ),
    "descriptors_per_user": _limit("descriptors_per_user"),
    "closing that takes long": (Patch("iriai.system.closing", "_handle_signal", _nothing),),
    "a frame before Hello": (Patch("iriai.daemon.server.connections", "HELLO_BYTES_MAX", 1 << 30),),
    "unfinished_bytes_per_user": _limit("unfinished_bytes_per_user"),
    "unsent_bytes_per_user": (
        *_limit("unsent_bytes_per_user"),
        Patch("iriai.daemon.server.connections", "UNSENT_BYTES_MAX", HUGE),
    ),
    "jobs_per_user": _limit("jobs_per_user"),
    "job_bytes_per_user": _limit("job_bytes_per_user"),
    "decoded environments": (
        Patch("iriai.launcher.environment.environment", "_KEPT_BYTES_MAX", HUGE),
    ),
    "names of texts": (
        Patch("iriai.links.text_pieces", "DIGEST", re.compile(".*", re.DOTALL)),
        Patch("iriai.links.text_pieces", "TEXT_BYTES_MAX", HUGE),
    ),
    SMALL: (
        Patch("iriai.links.core", "UNFINISHED_BYTES_MAX", 4 * MIB),
        Patch("iriai.daemon.payloads.remote_payloads", "TEXTS_BYTES_MAX", 4 * MIB),
    ),
    "unfinished frames of links": (Patch("iriai.links.core", "UNFINISHED_BYTES_MAX", HUGE),),
    "texts of a sender": (
        Patch("iriai.daemon.payloads.remote_payloads", "TEXTS_BYTES_MAX", HUGE),
        Patch("iriai.daemon.payloads.remote_payloads", "IN_ALL_BYTES_MAX", HUGE),
    ),
    "messages a second": (Patch("iriai.links.session", "MESSAGES_PER_S_MAX", HUGE),),
    "signatures checked": (
        Patch("iriai.protocol.directory.checks", "Checks.may_check", _true),
        Patch("iriai.protocol.misbehaviour", "RateLimit.takes", _true),
    ),
    "consents of a user": (Patch("iriai.identity.trust.consents", "OF_USER_MAX", HUGE),),
    "lifetime of a consent": (Patch("iriai.identity.trust.consents", "LIFETIME_S_MAX", 1e11),),
    "wrong signatures": (Patch("iriai.protocol.directory.checks", "Checks.note_wrong", _nothing),),
    "size of output": (Patch("iriai.daemon.tasks.task_streams", "STREAM_BYTES_MAX", HUGE),),
    "ends of tasks": (Patch("iriai.launcher.tasks.task", "RunningTask.exit", _fail),),
    "tokens of a user": (
        Patch("iriai.identity.storage.join_tokens", "TOKENS_OF_USER_MAX", HUGE),
        Patch("iriai.identity.storage.join_tokens", "OF_USERS_MAX", HUGE),
    ),
}
"""By name: what is put into the place of what."""
MORE = {"slices": _keep_work, "names of texts": _without_bounds_of_links}
"""What patches alone do not do."""
