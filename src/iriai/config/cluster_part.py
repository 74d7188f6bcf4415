"""The part of the configuration that a cluster agrees on, and how it joins a machine's own.

What the cluster's document says, holds; what it does not mention, each machine's own file decides.
"""

from __future__ import annotations

import tomllib

from msgspec.structs import replace

from iriai.config.keys import keys
from iriai.config.reader import BadConfiguration, Configuration, parse_configuration
from iriai.config.sections import GossipSection, GroupSection, JobSection, OrderSection

CLUSTER_SECTIONS = ("groups", "order", "jobs", "gossip")
"""The sections that must be the same for all brokers, homes and directories. The rest is a
machine's own: what it offers, which users it admits, where it listens."""


def parse_cluster_configuration(text: str, where: str) -> Configuration:
    """The configuration that the cluster's document `text` holds; `where` names it in messages.

    Raises:
        BadConfiguration: it is wrong, or has a section that is a machine's own.
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
    """A machine's `own` configuration under that of its `cluster`."""
    sections = {}
    for section, kind in {
        "order": OrderSection,
        "jobs": JobSection,
        "gossip": GossipSection,
    }.items():
        found = getattr(cluster, section)
        changes = {
            key.field: getattr(found, key.field)
            for name, key in keys(kind).items()
            if f"{section}.{name}" in cluster.given
        }
        sections[section] = replace(getattr(own, section), **changes)
    groups = {name: group for name, group in own.groups.items() if name not in cluster.groups}
    for name, group in cluster.groups.items():
        before = own.groups.get(name, GroupSection())
        is_said = f"groups.{name}.right" in cluster.given
        right = group.right if is_said else before.right
        groups[name] = GroupSection(right, {**before.users, **group.users})
    return replace(own, groups=groups, given={**own.given, **cluster.given}, **sections)
