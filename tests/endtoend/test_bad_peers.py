"""What machines of a cluster should not do, done to real daemons while an honest job goes on.

Each is refused or reported, by name, and disturbs nothing else. A copied state directory is in
`test_a_copied_machine`; tokens that were used or are over are in `test_identity`, expressions that
cannot be read in `test_bad_input`.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import msgspec
import pytest

from iriai.client import Client
from iriai.identity.certificates.machine_identity import MachineIdentity
from iriai.identity.cluster_state import ClusterState
from iriai.identity.documents.cluster_document import document_body, read_cluster_document
from iriai.identity.documents.operator_key import Operator
from iriai.identity.documents.signed_document import DocumentKind
from iriai.identity.trust.tls import client_context
from iriai.model.problem import Refused
from iriai.model.token_text import TokenKind, parse_token
from iriai.protocol.directory.validation import member_body
from iriai.protocol.ledger.ledger import BatchRow, LedgerBatch, batch_body
from iriai.protocol.messages.entries import EntryKind, signed_content
from iriai.protocol.messages.gossip import Offer
from iriai.protocol.messages.members import Member, MemberState
from iriai.system.frames import frame
from iriai.wire.greetings import LINK_VERSION
from iriai.wire.links import Batch, link_frame
from iriai.wire.parts import PARTS_VERSION, Envelope
from tests.endtoend.bad_peer import Lab, Peer, lab_of_two, taken_for
from tests.endtoend.installation import Installation
from tests.endtoend.test_identity import say
from tests.support.trusted import TrustedCluster
from tests.support.waiting import until

YEAR_S = 365 * 86_400.0
NUMBERS = count(1)
"""Of those who break rules: each has a name of its own, by which it is told of."""
OFF_VARIABLE = "IRIAI_TEST_CLOCK_OFF_S"
SHIFTED = f"""
import os, time
_off_s, _time = float(os.environ["{OFF_VARIABLE}"]), time.time
time.time = lambda: _time() + _off_s
"""
"""A `sitecustomize` that has every Python process started with it live at another date."""


@pytest.fixture(scope="module")
def lab(person, tmp_path_factory) -> Iterator[Lab]:
    with lab_of_two(person, tmp_path_factory.mktemp("peers")) as lab:
        yield lab


@pytest.fixture(autouse=True)
def honest_work(lab: Lab) -> Iterator[None]:
    """A job of an honest machine is handed in before, and ends well beside what happens."""
    with lab.ume.client() as client:
        job = client.submit(lab.ume.draft("sleep", "1", output=os.devnull)).id
    yield
    until(lab.ume.answers, "the daemon")
    with lab.ume.client() as client:
        assert client.wait([job])[0].cause == "completed"
    until(lab.is_linked, "the honest machines to see each other still")


@pytest.fixture
def oni(lab: Lab) -> Iterator[Peer]:
    """A member that breaks rules."""
    peer = Peer(lab.member(f"oni{next(NUMBERS)}"), lab.address)
    yield peer
    peer.socket.close()


@contextmanager
def newcomer(name: str = "kaki") -> Iterator[Installation]:
    """A machine that was not started yet: that is enough to be refused."""
    installation = Installation(None, "--name", name)
    installation.configure(f'[machine]\nname = "{name}"\n')
    try:
        yield installation
    finally:
        installation.stop()


def test_a_token_that_was_never_given_out_lets_nobody_in(lab: Lab):
    good = parse_token(say(lab.ume, "token")["text"], TokenKind.JOIN)
    with newcomer() as kaki:
        for wrong in (good._replace(secret=bytes(16)), good._replace(id="00000000")):
            problem = say(kaki, "join", "--token", wrong.text, code=3)["error"]
            assert problem["code"] == "token-unknown"
        assert not Path(kaki.paths.cluster).exists()


def test_a_certificate_of_another_authority(lab: Lab, tmp_path: Path):
    foreign = TrustedCluster(tmp_path, "other").machine("oni")
    context = client_context(*foreign)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = lab.address.split(":")
    with (
        socket.create_connection((host, int(port)), 30.0) as plain,
        suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(plain) as secured,
    ):
        assert secured.recv(100) == b""
    lab.says("127.0.0.1 was refused", "its certificate is not good")


def test_a_machine_whose_clock_is_a_year_off_does_not_join(lab: Lab, tmp_path: Path):
    token = say(lab.ume, "token")["text"]
    with newcomer() as kaki:
        for off_s, words in ((YEAR_S, "ahead of"), (-YEAR_S, "behind")):
            more = _at_another_date(tmp_path, off_s)
            problem = say(kaki, "join", "--token", token, code=3, more=more)["error"]
            assert problem["code"] == "clock-wrong"
            assert words in problem["message"]


@pytest.mark.parametrize(("off_s", "words"), [(2 * YEAR_S, "expired"), (-YEAR_S, "is valid from")])
def test_a_member_whose_clock_is_a_year_off_says_so_and_is_left_out(
    lab: Lab, tmp_path: Path, off_s: float, words: str
):
    with _restarted(lab.take, _at_another_date(tmp_path, off_s)):
        lab.says(words, "this machine's clock", installation=lab.take)
        with lab.ume.client() as client:
            job = client.submit(lab.ume.draft("true", output=os.devnull)).id
            assert client.wait([job])[0].cause == "completed"
            assert {row.machine for row in client.show(job).attempts} == {"ume"}


def _at_another_date(directory: Path, off_s: float) -> dict[str, str]:
    (directory / "sitecustomize.py").write_text(SHIFTED)
    return {"PYTHONPATH": str(directory), OFF_VARIABLE: str(off_s)}


@contextmanager
def _restarted(installation: Installation, environment: dict[str, str]) -> Iterator[None]:
    installation.stop_processes()
    installation.begin(environment)
    try:
        until(installation.answers, "the daemon at another date")
        yield
    finally:
        installation.stop_processes()
        installation.start()


def test_a_forged_ad(lab: Lab, oni: Peer):
    oni.begin()
    oni.publish(oni.entry(EntryKind.AD, b"[Memory = 1]", of="take"))
    lab.says(oni.identity.name, "'ad' of take without its signature (forged-entry)")


def test_a_replayed_leave(lab: Lab, oni: Peer):
    """As take signed it once; it has published since."""
    oni.begin()
    take = MachineIdentity.load(lab.take.paths.cluster)
    left = Member("take", 1, MemberState.LEFT, take.cluster, instance="earlier")
    entry = oni.entry(EntryKind.MEMBER, member_body(left), of="take")
    old = msgspec.structs.replace(entry, incarnation=1, signature=b"")
    signed = msgspec.structs.replace(old, signature=take.sign(signed_content(old)))
    oni.publish(signed)
    oni.publish(oni.entry(EntryKind.AD, b"[]", of="take"))  # what comes after it was looked at
    lab.says(oni.identity.name, "forged-entry")
    assert taken_for(lab.ume, "take") in (MemberState.ALIVE, MemberState.SUSPECT)


def test_a_counter_that_was_rolled_back(lab: Lab, oni: Peer):
    oni.begin()
    for version, counter in ((1, 1e6), (2, 1.0)):
        row = BatchRow("physics", "ann", counter, time.time(), 1, 1.0)
        body = batch_body(LedgerBatch(1, time.time(), (row,)))
        oni.publish(oni.entry(EntryKind.LEDGER, body, version=version))
        until(lambda: _is_counted(lab), "the first to be counted: of two at once the later counts")
    lab.says(oni.identity.name, "rolled-back-counter")


def _is_counted(lab: Lab) -> bool:
    with Client.connect(lab.ume.state, follow=False) as client:
        return any(row.group == "physics" for row in client.shares().rows)


def test_an_ad_of_ten_megabytes(lab: Lab, oni: Peer):
    oni.begin()
    oni.publish(oni.entry(EntryKind.AD, bytes(100 << 10)))
    lab.says(oni.identity.name, "entry-too-large")
    length = 10 << 20
    oni.socket.sendall(length.to_bytes(4, "big") + bytes(1000))
    oni.await_end()
    lab.says(oni.identity.name, f"a frame of {length} bytes")


def test_messages_of_a_future_version(lab: Lab, oni: Peer):
    answer = oni.greet(parts_version=PARTS_VERSION + 1)
    assert "install the same version of iriai" in answer.message
    lab.says(oni.identity.name, f"version {LINK_VERSION}.{PARTS_VERSION + 1}")
    again = Peer(oni.identity, lab.address)
    again.begin()
    unknown = Envelope("directory", "Prophecy", msgspec.Raw(msgspec.msgpack.encode({})))
    again.socket.sendall(link_frame(Batch((unknown,))))
    again.socket.sendall(frame(msgspec.msgpack.encode([99, "from the future"])))
    again.await_end()
    again.socket.close()
    lab.says(oni.identity.name, "violates the protocol")


def test_a_flood(lab: Lab, oni: Peer):
    oni.begin()
    oni.say(*[Offer(number) for number in range(1000)])
    lab.says(oni.identity.name, "(flood)")


def test_two_machines_of_one_name(lab: Lab):
    token = say(lab.ume, "token")["text"]
    with newcomer("take") as other:
        problem = say(other, "join", "--token", token, code=3)["error"]
        assert problem["code"] == "name-taken"
    twin = Peer(lab.member("take"), lab.address)
    assert "two machines named take" in twin.greet().message
    twin.socket.close()
    lab.says("two machines named take")


def test_two_configuration_documents_of_one_number(lab: Lab):
    state = ClusterState(lab.ume.paths.cluster)
    operator = Operator.load(lab.ume.paths.operator, lambda: "")
    signed = [
        operator.sign(
            DocumentKind.CONFIGURATION,
            document_body(1, time.time(), f"[groups.physics]\nright = {right}\n"),
        )
        for right in (2, 3)
    ]
    loser, winner = sorted(
        signed,
        key=lambda raw: read_cluster_document(raw, state.identity.authority).digest,
        reverse=True,
    )
    with Client.connect(lab.ume.state, follow=False) as client:
        client.publish(DocumentKind.CONFIGURATION, loser)
    text = read_cluster_document(loser, state.identity.authority).text
    until(lambda: _goes_by(lab, text), "both to go by it", 0.1)
    with Client.connect(lab.take.state, follow=False) as client, pytest.raises(Refused) as caught:
        client.publish(DocumentKind.CONFIGURATION, winner)
    assert caught.value.code == "document-overtaken"
    assert _goes_by(lab, text)


def _goes_by(lab: Lab, text: str) -> bool:
    if not all(each.answers() for each in (lab.ume, lab.take)):
        return False
    return all(say(each, "cluster", "show")["document"] == text for each in (lab.ume, lab.take))
