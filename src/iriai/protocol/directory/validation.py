"""Validation of entries before anything of them is stored (spec 006)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from iriai.model.address import ADDRESS_TEXT, ADDRESSES_MAX
from iriai.model.bounds import decoded
from iriai.model.ids import HOME_NAME
from iriai.protocol.messages.entries import BY_OPERATORS, CLUSTER, Carried, Entry, EntryKind
from iriai.protocol.messages.members import ClusterUsage, Gateway, Member, MemberState

BODY_BYTES_MAX: Mapping[EntryKind, int] = {
    EntryKind.MEMBER: 4 << 10,
    EntryKind.CERTIFICATE: 8 << 10,
    EntryKind.AD: 48 << 10,
    EntryKind.LEDGER: 256 << 10,
    EntryKind.CONFIGURATION: 1 << 20,
    EntryKind.ROSTER: 48 << 10,
    EntryKind.EJECT: 16 << 10,
    EntryKind.TRUST: 32 << 10,
    EntryKind.GATEWAY: 12 << 10,
    EntryKind.USAGE: 64 << 10,
}
"""An ad's two expressions have at most 16 kB each, a batch some 2,000 accounts."""
_OF_CLUSTER = frozenset({EntryKind.CONFIGURATION, EntryKind.ROSTER})
SIGNATURE_BYTES_MAX = 512
"""An RSA signature of 4096 bits; those of Ed25519 have 64 bytes."""
NUMBER_MAX = 2**53
"""Of incarnations and versions: microseconds since 1970 are below it."""
LIFETIME_S_MAX = 400 * 86_400.0
"""The longest accepted lifetime: a little more than a year."""
PARTS_MAX = 8
WORD = re.compile(r"[\x21-\x7e]{0,128}")
"""The form of instances and digests."""

MEMBERS_READ_MAX = 4_096
"""Decoded bodies that are cached: twice a full table, since each is read several times."""

_member_decoder = msgspec.msgpack.Decoder(Member)
_gateway_decoder = msgspec.msgpack.Decoder(Gateway)
_usage_decoder = msgspec.msgpack.Decoder(ClusterUsage)
_encode = msgspec.msgpack.Encoder().encode


def member_body(member: Member) -> bytes:
    """Return the body of an entry of kind `member`."""
    return _encode(member)


def read_member(entry: Entry) -> Member:
    """Return the member in a validated entry of kind `member`."""
    return _read_member(entry.body)


def gateway_body(gateway: Gateway) -> bytes:
    """Return the body of an entry of kind `gateway`."""
    return _encode(gateway)


def read_gateway(entry: Entry) -> Gateway:
    """Return the gateway in a validated entry of kind `gateway`."""
    return decoded(_gateway_decoder, entry.body)


def usage_body(usage: ClusterUsage) -> bytes:
    """Return the body of an entry of kind `usage`."""
    return _encode(usage)


def read_usage(entry: Entry) -> ClusterUsage:
    """Return the usage in a validated entry of kind `usage`."""
    return decoded(_usage_decoder, entry.body)


def certificate_in(entry: Entry) -> bytes:
    """Return the certificate that a validated entry contains; empty if it has none."""
    if entry.kind is EntryKind.GATEWAY:
        return read_gateway(entry).certificate
    if entry.kind is EntryKind.USAGE:
        return read_usage(entry).certificate
    return entry.body if entry.kind is EntryKind.CERTIFICATE else b""


@lru_cache(maxsize=MEMBERS_READ_MAX)
def _read_member(body: bytes) -> Member:
    return decoded(_member_decoder, body)


def complaint(carried: Carried) -> tuple[str, str]:
    """Return (code, words) of what is wrong with an entry but for its signature; else empty."""
    entry = carried.entry
    limit = BODY_BYTES_MAX[entry.kind]
    if len(entry.body) > limit:
        return "entry-too-large", f"{len(entry.body)} bytes; '{entry.kind}' has at most {limit}"
    words = _malformed(entry) or _malformed_body(entry)
    if not (math.isfinite(carried.age_s) and carried.age_s >= 0):
        words = f"an age of {carried.age_s} s"
    return ("malformed-entry", words) if words else ("", "")


def _malformed(entry: Entry) -> str:
    is_owner_right = (entry.machine == CLUSTER) == (entry.kind in _OF_CLUSTER)
    if not is_owner_right and (entry.machine, entry.kind) != (CLUSTER, EntryKind.TRUST):
        return f"no '{entry.kind}' is owned by '{entry.machine[:31]}'"
    if entry.machine != CLUSTER and not HOME_NAME.fullmatch(entry.machine):
        return f"'{entry.machine[:31]!r}' is not the name of a machine"
    if not HOME_NAME.fullmatch(entry.cluster):
        return f"'{entry.cluster[:31]!r}' is not the name of a cluster"
    if not (0 <= entry.incarnation < NUMBER_MAX and 0 <= entry.version < NUMBER_MAX):
        return f"incarnation {entry.incarnation}, version {entry.version}: 0 to {NUMBER_MAX}"
    if (entry.kind in BY_OPERATORS) != (entry.lifetime_s == 0):
        return f"a lifetime of {entry.lifetime_s} s: only documents of operators have none"
    if not 0 <= entry.lifetime_s <= LIFETIME_S_MAX:
        return f"a lifetime of {entry.lifetime_s} s; at most {LIFETIME_S_MAX:.0f}"
    if len(entry.signature) > SIGNATURE_BYTES_MAX:
        return f"a signature of {len(entry.signature)} bytes; at most {SIGNATURE_BYTES_MAX}"
    return ""


def _malformed_body(entry: Entry) -> str:
    try:
        if entry.kind is EntryKind.MEMBER:
            member = _read_member(entry.body)
            return _malformed_member(entry, member, member.cluster_called)
        if entry.kind is EntryKind.GATEWAY:
            member = read_gateway(entry).member
            return _malformed_member(entry, member, member.cluster)
        if entry.kind is EntryKind.USAGE and not HOME_NAME.fullmatch(read_usage(entry).cluster):
            return f"'{read_usage(entry).cluster[:31]!r}' is not the name of a cluster"
    except msgspec.MsgspecError as error:
        return f"no '{entry.kind}' can be read: {error}"
    return ""


def _malformed_member(entry: Entry, member: Member, cluster: str) -> str:
    """Return what is wrong with a member that concerns `cluster`."""
    said = (member.name, cluster, member.incarnation)
    if said != (entry.machine, entry.cluster, entry.incarnation):
        return f"the entry of {entry.machine} has {said} in it"
    if member.state not in {MemberState.ALIVE, MemberState.LEFT}:
        return f"a machine does not report '{member.state}' about itself"
    are_addresses = all(map(ADDRESS_TEXT.fullmatch, member.addresses))
    if len(member.addresses) > ADDRESSES_MAX or not are_addresses:
        return f"at most {ADDRESSES_MAX} addresses, HOST:PORT each"
    if len(member.parts) > PARTS_MAX or not all(map(HOME_NAME.fullmatch, member.parts)):
        return f"at most {PARTS_MAX} parts"
    if member.cluster_name and not HOME_NAME.fullmatch(member.cluster_name):
        return f"'{member.cluster_name[:31]!r}' is not the name of a cluster"
    if not 0.0 <= member.steadiness <= 1.0:
        return f"a steadiness of {member.steadiness}; from 0 to 1"
    if not (WORD.fullmatch(member.instance) and WORD.fullmatch(member.certificate_digest)):
        return "an instance or digest that is too long"
    return ""
