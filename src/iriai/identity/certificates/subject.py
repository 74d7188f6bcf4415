"""The subject of a certificate: `iriai://CLUSTER_ID/KIND/NAME`, an alternative name."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from iriai.model.ids import HOME_NAME

_URI = re.compile(r"iriai://(?P<cluster>[0-9a-f]{16})/(?P<kind>[a-z]+)/(?P<name>[a-z0-9-]{1,31})")
_RULE = "a name has at most 31 small letters, digits and hyphens and begins with a letter"


class SubjectKind(StrEnum):
    """The kind of a certificate's holder."""

    AUTHORITY = "authority"
    """Signs issuers and operators; its key is sealed."""
    ISSUER = "issuer"
    """Signs machines, for the authority, on a member that was named for it."""
    MACHINE = "machine"
    OPERATOR = "operator"
    """Signs the cluster's configuration and whom it ejects."""


class Subject(NamedTuple):
    """The holder of a certificate."""

    cluster_id: str
    """16 hexadecimal digits, the first of the digest of the authority's key: it proves itself."""
    kind: SubjectKind
    name: str

    @property
    def uri(self) -> str:
        """The form in the certificate."""
        return f"iriai://{self.cluster_id}/{self.kind}/{self.name}"


def parse_subject(uri: str) -> Subject | None:
    """Return the subject that `uri` names; None if it is not a subject of iriai."""
    match = _URI.fullmatch(uri)
    if match is None or not HOME_NAME.fullmatch(match["name"]):
        return None
    if match["kind"] not in frozenset(SubjectKind):
        return None
    return Subject(match["cluster"], SubjectKind(match["kind"]), match["name"])


def name_rule(name: str) -> str:
    """Return what is wrong with a name of a machine, cluster or operator; empty if it is valid."""
    return "" if HOME_NAME.fullmatch(name) else _RULE
