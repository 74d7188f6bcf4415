"""Questions between machines: each ends once, with the answer to it or with none."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.instant import Instant
from iriai.protocol.messages.effects import (
    Delivered,
    Inquired,
    InquiryOver,
    Part,
    Send,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.rpc import Inform, Inquire
from iriai.protocol.misbehaviour import Incidents
from iriai.protocol.rpc.inquiries import (
    ANSWER_BYTES_MAX,
    OPEN_BYTES_MAX,
    OPEN_MAX,
    PATIENCE_S,
    QUESTION_BYTES_MAX,
    QUESTIONS_MAX,
    Inquiries,
)


def at(steady_s: float) -> Instant:
    return Instant(steady_s, steady_s, "test")


def inquiries() -> Inquiries:
    return Inquiries(7, Incidents())


def of_kind(effects, kind):
    return [each for each in effects if isinstance(each, kind)]


def test_a_question_is_answered():
    asker, broker = inquiries(), inquiries()
    number, effects = asker.ask("ume", b"who?", at(0.0))
    [send] = of_kind(effects, Send)
    assert send == Send("ume", Part.INQUIRY, Inquire(number, 7, b"who?"))
    [inquired] = broker.handle(Delivered("kiku", Part.INQUIRY, send.message), at(0.1))
    assert inquired == Inquired("kiku", number, 7, b"who?")
    [back] = broker.answer("kiku", number, b"me")
    told = asker.handle(Delivered("ume", Part.INQUIRY, back.message), at(0.2))
    assert told == [InquiryOver(number, b"me")]


def test_only_the_machine_that_was_asked_can_answer_and_only_once():
    asker = inquiries()
    number, _ = asker.ask("ume", b"who?", at(0.0))
    forged = Delivered("oni", Part.INQUIRY, Inform(number, b"me"))
    assert of_kind(asker.handle(forged, at(0.1)), InquiryOver) == []
    honest = Delivered("ume", Part.INQUIRY, Inform(number, b"ume"))
    assert of_kind(asker.handle(honest, at(0.2)), InquiryOver) == [InquiryOver(number, b"ume")]
    assert asker.handle(honest, at(0.3)) == []


def test_a_machine_that_says_nothing_is_asked_again_and_then_given_up():
    asker = inquiries()
    number, effects = asker.ask("ume", b"who?", at(0.0))
    asked, over = 1, []
    while not over:
        [wake] = of_kind(effects, WakeAt)
        effects = asker.handle(Wake(Part.INQUIRY), at(wake.steady_s))
        asked += len(of_kind(effects, Send))
        over = of_kind(effects, InquiryOver)
    assert over == [InquiryOver(number, None)]
    assert wake.steady_s == PATIENCE_S
    assert asked > 1


def test_what_is_too_long_or_too_much_is_not_passed_on():
    asker, broker = inquiries(), inquiries()
    number, effects = asker.ask("ume", bytes(QUESTION_BYTES_MAX + 1), at(0.0))
    assert effects == [
        InquiryOver(number, None, "a question of 262145 bytes is longer than 262144")
    ]
    long = Delivered("oni", Part.INQUIRY, Inquire(1, 7, bytes(QUESTION_BYTES_MAX + 1)))
    assert broker.handle(long, at(0.0)) == []
    assert broker.answer("oni", 1, bytes(ANSWER_BYTES_MAX + 1)) == []
    for number in range(QUESTIONS_MAX + 50):
        flood = Delivered("oni", Part.INQUIRY, Inquire(number, 7, b"who?"))
        taken = bool(broker.handle(flood, at(0.0)))
        assert taken == (number < QUESTIONS_MAX)
    assert broker.handle(Delivered("kiku", Part.INQUIRY, Inquire(1, 7, b"who?")), at(0.0))


def test_so_many_questions_are_open_and_no_more():
    asker = inquiries()
    first, _ = asker.ask("ume", b"who?", at(0.0))
    for _ in range(OPEN_MAX - 1):
        asker.ask("ume", b"who?", at(0.0))
    number, (over,) = asker.ask("ume", b"who?", at(0.0))
    assert over == InquiryOver(number, None, over.missing)
    assert over.missing == "1000 questions of this machine wait for an answer already"
    asker.handle(Delivered("ume", Part.INQUIRY, Inform(first, b"me")), at(0.1))
    _, effects = asker.ask("ume", b"who?", at(0.1))
    assert of_kind(effects, InquiryOver) == []


def test_open_questions_are_so_long_together_and_no_longer():
    asker = inquiries()
    long = bytes(QUESTION_BYTES_MAX)
    for _ in range(OPEN_BYTES_MAX // QUESTION_BYTES_MAX):
        _, effects = asker.ask("ume", long, at(0.0))
        assert of_kind(effects, InquiryOver) == []
    _, (over,) = asker.ask("ume", b"who?", at(0.0))
    assert over.missing == f"questions of {OPEN_BYTES_MAX} bytes wait for an answer here already"
    assert asker.handle(Wake(Part.INQUIRY), at(PATIENCE_S))  # nobody answers them
    _, effects = asker.ask("ume", long, at(PATIENCE_S))
    assert of_kind(effects, InquiryOver) == []


@given(st.integers(0, 2**32), st.floats(0.0, 1.0), st.lists(st.floats(0.0, 5.0), max_size=12))
def test_each_question_ends_once_whatever_is_lost_late_or_repeated(seed, loss, asked_s):
    """A network that loses, delays and repeats, until nothing is under way any more."""
    rng = Random(seed)
    asker, broker = inquiries(), inquiries()
    agenda: list[tuple[float, int, object]] = []
    ended: dict[int, bytes | None] = {}
    asked_at_s: dict[int, float] = {}

    def perform(effects, now_s: float) -> None:
        for effect in effects:
            if isinstance(effect, InquiryOver):
                assert effect.number not in ended
                assert now_s <= asked_at_s[effect.number] + PATIENCE_S
                ended[effect.number] = effect.answer
            elif isinstance(effect, Inquired):
                perform(broker.answer("kiku", effect.number, effect.question), now_s)
            elif isinstance(effect, WakeAt):
                agenda.append((effect.steady_s, 0, Wake(Part.INQUIRY)))
            elif isinstance(effect, Send):
                ways_s = [4.0 * rng.random() for _ in range(rng.choice((1, 1, 2)))]
                agenda.extend((now_s + s, 1, effect) for s in ways_s if rng.random() >= loss)

    for number, time_s in enumerate(sorted(asked_s), 1):
        agenda.append((time_s, 2, str(number).encode()))
    while agenda:
        agenda.sort(key=lambda each: each[:2])
        now_s, _, happening = agenda.pop(0)
        if isinstance(happening, bytes):
            number = int(happening)
            asked_at_s[number] = now_s
            given_number, effects = asker.ask("ume", happening, at(now_s))
            assert given_number == number
        elif isinstance(happening, Wake):
            effects = asker.handle(happening, at(now_s))
        else:
            to, sender = (broker, "kiku") if happening.machine == "ume" else (asker, "ume")
            effects = to.handle(Delivered(sender, Part.INQUIRY, happening.message), at(now_s))
        perform(effects, now_s)
    assert sorted(ended) == list(range(1, len(asked_s) + 1))
    assert all(answer in (None, str(number).encode()) for number, answer in ended.items())
