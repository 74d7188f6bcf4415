"""Floods: for each limit of docs/spec/010 something beyond it, sent to a real daemon of root.

A flood complains where what is beyond was not refused; a watcher outside (`reported`) where
anything ended, stood still or kept memory meanwhile.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from iriai.client import Client
from iriai.model.problem import Problem
from iriai.model.submission import Interaction
from iriai.system.closing import THREADS_MAX
from iriai.system.frames import frame
from iriai.wire.changes import (
    Cancel,
    Hold,
)
from iriai.wire.codec import request_frame
from iriai.wire.envelopes import Request
from iriai.wire.exchange import IDS_MAX
from iriai.wire.requests import (
    Failure,
    Jobs,
    Submitted,
    Wait,
)
from tests.fuzz.scene import (
    CONNECTS,
    DESCRIPTORS,
    JOBS,
    MIB,
    NESTED,
    OF_A_USER,
    REQUESTS,
    WAIT_S,
    WAITS,
    Complaints,
    Flood,
    Scene,
    is_closed,
    refused,
)
from tests.support.lingering import pass_lingering


def nested_values(scene: Scene) -> Complaints:
    """T3a: before Hello."""
    for _ in range(3):
        with scene.user() as eve:
            eve.send(frame(NESTED))
            try:
                yield from refused(eve.reply(), "nested too deeply")
            except ConnectionError:
                yield "it was cut off without a word"


def many_ids(scene: Scene) -> Complaints:
    """T9a: in one request."""
    ids = tuple(f"ume-{number}" for number in range(100_000))
    with scene.greeted() as eve:
        eve.socket.settimeout(2 * WAIT_S)
        for body in (Cancel(ids), Hold(ids), Wait(ids)):
            yield from refused(eve.ask(body), f"{IDS_MAX} of one request")


def ids_of_many_requests(scene: Scene) -> Complaints:
    """T9a: as many as may be, over several connections at once; the watcher sees the turns."""
    with scene.client(scene.people.ann) as client:
        job = client.submit(scene.draft("true")).id
        client.wait([job])
    ids = tuple(f"{job}.0-{last}" for last in range(IDS_MAX))
    with ExitStack() as stack:
        asking = [stack.enter_context(scene.greeted()) for _ in range(4)]
        for _ in range(24):  # so long that the watcher looks several times meanwhile
            for eve in asking:
                eve.send(request_frame(Request(4, Cancel(ids))))
            for reply in [eve.reply() for eve in asking]:
                if isinstance(reply, Failure):
                    yield f"as many ids as may be are refused: {reply.message}"


def long_patterns(scene: Scene) -> Complaints:
    """T9b: longer than a name may be; not those that would never end, since nothing ends them."""
    with scene.greeted() as eve:
        for body in (Cancel(("name:" + "a" * 12_000,)), Jobs(name="[a]" * 4_000)):
            yield from refused(eve.ask(body), "at most 256")


def many_connections(scene: Scene) -> Complaints:
    """T9c: of one user."""
    before = scene.limited("connections_per_user")
    with ExitStack() as stack:
        for _ in range(OF_A_USER + 5):
            with suppress(ConnectionError):
                stack.enter_context(scene.user()).greet()
        yield from scene.without_refusal("connections_per_user", before)


def connections_of_several(scene: Scene) -> Complaints:
    """T9c: of several users, who leave room for operators."""
    before = scene.limited("connections")
    with ExitStack() as stack:
        for person in (scene.people.bob, scene.people.eve):
            for _ in range(OF_A_USER):
                with suppress(ConnectionError):
                    stack.enter_context(scene.user(person)).greet()
        yield from scene.without_refusal("connections", before)


def fast_connections(scene: Scene) -> Complaints:
    """T9c: one after the other."""
    before = scene.limited("connects_per_s")
    for _ in range(2 * CONNECTS):
        with suppress(BlockingIOError), scene.user():  # the kernel has no more wait
            pass
    yield from scene.without_refusal("connects_per_s", before)


def fast_requests(scene: Scene) -> Complaints:
    """T9c: more than a user may ask a second."""
    before = scene.limited("requests_per_s")
    asked = b"".join(request_frame(Request(n, Cancel(("ume-0",)))) for n in range(REQUESTS))
    with scene.greeted() as eve:
        for _ in range(2):
            eve.send(asked)
            for _ in range(REQUESTS):
                eve.reply()
            eve.forget_replies()
        yield from scene.without_refusal("requests_per_s", before)


def many_waits(scene: Scene) -> Complaints:
    """T9c: for more than one user may."""
    before = scene.limited("waits_per_user")
    with scene.client() as client:
        job = client.submit(scene.draft("true", held=True, array=((1, 2 * WAITS, 1),))).id
        with scene.greeted() as eve:
            eve.send(request_frame(Request(9, Wait((f"{job}.1-{2 * WAITS}",)))))
            until_s = time.monotonic() + WAIT_S
            while scene.limited("waits_per_user") <= before and time.monotonic() < until_s:
                time.sleep(0.1)
        client.cancel([job])
    yield from scene.without_refusal("waits_per_user", before)


def silence(scene: Scene) -> Complaints:
    """T9c: who never says Hello."""
    with scene.user() as eve:
        if not is_closed(eve):
            yield "hello_s: who says nothing may stay"


def passed_descriptors(scene: Scene) -> Complaints:
    """T9f: beside a frame whose rest does not come."""
    with scene.greeted() as eve, Path(os.devnull).open("rb") as null:
        eve.send(b"\x00\x00\x10\x00")
        with suppress(OSError):
            for _ in range(50):
                socket.send_fds(eve.socket, [b"x"], [null.fileno()] * 10)
        if not is_closed(eve):
            yield "descriptors are taken without bound"


def kept_inputs(scene: Scene) -> Complaints:
    """T9f: of jobs that wait."""
    draft = scene.draft("true", held=True, interaction=Interaction.STREAM, output="")
    with scene.client() as client:
        try:
            for _ in range(2 * DESCRIPTORS):
                client.submit(draft, takes_input=True)
            yield "descriptors_per_user: what is beyond is not refused"
        except Problem as problem:
            if "descriptors_per_user" not in problem.hint:
                yield str(problem)
        client.cancel([row.id for row in client.jobs(Jobs())])


def lingering_descriptors(scene: Scene) -> Complaints:
    """T9f: more than are waited for at a time, whose closing would take hours."""
    own = Path(f"/proc/{scene.installation.pid('daemon')}/fd")
    before = len(list(own.iterdir()))
    with ExitStack() as stack:
        for _ in range(THREADS_MAX // 4 + 2):
            with scene.greeted() as eve:
                pass_lingering(eve.socket, 4, stack, scene.installation.pid("daemon"))
        until_s = time.monotonic() + WAIT_S
        while (kept := len(list(own.iterdir())) - before) > OF_A_USER:
            if time.monotonic() > until_s:
                yield f"{kept} descriptors that linger stay open"
                return
            time.sleep(0.1)


def long_frame_before_hello(scene: Scene) -> Complaints:
    """T9g: of somebody who has not said who they are."""
    with scene.user() as eve:
        eve.send((1 << 20).to_bytes(4, "big"))
        eve.socket.settimeout(1.0)
        try:
            yield from refused(eve.reply(), "the limit is")
        except TimeoutError:
            yield "a long frame is waited for before Hello"


def unfinished_frames(scene: Scene) -> Complaints:
    """T9g: on several connections."""
    before = scene.limited("unfinished_bytes_per_user")
    piece = (4 * MIB).to_bytes(4, "big") + bytes(3 * MIB)
    with ExitStack() as stack:
        for _ in range(10):
            eve = stack.enter_context(scene.greeted())
            eve.send(piece)
        until_s = time.monotonic() + WAIT_S
        while scene.limited("unfinished_bytes_per_user") <= before and time.monotonic() < until_s:
            time.sleep(0.1)
        yield from scene.without_refusal("unfinished_bytes_per_user", before)


def unread_answers(scene: Scene) -> Complaints:
    """T9g: what was asked for and is not read."""
    before = scene.limited("unsent_bytes_per_user")
    with scene.client(scene.people.ann) as client:
        job = client.submit(scene.draft("true", held=True)).id
        client.cancel([job])
    asked = request_frame(Request(9, Cancel(tuple(f"{job}.0-{n}" for n in range(9_000)))))
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(scene.greeted()).send_unread(asked * 5)
        until_s = time.monotonic() + WAIT_S
        while scene.limited("unsent_bytes_per_user") <= before and time.monotonic() < until_s:
            time.sleep(0.1)
        yield from scene.without_refusal("unsent_bytes_per_user", before)


def many_jobs(scene: Scene) -> Complaints:
    """T9h: that wait."""
    with scene.client() as client:
        told = client.submit_many([scene.draft("true", held=True)] * (2 * JOBS))
        client.cancel([each.id for each in told if isinstance(each, Submitted)])
    if not any("jobs_per_user" in each.hint for each in told if isinstance(each, Problem)):
        yield "jobs_per_user: what is beyond is not refused"


def large_jobs(scene: Scene) -> Complaints:
    """T9h: that wait with large environments."""
    variables = {f"V{place}": "x" * 100_000 for place in range(8)}
    with scene.client() as client:
        told = client.submit_many([scene.draft("true", held=True, env=variables)] * 10)
        client.cancel([each.id for each in told if isinstance(each, Submitted)])
    if not any("job_bytes_per_user" in each.hint for each in told if isinstance(each, Problem)):
        yield "job_bytes_per_user: what is beyond is not refused"


def large_environment(scene: Scene) -> Complaints:
    """T5: larger than any program can be started with."""
    for variables in ({f"V{each}": "x" * 100_000 for each in range(30)}, {"V": "x" * 140_000}):
        with scene.client(scene.people.ann) as client:
            try:
                job = client.submit(scene.draft("true", held=True, env=variables)).id
            except Problem as problem:
                if problem.code != "environment-too-large":
                    yield str(problem)
                continue
            client.cancel([job])
            yield "an environment that no program is started with is taken"


def large_starts(scene: Scene) -> Complaints:
    """T5: jobs whose texts fit no single frame start all the same, and so do those of others."""
    with scene.client(scene.people.ann) as client:
        ids = []
        for number in range(9):
            text = bytes([number]) * (16 * MIB - 4)
            script = b"#!/bin/sh\nexit 0\n#" + text[20:]
            draft = scene.draft("large", script=script, stdin=text, held=True)
            ids.append(client.submit(draft).id)
        client.release(ids)
        yield from completed(client, ids)


def completed(client: Client, ids: list[str], wait_s: float = 60.0) -> Complaints:
    """Complain where not all of these have run by then."""
    until_s = time.monotonic() + wait_s
    while time.monotonic() < until_s:
        left = {row.id for row in client.jobs(Jobs())}
        if left.isdisjoint(ids):
            bad = [each for each in client.wait(ids) if each.cause != "completed"]
            if bad:
                yield str(bad[0])
            return
        time.sleep(0.1)
    client.cancel(ids)
    yield "they do not start"


def decoded_environments(scene: Scene) -> Complaints:
    """T9i: of many variables each; the watcher sees what the launcher keeps."""
    with scene.client(scene.people.ann) as client:
        for number in range(40):
            variables = {f"V{number}_{each}": "x" for each in range(15_000)}
            client.wait([client.submit(scene.draft("true", env=variables)).id])
    yield from ()


def endless_output(scene: Scene) -> Complaints:
    """T9l: of what somebody follows."""
    words = ("sh", "-c", "head -c 1100M /dev/zero; sleep 600")
    with scene.client(scene.people.ann) as client:
        job = client.submit(scene.draft(*words, interaction=Interaction.STREAM, output="")).id
        until_s = time.monotonic() + 2 * WAIT_S
        while time.monotonic() < until_s and client.jobs(Jobs()):
            time.sleep(0.1)
        if client.jobs(Jobs()):
            client.cancel([job])
            yield "STREAM_BYTES_MAX: a task prints without end"
        [outcome] = client.wait([job])
    if outcome.cause == "failed" and "STREAM_BYTES_MAX" not in outcome.message:
        yield str(outcome)


FLOODS: tuple[Flood, ...] = (
    nested_values, many_ids, ids_of_many_requests, long_patterns, many_connections,
    connections_of_several, fast_connections, fast_requests, many_waits, silence,
    passed_descriptors, kept_inputs, lingering_descriptors, long_frame_before_hello,
    unfinished_frames, unread_answers, many_jobs, large_jobs, large_environment,
    decoded_environments, endless_output,
)  # fmt: skip
HEAVY: tuple[Flood, ...] = (large_starts,)
"""Some hundred megabytes, with limits as usual: turns of such are longer than others."""
