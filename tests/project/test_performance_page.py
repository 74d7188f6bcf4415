"""docs/performance.md is what the program writes from the kept results."""

from __future__ import annotations

import json

import pytest

from scripts import performance_page
from scripts.performance_page import PageProblem

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RESULT = {
    "commit": COMMIT,
    "machine": {"cpus": 2, "kernel": "6.18.1", "python": "3.11.7"},
    "array_per_s": 1169.4,
    "limit_per_s": 1497.0,
    "kinds": {"one": {"ms": 5.0}, "two": {"ms": 45.4}},
    "settings": {"runs": 5},
}


@pytest.fixture
def results(tmp_path):
    (tmp_path / "throughput.json").write_text(json.dumps(RESULT))
    return tmp_path


def written(folder, words, **files):
    (folder / "page.md").write_text(words)
    for name, content in files.items():
        (folder / f"{name}.toml").write_text(content)
    return performance_page.page(folder, folder / "rises.toml")


def test_the_page_is_what_is_written_from_the_kept_results():
    assert performance_page.PAGE.read_text() == performance_page.page()


def test_a_figure_stands_where_the_words_name_it(results):
    words = """{{throughput.array_per_s|,.0f}} tasks, {{throughput.array_per_s /
 throughput.limit_per_s|.2f}} of the limit, {{throughput.limit_per_s / 1000|.1f}} thousand;
 {{throughput.kinds.*.ms|.0f}} ms ({{throughput.commit|commit}})""".replace("\n", "")
    assert written(results, words) == (
        "1,169 tasks, 0.78 of the limit, 1.5 thousand; 5 to 45 ms (01234567)"
    )


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("latency.p50_ms|.1f", "there is no benchmarks/results/latency.json"),
        ("throughput.single_per_s|.1f", "throughput.json has no single_per_s"),
    ],
)
def test_a_figure_that_was_not_kept_is_named(results, place, problem):
    with pytest.raises(PageProblem, match=problem):
        written(results, f"{{{{{place}}}}}")


def test_goals_that_were_missed_or_not_measured_are_listed(results):
    goals = """
[[goal]]
what = "reached"
value = "throughput.array_per_s"
at_least = 1_000
[[goal]]
what = "missed"
value = "throughput.kinds.*.ms"
at_most = 20
[[goal]]
what = "gone"
value = "latency.p50_ms"
at_most = 2
"""
    assert written(results, "{{table missed}}", goals=goals).splitlines()[2:] == [
        "| missed | at most 20 | 45.4 |",
        "| gone | at most 2 | not measured |",
    ]


def test_causes_rises_and_sources_are_tables(results):
    cause = f'[[cause]]\ncommit = "{COMMIT}"\nwhat = "w"\nbefore = "2 ms"\nafter = "1 ms"\n'
    rise = '[[rise]]\npython = "3.11"\ncount = "c.n"\nbefore = 1\nafter = 2\nwhy = "y"\n'
    loss = f"""[[calls]]
commit = "{COMMIT}"
what = "begun"
array_daemon = 231
array_launcher = 100
single_daemon = 1500
single_launcher = 118

[[loss]]
commit = "01234567"
what = "leases"
before = "2 calls"
after = "3"
since = "needed"
"""
    words = "".join(
        f"{{{{table {name}}}}}\n" for name in ("causes", "calls", "losses", "rises", "sources")
    )
    page = written(results, words, causes=cause, rises=rise, losses=loss)
    assert "| 01234567 | w | 2 ms | 1 ms |" in page
    assert "| 01234567 | begun | 231 | 100 | 1,500 | 118 |" in page
    assert "| 01234567 | leases | 2 calls | 3 | needed |" in page
    assert "| c.n | 3.11 | 1 | 2 | y |" in page
    assert "| `throughput.py` | 01234567 | 2 | 6.18.1 | 3.11.7 |  | 5 |  |" in page


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("", "has not ended with a JSON object"),
        ("Traceback", "has not ended with a JSON object"),
        ("[1]", "is no JSON object"),
        (json.dumps(RESULT | {"commit": f"{COMMIT}-dirty"}), "changes that no commit has"),
        (json.dumps(RESULT | {"commit": ""}), "does not say of which commit"),
        (json.dumps({"commit": COMMIT}), "does not say on what machine"),
    ],
)
def test_a_result_of_no_commit_or_machine_is_not_kept(tmp_path, output, problem):
    with pytest.raises(PageProblem, match=problem):
        performance_page.keep("latency", output, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_last_object_of_an_answer_is_kept(tmp_path):
    path = performance_page.keep("latency", f"first\n{json.dumps(RESULT)}\n", tmp_path)
    assert path.name == "latency.json"
    assert json.loads(path.read_text()) == RESULT
