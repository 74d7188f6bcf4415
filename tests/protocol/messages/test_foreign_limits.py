"""Limits that no machine could keep are refused where they come in, whoever says them."""

import msgspec
import pytest

from iriai.model.bounds import QUEUE_MAX
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.job import JobSpec
from iriai.model.ranks import RANKS_MAX, SEATS_MAX, RankShape
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.scheduling import Forward, Run, Stop, Want
from iriai.wire.parts import pack, unpack

ATTEMPT, ANN = AttemptId("ume", 1, 0, 1), Account("lab", "ann")
NO_LIMITS = (float("inf"), float("nan"), 1e300, -1.0)


def want(**fields) -> Want:
    known = {"limit_s": None, "urgency": 1.0, "waited_s": 0.0, "count": 1} | fields
    return Want(JobId("ume", 1), ANN, Resources(1), **known)


def run(lease_s=None, **fields) -> Run:
    return Run(ATTEMPT, JobSpec(ANN, "ann", "x", ("true",), "/", **fields), None, lease_s)


MESSAGES = [
    (Part.BROKER, lambda limit: want(limit_s=limit)),
    (Part.BROKER, lambda limit: want(grace_s=limit)),
    (Part.NODE, lambda limit: run(lease_s=limit)),
    (Part.NODE, lambda limit: run(time_limit_s=limit)),
    (Part.NODE, lambda limit: run(cpu_limit_s=limit)),
    (Part.NODE, lambda limit: run(kill_grace_s=limit)),
    (Part.NODE, lambda limit: Stop(ATTEMPT, EndCause.CANCELLED, limit)),
]


@pytest.mark.parametrize("limit", NO_LIMITS)
@pytest.mark.parametrize(("part", "message"), MESSAGES)
def test_what_cannot_be_kept_is_no_message(part, message, limit):
    with pytest.raises(msgspec.ValidationError):
        unpack(pack(part, message(limit)))


@pytest.mark.parametrize(("part", "message"), MESSAGES)
def test_a_year_can(part, message):
    said = message(31_557_600.0)
    assert unpack(pack(part, said)) == said


@pytest.mark.parametrize("queue", [-1, QUEUE_MAX + 1, 1 << 60])
def test_a_queue_that_there_cannot_be_is_no_message(queue):
    for part, said in ((Part.BROKER, want(queue=queue)), (Part.NODE, run(queue=queue))):
        with pytest.raises(msgspec.ValidationError):
            unpack(pack(part, said))


SHAPES = [
    (8, 2, None, None),
    (8, 8, 3, 4),
    (7, 7, None, 2),
    (2, 2, 4, None),
    (SEATS_MAX + 1, SEATS_MAX + 1, None, 1),
    (1, RANKS_MAX + 1, None, None),
    (0, 1, None, None),
    (-1, -1, None, None),
    (1, 1, SEATS_MAX + 1, None),
    (8, 8, 0, None),
    (8, 8, None, 0),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_that_contradict_are_no_message_of_a_home_or_of_another_broker(shape):
    """Else a task that can never start would have places kept for it at once and for ever."""
    for message in (want(), Forward("w1", 1, "other", 1, want())):
        packed = pack(Part.BROKER, message)
        body = msgspec.msgpack.decode(packed.body)
        whose = body if isinstance(message, Want) else body["want"]
        whose["shape"] = shape
        with pytest.raises(msgspec.ValidationError):
            unpack(msgspec.structs.replace(packed, body=msgspec.Raw(msgspec.msgpack.encode(body))))


def test_ranks_that_fit_each_other_are_one():
    for shape in (
        (8, 8, None, None),
        (8, 8, 4, 2),
        (2, 9, 2, None),
        (RANKS_MAX, RANKS_MAX, 1, None),
    ):
        said = want(shape=RankShape(*shape))
        assert unpack(pack(Part.BROKER, said)) == said
