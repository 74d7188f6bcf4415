"""Alterations of waiting jobs, checked as at submission."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from iriai.classad.installation import canonical
from iriai.config.reader import Configuration
from iriai.jobs.queue_rules import too_long
from iriai.jobs.selection import SelectedJobs
from iriai.jobs.validation import (
    check_limit,
    check_name,
    check_throttle,
    check_urgency,
    checked_resources,
)
from iriai.model.alteration import Alteration
from iriai.model.job import Dependency, JobSpec
from iriai.model.pool_room import NO_LIMITS, MachineLimits
from iriai.model.problem import Refused, UsageProblem
from iriai.model.ranks import ONE, RankShape, shape_of
from iriai.model.resources import DISK, FIELDS, MEMORY, amount_words, describe_amount
from iriai.wire.changes import Alter

_DONE = {"hold": "held", "release": "released", "alter": "altered"}


def require_whole(item: SelectedJobs, what: str) -> None:
    """Raise `UsageProblem` if `item` has some tasks of a job, which are not changed alone."""
    if item.indices:
        raise UsageProblem(
            "whole-job", f"tasks of a job cannot be {_DONE[what]} alone", f"iriai {what} {item.job}"
        )


def alteration(
    body: Alter,
    after: tuple[Dependency, ...] | None,
    spec: JobSpec,
    configuration: Configuration,
) -> Alteration:
    """Return what `body` changes of `spec`; raise a `Problem`. `after` None: no dependencies."""
    wanted = Alteration(
        name=body.name,
        time_limit_s=body.time_limit_s,
        urgency=body.urgency,
        throttle=body.throttle,
        exclusive=body.exclusive,
        after=UNSET if after is None else after,
        queue=body.queue,
    )
    amounts = {name: value for name in FIELDS if (value := getattr(body, name)) is not UNSET}
    if body.named is not UNSET:
        amounts["named"] = tuple({**dict(spec.resources.named), **dict(body.named)}.items())
    if amounts:
        wanted = replace(wanted, resources=checked_resources(replace(spec.resources, **amounts)))
    if body.requirements is not UNSET:
        requirements = canonical(body.requirements, "--requirements")
        wanted = replace(wanted, requirements=requirements)
    if body.rank is not UNSET:
        wanted = replace(wanted, rank=canonical(body.rank, "--rank"))
    shape = _shape(body, spec)
    if shape != spec.shape:
        wanted = replace(wanted, shape=shape)
    if body.across_pools is not UNSET:
        wanted = replace(wanted, across_pools=body.across_pools and shape != ONE)
    if spec.limits != NO_LIMITS:
        _check_admitted(wanted, spec)
    if body.queue is not UNSET or body.time_limit_s is not UNSET:
        wanted = _limited(wanted, body, spec, configuration)
    new = wanted.applied(spec)
    check_name(new.name)
    check_urgency(new.urgency)
    check_limit(new.time_limit_s)
    check_throttle(new.throttle, is_array=spec.is_array)
    return wanted


def _check_admitted(wanted: Alteration, spec: JobSpec) -> None:
    """Raise `Refused` for more than the queue permitted when the job was submitted.

    Of a parallel job, how many ranks a machine has is part of that.
    """
    new = wanted.applied(spec)
    is_parallel = spec.shape != ONE or new.shape != ONE
    most = spec.limits
    if is_parallel:
        most = MachineLimits(
            *map(min, most, (spec.resources.memory_bytes, spec.resources.disk_bytes))
        )
    amounts = (new.resources.memory_bytes, new.resources.disk_bytes)
    for kind, amount, limit in zip((MEMORY, DISK), amounts, most, strict=True):
        if limit and not 0 < amount <= limit:
            asked = describe_amount(kind.name, amount) if amount else f"no limit of {kind.name}"
            raise Refused(
                "above-admitted-limit",
                f"{asked} is more than the {amount_words(kind.name, limit)} with which the job was "
                "admitted to its queue",
                "ask for no more than that, or submit it again",
            )
    if is_parallel and (new.shape, new.resources.cpus) != (spec.shape, spec.resources.cpus):
        raise Refused(
            "above-admitted-limit",
            "the limits of its queue were divided among its ranks when the job was admitted",
            "submit it again with other ranks or CPUs",
        )


def _limited(
    wanted: Alteration, body: Alter, spec: JobSpec, configuration: Configuration
) -> Alteration:
    """Return an alteration of queue or time limit with the limit that the queue permits."""
    new = wanted.applied(spec)
    queue = configuration.queue(new.queue)
    most_s = None if queue is None else queue.time_limit_max_s
    limit_s = new.time_limit_s
    if most_s is None or (limit_s is not None and limit_s <= most_s):
        return wanted
    if limit_s is not None or body.time_limit_s is not UNSET:
        raise too_long(new.queue, limit_s, most_s)
    return replace(wanted, time_limit_s=most_s)


def _shape(body: Alter, spec: JobSpec) -> RankShape:
    """Return the shape that `body` gives; what it does not name stays."""
    has = spec.shape
    if body.ranks is UNSET and body.nodes is UNSET and body.per_node is UNSET:
        return has
    return shape_of(
        has.ranks_text if body.ranks is UNSET else body.ranks,
        has.nodes if body.nodes is UNSET else body.nodes,
        has.per_node if body.per_node is UNSET else body.per_node,
    )
