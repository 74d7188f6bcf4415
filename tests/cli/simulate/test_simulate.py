"""`iriai simulate`: logs in, tables and documents out, and what is refused."""

from __future__ import annotations

import csv

import pytest

from iriai.model.problem import ExitCode

LINES = (
    "; MaxProcs: 4\n",
    "1 0 -1 100 4 -1 -1 4 100 -1 1 1 1 -1 -1 -1 -1 -1\n",
    "2 10 -1 50 2 -1 -1 2 60 -1 1 2 1 -1 -1 -1 -1 -1\n",
    "3 20 -1 50 9 -1 -1 9 60 -1 1 2 1 -1 -1 -1 -1 -1\n",
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "small.swf"
    path.write_text("".join(LINES))
    return str(path)


def test_a_log_comes_out_as_a_table(shell, log):
    said = shell("simulate", log)
    assert said.code == 0
    header, row = said.out.splitlines()
    assert header.split()[0] == "Simulation"
    assert row.split()[:2] == ["easy+fifo", "45s"]
    assert "1 job left out: wider than the machine" in said.err


def test_a_document_names_what_was_left_out_and_what_was_measured(shell, log):
    said = shell("simulate", log, "--json")
    document = said.document
    assert document["log"]["counts"] == {"left out: wider than the machine": 1}
    [simulation] = document["simulations"]
    assert (simulation["policy"], simulation["order"], simulation["seed"]) == ("easy", "fifo", 1)
    assert simulation["metrics"]["wait_s"]["mean"] == 45
    assert simulation["metrics"]["last_end_s"] == 150


def test_starts_are_written_as_they_were_read(shell, log, tmp_path):
    path = tmp_path / "starts.csv"
    assert shell("simulate", log, "--starts", str(path)).code == 0
    with path.open() as stream:
        assert list(csv.reader(stream)) == [["job", "start"], ["1", "0"], ["2", "100"]]


def test_several_orders_side_by_side(shell, log):
    said = shell("simulate", log, "--compare", "easy,easy+lottery,stride", "--workers", "1")
    assert [row.split()[0] for row in said.out.splitlines()[1:]] == [
        "easy",
        "easy+lottery",
        "stride",
    ]


@pytest.mark.long
def test_a_sweep_runs_every_combination_on_several_processors(shell, log):
    sweep = ("--sweep", "order=lottery,stride", "seed=1..3", "burst=1,2")
    said = shell("simulate", log, *sweep, "--json", "--workers", "2")
    labels = [each["label"] for each in said.document["simulations"]]
    assert len(labels) == 12
    assert labels[0] == "order=lottery seed=1 burst=1"
    assert said == shell("simulate", log, *sweep, "--json", "--workers", "1")


def test_a_generated_log_is_written_and_simulates_alike(shell, tmp_path):
    path = tmp_path / "made.swf"
    generated = shell(
        *("simulate", "--generate", "lublin", "--jobs", "50", "--processors", "16"),
        *("--write-log", str(path), "--json"),
    ).document
    again = shell("simulate", str(path), "--json").document
    assert again["simulations"] == generated["simulations"]


def test_a_report_names_its_page(shell, log, tmp_path):
    said = shell("simulate", log, "--report", str(tmp_path / "out"))
    assert f"The report is {tmp_path}/out/index.html" in said.err
    assert (tmp_path / "out" / "metrics.json").exists()


def test_rights_come_from_a_configuration(shell, log, tmp_path):
    path = tmp_path / "iriai.toml"
    path.write_text("[groups.g1]\nright = 2\n[order]\nhalf_life_s = '1d'\n")
    assert shell("simulate", log, "--order", "lottery", "--config", str(path)).code == 0
    path.write_text("[order]\nhalf_life_s = 'often'\n")
    said = shell("simulate", log, "--config", str(path))
    assert (said.code, said.out) == (ExitCode.USAGE, "")
    assert "order.half_life_s is 'often'" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no log is named"),
        (("LOG", "LOG"), "one log too many"),
        (("LOG", "--policy", "hope"), "there is no policy 'hope'"),
        (("LOG", "--order", "age"), "there is no order 'age'"),
        (("LOG", "--mode", "fast"), "there is no mode 'fast'"),
        (("LOG", "--compare", "easy,hope"), "'hope' is neither a policy nor an order"),
        (("LOG", "--sweep", "wish=1"), "'wish=1' names nothing to vary"),
        (("LOG", "--sweep", "seed=9..1"), "9..1 is not a range"),
        (("LOG", "--sweep", "seed=x"), "'x' is not a seed"),
        (("LOG", "--sweep", "burst=0"), "burst is '0'"),
        (("LOG", "--sweep", "seed=1..9999", "burst=1,2"), "the limit is 10,000"),
        (("LOG", "--sweep", "seed=1", "seed=2"), "a key stands twice"),
        (("LOG", "--sweep", "seed=1", "--compare", "easy"), "cannot be combined"),
        (("LOG", "--compare", "easy,stride", "--starts", "x"), "--starts is for one simulation"),
        (("LOG", "--generate", "lublin"), "cannot be combined"),
        (("LOG", "--machines", "0"), "0 is not in the range"),
        (("LOG", "--machines", "5"), "5 machines are more than the 4 processors of the log"),
        (("LOG", "--machines", "5", "--mode", "full"), "5 machines are more than the 4"),
        (("LOG", "--machines", "2", "--policy", "hope"), "there is no policy 'hope'"),
        (("--generate", "life"), "there is no model 'life'"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(shell, log, words, message):
    said = shell("simulate", *(log if word == "LOG" else word for word in words))
    assert (said.code, said.out) == (ExitCode.USAGE, "")
    assert message in said.err


def test_a_log_that_is_not_there_is_not_found(shell):
    assert shell("simulate", "/nowhere.swf").code == ExitCode.NOT_FOUND


# --- faults --------------------------------------------------------------------------------------


def test_seeds_without_a_fault_are_counted(shell):
    said = shell("simulate", "--faults", "--seeds", "3", "--json")
    assert said.document == {"seeds": 3, "failures": []}


def test_a_seed_that_fails_is_told_with_its_story_and_how_to_rerun_it(shell, monkeypatch):
    monkeypatch.setattr("iriai.node.attempt_ends.AttemptEnds.acknowledge", lambda *_: None)
    said = shell("simulate", "--faults", "--seed", "7", "--seeds", "1")
    assert said.code == 1
    assert "to repeat: iriai simulate --faults --seed 7 --seeds 1" in said.out
    assert "1 seeds, 1 fail" in said.err


def test_faults_are_looked_for_without_a_log(shell, log):
    said = shell("simulate", log, "--faults")
    assert said.code == ExitCode.USAGE
    assert "--faults cannot be combined with a log" in said.err


def test_experiments_are_refused_with_where_they_are(shell):
    said = shell("simulate", "--experiment", "rights")
    assert said.code == ExitCode.USAGE
    assert "python benchmarks/paper_000.py --only rights" in said.err


def test_a_replay_has_nothing_to_send_through_the_wire(shell, log):
    said = shell("simulate", log, "--wire")
    assert said.code == ExitCode.USAGE
    assert "use --mode full with --wire" in said.err
    assert shell("simulate", log, "--wire", "--mode", "full").code == 0


# --- reservations --------------------------------------------------------------------------------


@pytest.fixture
def ahead(tmp_path):
    path = tmp_path / "ahead.csv"
    path.write_text("asked,start,end,width,user\n0,200,300,2,u1\n10,150,260,4,u2\n")
    return str(path)


@pytest.mark.parametrize("mode", ["replay", "full"])
def test_reservations_beside_a_log_come_out_as_a_second_table(shell, log, ahead, mode):
    said = shell("simulate", log, "--reservations", ahead, "--mode", mode, "--check")
    assert said.code == 0
    rows = said.out.splitlines()
    assert rows[2].split()[:3] == ["Simulation", "Reservations", "Accepted"]
    assert rows[3].split()[:5] == ["easy+fifo", "2", "50.0", "%", "2m31s"]


def test_a_document_has_the_numbers_of_reservations(shell, log, ahead):
    [simulation] = shell("simulate", log, "--reservations", ahead, "--json").document["simulations"]
    found = simulation["metrics"]["reservations"]
    assert (found["asked"], found["accepted"], found["acceptance"]) == (2, 1, 0.5)
    assert found["delay_to_earliest_s"]["mean"] == 151.0
    assert (found["late_starts"], found["promises_broken"]) == (0, 0)


def test_a_report_has_a_table_of_reservations(shell, log, ahead, tmp_path):
    shell("simulate", log, "--reservations", ahead, "--report", str(tmp_path / "out"))
    assert "promises broken" in (tmp_path / "out" / "index.html").read_text()


def test_what_is_wrong_in_a_file_of_reservations_is_refused_with_its_line(shell, log, tmp_path):
    path = tmp_path / "ahead.csv"
    path.write_text("asked,start,end,width,user\n0,200,300,5,u1\n")
    said = shell("simulate", log, "--reservations", str(path))
    assert (said.code, said.out) == (ExitCode.USAGE, "")
    assert "ahead.csv, line 2, has no width that is one: '5'" in said.err
    assert shell("simulate", log, "--reservations", "/nowhere.csv").code == ExitCode.NOT_FOUND
    faults = shell("simulate", "--faults", "--reservations", str(path))
    assert "cannot be combined" in faults.err
