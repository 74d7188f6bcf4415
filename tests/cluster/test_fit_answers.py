"""Answers of brokers to whether a job could ever run are believed for a while."""

from __future__ import annotations

from iriai.cluster.broker_questions import ClusterReply
from iriai.cluster.fit_answers import (
    CLUSTERS_TOLD_MAX,
    REMEMBERED_MAX,
    REMEMBERED_S,
    SILENT_S,
    FitAnswers,
    refusal_of_all,
)
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.protocol.messages.scheduling import Want
from iriai.wire.inquiries import Declined, Fit

TOO_LARGE = Declined(3, "no-machine-large-enough", "no machine has 9 cpus", "")


def at(steady_s: float) -> Instant:
    return Instant(steady_s, 1_000.0)


def want(cpus: int) -> Want:
    account = Account("lab", "ann")
    return Want(JobId("ume", 0), account, Resources(cpus), None, 1.0, 0.0, 1)


def test_an_answer_is_taken_for_true_for_a_while():
    answers = FitAnswers()
    assert answers.asks(want(9), at(0.0))
    answers.learn(want(9), TOO_LARGE, at(0.0))
    assert not answers.asks(want(9), at(1.0))
    assert answers.refusal(want(9), at(1.0)) == TOO_LARGE
    assert answers.asks(want(8), at(1.0))
    assert answers.asks(want(9), at(REMEMBERED_S))
    assert answers.refusal(want(9), at(REMEMBERED_S)) is None


def test_after_silence_nothing_is_asked_for_a_while():
    answers = FitAnswers()
    answers.silent(at(0.0))
    assert not answers.asks(want(1), at(SILENT_S - 1.0))
    assert answers.asks(want(1), at(SILENT_S))


def test_the_oldest_answer_is_forgotten_first():
    answers = FitAnswers()
    for cpus in range(1, REMEMBERED_MAX + 2):
        answers.learn(want(cpus), None, at(0.0))
    assert answers.asks(want(1), at(0.0))
    assert not answers.asks(want(2), at(0.0))


def test_all_clusters_refuse_or_the_job_may_be_accepted():
    def reply(cluster: str, fit: Fit | None) -> ClusterReply[Fit]:
        return ClusterReply(cluster, fit, "" if fit else "it did not answer")

    refusing = [reply(f"c{number}", Fit(TOO_LARGE)) for number in range(CLUSTERS_TOLD_MAX + 2)]
    told = refusal_of_all(TOO_LARGE, refusing)
    assert told is not None
    assert told.message == (
        "no machine has 9 cpus; in cluster c0: no machine has 9 cpus; in cluster c1: no machine "
        "has 9 cpus; in cluster c2: no machine has 9 cpus; nor in 2 other clusters"
    )
    assert refusal_of_all(TOO_LARGE, [*refusing, reply("d", Fit())]) is None
    assert refusal_of_all(TOO_LARGE, [*refusing, reply("d", None)]) is None
    assert refusal_of_all(TOO_LARGE, []) is None
