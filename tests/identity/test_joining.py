"""A cluster is made, machines come in, and what is refused is named."""

from __future__ import annotations

import secrets
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from iriai.identity.certificates.authority import Authority
from iriai.identity.certificates.host_binding import check_dwelling
from iriai.identity.certificates.machine_identity import Enrolment
from iriai.identity.certificates.sealed_secrets import seal_to_secret
from iriai.identity.cluster_state import ClusterState
from iriai.identity.documents.operator_key import Operator
from iriai.identity.documents.operator_roster import open_authority
from iriai.identity.documents.revocation import Ejection
from iriai.identity.documents.signed_document import DocumentKind
from iriai.identity.enrolment.bootstrap import enter_cluster, found_cluster
from iriai.identity.storage.cluster_files import ClusterFiles, bundle_of
from iriai.identity.storage.join_tokens import IssuedToken, digest_of
from iriai.model.paths import StatePaths
from iriai.model.problem import NotAllowed, Problem, Refused, UsageProblem
from iriai.model.seed import Seed
from iriai.model.token_text import RANDOM_BYTES, Token, TokenKind
from iriai.wire.joining import Joined

YEAR_S = 365 * 86_400.0


class Clock:
    """Wall time that a test moves."""

    def __init__(self) -> None:
        self.now_s = time.time()

    def __call__(self) -> float:
        return self.now_s


class Lab:
    """The first machine of a cluster, with its operator."""

    def __init__(self, directory: Path, passphrase: str = "") -> None:
        self.directory = directory
        self.clock = Clock()
        self.paths = StatePaths(str(directory / "ume"))
        found_cluster(
            self.paths,
            cluster="lab",
            machine="ume",
            operator="ann",
            now_wall_s=self.clock(),
            passphrase=passphrase,
        )
        self.state = ClusterState(self.paths.cluster, self.clock)

    def token(self, lifetime_s: float = 3600.0, machine: str = "", bundle: bytes = b"") -> Token:
        randomness = secrets.token_bytes(RANDOM_BYTES)
        fingerprint = self.state.trust.authority.fingerprint
        token = Token.make(TokenKind.JOIN, randomness, fingerprint, ["ume:6174"])
        now_s = self.clock()
        sealed = seal_to_secret(bundle, token.secret) if bundle else b""
        entry = IssuedToken(
            token.id,
            TokenKind.JOIN,
            digest_of(token.secret),
            now_s,
            now_s + lifetime_s,
            "root",
            machine=machine,
            bundle=sealed,
        )
        self.state.tokens.add(entry, now_s)
        return token

    def join(self, token: Token, enrolment: Enrolment, their_wall_s: float | None = None) -> Joined:
        admitted = self.state.require_registrar().join(
            token.id,
            token.secret,
            enrolment.name,
            enrolment.request(),
            self.clock() if their_wall_s is None else their_wall_s,
        )
        authority = self.state.trust.authority.der
        roster = self.state.roster.raw
        members = (Seed("ume", ("ume:6174",)),)
        return Joined(
            admitted.certificate.der, authority, b"", (), members, admitted.bundle, roster
        )

    def enter(self, name: str, token: Token | None = None) -> ClusterState:
        token = token or self.token()
        enrolment = Enrolment.begin(name)
        joined = self.join(token, enrolment)
        paths = StatePaths(str(self.directory / name))
        enter_cluster(paths, enrolment, token, joined)
        return ClusterState(paths.cluster, self.clock)

    def authority(self) -> Authority:
        operator = Operator.load(self.paths.operator, lambda: "")
        state = self.state
        opening = operator.key.opening
        return open_authority(state.roster, state.issuer, opening, state.identity.authority)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def refusal(call, *arguments) -> Problem:
    with pytest.raises(Problem) as caught:
        call(*arguments)
    assert caught.value.message
    return caught.value


def test_a_machine_that_joined_and_the_first_one_believe_each_other(lab: Lab):
    momo = lab.enter("momo")
    assert lab.state.trust.check_peer(momo.identity.certificate.der) == "momo"
    assert momo.trust.check_peer(lab.state.identity.certificate.der) == "ume"
    assert [seed.name for seed in momo.seeds] == ["ume"]
    assert "momo" in lab.state.machines()


def test_the_keys_of_a_machine_are_its_own(lab: Lab):
    files = sorted(Path(lab.paths.cluster).iterdir()) + sorted(Path(lab.paths.operator).iterdir())
    assert files
    assert {path.stat().st_mode & 0o077 for path in files} == {0}


def test_a_token_lets_in_one_machine(lab: Lab):
    token = lab.token()
    lab.enter("momo", token)
    problem = refusal(lab.join, token, Enrolment.begin("sumomo"))
    assert (problem.code, problem.exit_code) == ("token-used", 3)
    assert "momo" in problem.message


def test_a_machine_whose_answer_was_lost_may_ask_again(lab: Lab):
    token, enrolment = lab.token(), Enrolment.begin("momo")
    first, again = lab.join(token, enrolment), lab.join(token, enrolment)
    assert first.authority == again.authority
    assert refusal(lab.join, token, Enrolment.begin("momo")).code == "token-used"


def test_a_token_is_good_for_its_time(lab: Lab):
    token = lab.token(60.0)
    lab.clock.now_s += 61.0
    problem = refusal(lab.join, token, Enrolment.begin("momo"))
    assert (problem.code, problem.exit_code) == ("token-expired", 3)


def test_a_wrong_token_is_refused(lab: Lab):
    token = lab.token()
    for wrong in (token._replace(secret=bytes(16)), token._replace(id="00000000")):
        problem = refusal(lab.join, wrong, Enrolment.begin("momo"))
        assert (problem.code, problem.exit_code) == ("token-unknown", 3)
    lab.enter("momo", token)


def test_a_revoked_token_is_refused(lab: Lab):
    token = lab.token()
    lab.state.tokens.revoke(token.id, None)
    assert refusal(lab.join, token, Enrolment.begin("momo")).code == "token-revoked"


def test_a_token_of_one_machine_is_for_no_other(lab: Lab):
    token = lab.token(machine="momo")
    assert refusal(lab.join, token, Enrolment.begin("sumomo")).code == "token-for-another"
    lab.enter("momo", token)


def test_tokens_survive_a_restart_used_or_not(lab: Lab):
    used, fresh = lab.token(), lab.token()
    lab.enter("momo", used)
    lab.state = ClusterState(lab.paths.cluster, lab.clock)
    assert refusal(lab.join, used, Enrolment.begin("sumomo")).code == "token-used"
    lab.enter("sumomo", fresh)


def test_a_secret_is_not_on_the_disk(lab: Lab):
    token = lab.token()
    lab.state.files.keep_tokens(lab.state.tokens)
    held = (Path(lab.paths.cluster) / "tokens.json").read_bytes()
    assert token.id.encode() in held
    assert token.secret.hex().encode() not in held
    assert token.secret not in held


def test_two_machines_of_one_name_are_refused_by_name(lab: Lab):
    lab.enter("momo")
    problem = refusal(lab.join, lab.token(), Enrolment.begin("momo"))
    assert problem.code == "name-taken"
    assert "momo" in problem.message
    assert refusal(lab.join, lab.token(), Enrolment.begin("ume")).code == "name-taken"


@pytest.mark.parametrize("name", ["", "Ume", "a b", "9lives", "x" * 32, "../ume"])
def test_a_name_that_is_none_is_refused(lab: Lab, name: str):
    token = lab.token()
    request = Enrolment.begin("momo").request()
    join = lab.state.require_registrar().join
    assert isinstance(
        refusal(join, token.id, token.secret, name, request, lab.clock()), UsageProblem
    )


@pytest.mark.parametrize("off_s", [-YEAR_S, YEAR_S])
def test_a_newcomer_whose_clock_is_a_year_off_is_told(lab: Lab, off_s: float):
    token = lab.token()
    enrolment = Enrolment.begin("momo")
    problem = refusal(lab.join, token, enrolment, lab.clock() + off_s)
    assert problem.code == "clock-wrong"
    assert "clock of momo" in problem.message
    lab.join(token, enrolment)


def eject(lab: Lab, machine: str) -> None:
    operator = Operator.load(lab.paths.operator, lambda: "")
    body = msgspec.msgpack.encode(Ejection(machine, lab.clock(), "gone"))
    document = operator.sign(DocumentKind.EJECTION, body)
    assert lab.state.receive_document(DocumentKind.EJECTION, document)


def test_an_ejected_name_is_free_for_a_machine_that_joins_with_a_new_token(lab: Lab):
    lab.enter("momo")
    eject(lab, "momo")
    lab.clock.now_s += 1
    lab.directory /= "again"
    again = lab.enter("momo")
    assert lab.state.trust.check_peer(again.identity.certificate.der) == "momo"


def test_an_ejection_is_remembered(lab: Lab):
    momo = lab.enter("momo")
    eject(lab, "momo")
    later = ClusterState(lab.paths.cluster, lab.clock)
    assert refusal(later.trust.check_peer, momo.identity.certificate.der).code == "ejected"


def renew(lab: Lab, machine: ClusterState) -> bytes:
    identity = machine.identity
    renewed = lab.state.require_registrar().renew(
        identity.certificate.der, identity.request(), lab.clock()
    )
    return renewed.der


def test_a_certificate_is_renewed_when_half_its_life_is_over(lab: Lab):
    momo = lab.enter("momo")
    assert not momo.wants_renewal()
    lab.clock.now_s += 0.6 * YEAR_S
    assert momo.wants_renewal()
    momo.renewed(renew(lab, momo))
    assert not momo.wants_renewal()
    lab.clock.now_s += 0.6 * YEAR_S
    assert ClusterState(momo.files.directory, lab.clock).wants_renewal()
    assert lab.state.trust.check_peer(momo.identity.certificate.der) == "momo"


def test_an_ejected_machine_renews_nothing(lab: Lab):
    momo = lab.enter("momo")
    eject(lab, "momo")
    assert refusal(renew, lab, momo).code == "ejected"


def test_a_certificate_that_is_over_is_not_renewed(lab: Lab):
    momo = lab.enter("momo")
    lab.clock.now_s += 2 * YEAR_S
    assert refusal(renew, lab, momo).code == "certificate-expired"


def test_nobody_renews_the_certificate_of_another(lab: Lab):
    momo = lab.enter("momo")
    request = lab.enter("sumomo").identity.request()
    registrar = lab.state.require_registrar()
    problem = refusal(registrar.renew, momo.identity.certificate.der, request, lab.clock())
    assert problem.code == "other-key"


def test_a_second_issuer_lets_machines_in_too(lab: Lab):
    bundle = bundle_of(lab.authority().issuer("momo", lab.clock()))
    momo = lab.enter("momo", lab.token(machine="momo", bundle=bundle))
    second = Lab.__new__(Lab)
    second.directory, second.clock, second.state = lab.directory, lab.clock, momo
    sumomo = second.enter("sumomo")
    assert sumomo.identity.certificate.issuer.subject.name == "momo"
    assert lab.state.trust.check_peer(sumomo.identity.certificate.der) == "sumomo"


def test_only_issuers_let_machines_in(lab: Lab):
    momo = lab.enter("momo")
    assert refusal(momo.require_registrar).code == "not-an-issuer"


def test_an_answer_that_does_not_fit_the_token_writes_nothing(lab: Lab):
    token, enrolment = lab.token(), Enrolment.begin("momo")
    joined = lab.join(token, enrolment)
    other = token._replace(fingerprint="00" * 32)
    paths = StatePaths(str(lab.directory / "momo"))
    assert refusal(enter_cluster, paths, enrolment, other, joined).code == "foreign-authority"
    stranger = Enrolment.begin("momo")
    assert refusal(enter_cluster, paths, stranger, token, joined).code == "bad-answer"
    damaged = msgspec.structs.replace(joined, bundle=bytes(50))
    assert isinstance(refusal(enter_cluster, paths, enrolment, token, damaged), Refused)
    assert not Path(paths.directory).exists() or not list(Path(paths.directory).iterdir())


def test_a_machine_is_in_one_cluster_at_a_time(lab: Lab):
    problem = refusal(
        lambda: found_cluster(
            lab.paths, cluster="other", machine="ume", operator="ann", now_wall_s=lab.clock()
        )
    )
    assert problem.code == "already-member"
    assert ClusterState(lab.paths.cluster, lab.clock).identity.cluster == "lab"


def test_the_authoritys_key_lies_sealed(lab: Lab):
    authority = lab.authority()
    assert authority.certificate.der == lab.state.trust.authority.der
    secret = authority.key.private_bytes_raw()
    import base64

    encoded = base64.b64encode(secret)
    for path in [*Path(lab.paths.operator).iterdir(), *Path(lab.paths.cluster).iterdir()]:
        assert secret not in path.read_bytes()
        assert encoded not in path.read_bytes()


def test_an_operators_key_may_have_a_passphrase(tmp_path: Path):
    lab = Lab(tmp_path, passphrase="plum")
    assert isinstance(refusal(Operator.load, lab.paths.operator, lambda: "peach"), NotAllowed)
    assert Operator.load(lab.paths.operator, lambda: "plum").name == "ann"


def test_without_an_operators_key_nothing_is_signed(lab: Lab):
    problem = refusal(Operator.load, str(lab.directory / "elsewhere"), lambda: "")
    assert isinstance(problem, NotAllowed)


@pytest.mark.parametrize(
    "name", ["machine.key", "machine.crt", "authority.crt", "tokens.json", "issuer.key"]
)
def test_a_damaged_file_is_named(lab: Lab, name: str):
    lab.state.files.keep_tokens(lab.state.tokens)
    (Path(lab.paths.cluster) / name).write_bytes(b"\xffnothing")
    assert isinstance(refusal(ClusterState, lab.paths.cluster, lab.clock), Refused)


def test_a_directory_that_was_written_half_counts_for_nothing(lab: Lab):
    """What a crash leaves of an earlier try is swept away."""
    paths = StatePaths(str(lab.directory / "momo"))
    half = Path(f"{paths.cluster}.new")
    half.mkdir(parents=True)
    (half / "machine.key").write_text("half")
    assert not ClusterFiles(paths.cluster).exist()
    lab.enter("momo")
    assert not half.exists()


def test_a_copy_of_an_identity_is_noticed_and_named(lab: Lab):
    mine = Path(lab.paths.cluster)
    check_dwelling(mine, "aaaa")
    check_dwelling(mine, "aaaa")
    on_another_machine = refusal(check_dwelling, mine, "bbbb")
    assert on_another_machine.code == "copied-identity"
    assert "another machine" in on_another_machine.message

    beside = lab.directory / "copy"
    shutil.copytree(mine, beside)
    problem = refusal(check_dwelling, beside, "aaaa")
    assert problem.code == "copied-identity"
    assert str(mine) in problem.message
    check_dwelling(mine, "aaaa")


def test_an_identity_that_was_moved_is_the_same(lab: Lab):
    mine = Path(lab.paths.cluster)
    check_dwelling(mine, "aaaa")
    moved = mine.rename(lab.directory / "moved")
    check_dwelling(moved, "aaaa")
    check_dwelling(moved, "aaaa")


def test_what_is_wrong_with_a_machines_place_is_told(lab: Lab):
    momo = lab.enter("momo")
    assert momo.trouble() == []
    lab.clock.now_s += 0.9 * YEAR_S
    assert "expires in 36 days" in momo.trouble()[0]
    eject(lab, "momo")
    (document,) = (each.document for each in lab.state.trust.ejections)
    momo.receive_document(DocumentKind.EJECTION, document)
    assert "this machine was ejected" in momo.trouble()[0]
