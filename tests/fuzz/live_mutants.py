"""Mendings of a real daemon, each taken out: a flood or the watcher has to report it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from tests.fuzz import floods, port_floods
from tests.fuzz.scene import Flood, reported, scene_of
from tests.support.people import People


class LiveMutant(NamedTuple):
    """What is taken out (`mendings`), and the flood in which that shows."""

    taken_out: str
    flood: Flood


LIVE: dict[str, LiveMutant] = {
    "T3a: nested values before Hello": LiveMutant("nesting", floods.nested_values),
    "T3b: nested values at the port": LiveMutant("nesting", port_floods.nested_values_at_the_port),
    "T3c: nested values over links": LiveMutant("nesting", port_floods.nested_values_over_links),
    "T5: environments that fit nowhere": LiveMutant("environment", floods.large_environment),
    "T5: orders that fit no frame": LiveMutant("orders in several messages", floods.large_starts),
    "T9a: ids without number": LiveMutant("ids of a request", floods.many_ids),
    "T9a: turns without end": LiveMutant("slices", floods.ids_of_many_requests),
    "T9b: patterns without end": LiveMutant("letters of a pattern", floods.long_patterns),
    "T9c: connections of a user": LiveMutant("connections_per_user", floods.many_connections),
    "T9c: connections of all": LiveMutant("connections", floods.connections_of_several),
    "T9c: connections a second": LiveMutant("connects_per_s", floods.fast_connections),
    "T9c: requests a second": LiveMutant("requests_per_s", floods.fast_requests),
    "T9c: waits of a user": LiveMutant("waits_per_user", floods.many_waits),
    "T9c: silent connections": LiveMutant("hello_s", floods.silence),
    "T9d: silent strangers": LiveMutant("room of strangers", port_floods.silent_strangers),
    "T9d: requests of strangers": LiveMutant(
        "requests of strangers", port_floods.requests_of_strangers
    ),
    "T9e: silent connections to the port": LiveMutant(
        "room of strangers", port_floods.silent_connections
    ),
    "T9e: silent ones keep others out": LiveMutant(
        "silent ones give way", port_floods.silent_connections
    ),
    "T9f: descriptors beside a frame": LiveMutant("descriptors", floods.passed_descriptors),
    "T9f: inputs of jobs": LiveMutant("descriptors_per_user", floods.kept_inputs),
    "T9f: descriptors that linger": LiveMutant(
        "closing that takes long", floods.lingering_descriptors
    ),
    "T9g: frames before Hello": LiveMutant("a frame before Hello", floods.long_frame_before_hello),
    "T9g: unfinished frames": LiveMutant("unfinished_bytes_per_user", floods.unfinished_frames),
    "T9g: answers that nobody reads": LiveMutant("unsent_bytes_per_user", floods.unread_answers),
    "T9h: jobs that wait": LiveMutant("jobs_per_user", floods.many_jobs),
    "T9h: bytes of jobs that wait": LiveMutant("job_bytes_per_user", floods.large_jobs),
    "T9i: decoded environments": LiveMutant("decoded environments", floods.decoded_environments),
    "T9j: names of texts": LiveMutant("names of texts", port_floods.long_names_of_texts),
    "T9k: wrong signatures": LiveMutant("wrong signatures", port_floods.wrong_signatures),
    "T9g: unfinished frames of links": LiveMutant(
        "unfinished frames of links", port_floods.unfinished_frames_of_links
    ),
    "T9j: texts of a sender": LiveMutant("texts of a sender", port_floods.texts_of_a_member),
    "T9k: messages a second": LiveMutant("messages a second", port_floods.messages_of_a_member),
    "T9k: signatures a second": LiveMutant("signatures checked", port_floods.right_signatures),
    "T8c: consents of a user": LiveMutant(
        "consents of a user", port_floods.consents_without_number
    ),
    "T8c: lifetime of consents": LiveMutant(
        "lifetime of a consent", port_floods.consents_without_end
    ),
    "T9l: output without end": LiveMutant("size of output", floods.endless_output),
    "T9m: tokens of a user": LiveMutant("tokens of a user", port_floods.many_tokens),
}
"""By the threat of docs/spec/010 that is back."""


def complaints(people: People, name: str) -> list[str]:
    """What is reported of a daemon without a mending."""
    mutant = LIVE[name]
    is_at_port, is_heavy = mutant.flood in port_floods.AT_PORT, mutant.flood in floods.HEAVY
    found: list[str] = []
    with (
        suppress(AssertionError),  # of the end, where a traceback is in the log
        scene_of(people, mutant.taken_out, has_usual_limits=is_heavy) as scene,
    ):
        found = reported(scene, mutant.flood, is_at_port=is_at_port, is_heavy=is_heavy)
    return found


def of_all_floods(people: People) -> Iterator[tuple[str, list[str]]]:
    """(flood, what is reported) of a daemon with all of its mendings: nothing is expected."""
    with scene_of(people) as scene:
        for flood in (*floods.FLOODS, *port_floods.AT_PORT):
            yield flood.__name__, reported(scene, flood, is_at_port=flood in port_floods.AT_PORT)
