"""What formats say of themselves, so that a peer or a later version can refuse them."""

from __future__ import annotations

from iriai.identity.certificates import certificate, sealed_secrets
from iriai.launcher.contract import messages
from iriai.launcher.journal import journal
from iriai.state import backup, state_directory
from iriai.store import schema
from iriai.wire import greetings, inquiries, parts, requests

VERSIONS = {
    "backup": backup.FORMAT,
    "certificate-proof": certificate._PROOF_VERSION,
    "certificate-proof-oid": certificate.PROOF_OID.dotted_string,
    "client-protocol": requests.PROTOCOL_VERSION,
    "inquiries": inquiries.INQUIRY_VERSION,
    "launcher": messages.LAUNCHER_VERSION,
    "launcher-journal": journal.MAGIC.decode().strip(),
    "links": greetings.LINK_VERSION,
    "messages-between-parts": parts.PARTS_VERSION,
    "sealed-to-keys": sealed_secrets.SEAL_VERSION,
    "state-directory": state_directory.STATE_VERSION,
    "store": len(schema.MIGRATIONS),
}


def versions_text() -> str:
    """One a line."""
    return "".join(f"{name}: {value}\n" for name, value in sorted(VERSIONS.items()))
