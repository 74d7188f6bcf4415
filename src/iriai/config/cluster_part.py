"""The part of the configuration that a cluster shares, and its merge with a machine's own.

Keys of the cluster's document take precedence over those of the machine's own file.
"""

from __future__ import annotations

import tomllib
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from iriai.config.keys import keys
from iriai.config.reader import BadConfiguration, Configuration, parse_configuration
from iriai.config.sections import GroupSection, PoolSection, QueueSection

Section = TypeVar("Section", bound=Struct)

CLUSTER_SECTIONS = ("groups", "queues", "pools", "gang", "order", "jobs", "reservations", "gossip")
"""Sections that must be equal for all brokers, homes and directories. Other sections belong to each
machine: what it offers, which users it admits, where it listens."""


def parse_cluster_configuration(text: str, where: str) -> Configuration:
    """Parse the cluster's document `text`; `where` names it in messages.

    Raises:
        BadConfiguration: it is malformed, or has a section that belongs to each machine.
    """
    configuration = parse_configuration(text, where)
    for section in tomllib.loads(text):
        if section not in CLUSTER_SECTIONS:
            raise BadConfiguration(
                f"{where}: [{section}] is not part of the cluster's configuration",
                "write it into iriai.toml of the machine; the cluster's configuration has "
                f"{', '.join(f'[{each}]' for each in CLUSTER_SECTIONS)}",
            )
    return configuration


def with_cluster(own: Configuration, cluster: Configuration) -> Configuration:
    """Return a machine's `own` configuration, overridden by that of its `cluster`."""
    sections = {
        name: _overridden(name, getattr(own, name), getattr(cluster, name), cluster)
        for name in CLUSTER_SECTIONS[3:]  # without those that are merged by name
    }
    queues = {
        number: _overridden(
            f"queues.{number}", own.queues.get(number, QueueSection()), queue, cluster
        )
        for number, queue in cluster.queues.items()
    }
    pools = {
        name: _overridden(f"pools.{name}", own.pools.get(name, PoolSection()), pool, cluster)
        for name, pool in cluster.pools.items()
    }
    groups = {name: group for name, group in own.groups.items() if name not in cluster.groups}
    for name, group in cluster.groups.items():
        before = own.groups.get(name, GroupSection())
        is_given = f"groups.{name}.right" in cluster.given
        right = group.right if is_given else before.right
        groups[name] = GroupSection(right, {**before.users, **group.users})
    return replace(
        own,
        groups=groups,
        queues={**own.queues, **queues},
        pools={**own.pools, **pools},
        given={**own.given, **cluster.given},
        **sections,
    )


def _overridden(path: str, own: Section, found: Section, cluster: Configuration) -> Section:
    """Return a section with the keys that the cluster's document gives."""
    changes = {
        key.field: getattr(found, key.field)
        for name, key in keys(type(found)).items()
        if f"{path}.{name}" in cluster.given
    }
    return replace(own, **changes)
