from iriai.jobs import payloads as payload_store
from iriai.jobs.payloads import PayloadStore


def nothing_stored(digest: str) -> bytes:
    raise AssertionError(f"{digest} was read from the store")


def test_a_text_is_new_once():
    kept = PayloadStore(nothing_stored)
    digest, is_new = kept.add(b"PATH=/bin")
    assert is_new
    assert kept.add(b"PATH=/bin") == (digest, False)
    assert kept.get(digest) == b"PATH=/bin"


def test_no_text_has_no_digest():
    kept = PayloadStore(nothing_stored)
    assert kept.add(b"") == ("", False)
    assert kept.get("") == b""


def test_what_is_not_at_hand_comes_from_the_store_and_stays():
    reads: list[str] = []

    def read(digest: str) -> bytes:
        reads.append(digest)
        return b"stored"

    kept = PayloadStore(read)
    assert kept.get("abc") == kept.get("abc") == b"stored"
    assert reads == ["abc"]


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(payload_store, "CACHE_BYTES_MAX", 100)
    kept = PayloadStore(lambda digest: b"from the store")
    first, _ = kept.add(b"a" * 60)
    kept.add(b"b" * 60)
    assert kept.get(first) == b"from the store"
