"""What a task is given and how its end is told, whichever way it is started and kept together."""

import os
import platform
import pwd
import resource
import signal
import stat

from iriai.launcher.spawn.spawn import TASK_FILES
from iriai.model.state import EndCause
from tests.launcher.harness import Lab


def test_a_task_that_succeeds_is_completed(lab: Lab):
    end = lab.run("true")
    assert (end.cause, end.exit_code, end.signal) == (EndCause.COMPLETED, 0, None)
    assert end.message == ""


def test_the_exit_code_is_the_tasks_own(lab: Lab):
    end = lab.run("sh", "-c", "exit 3")
    assert (end.cause, end.exit_code, end.signal) == (EndCause.FAILED, 3, None)


def test_a_signal_is_told_apart_from_an_exit_code(lab: Lab):
    end = lab.run("sh", "-c", "kill -USR1 $$")
    assert (end.cause, end.exit_code, end.signal) == (EndCause.FAILED, None, signal.SIGUSR1)


def test_a_command_that_is_not_there_ends_as_in_a_shell(lab: Lab):
    for command in ("no-such-command", "/no/such/command"):
        end = lab.run(command)
        assert (end.cause, end.exit_code) == (EndCause.FAILED, 127)
        assert command in end.message
        assert "not found" in end.message


def test_a_file_that_may_not_be_executed_ends_as_in_a_shell(lab: Lab):
    (lab.folder / "data").write_text("#!/bin/sh\n")
    end = lab.run("./data")
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 126)
    assert "Permission denied" in end.message


def test_not_permitted_outweighs_not_there_in_the_search_path(lab: Lab):
    (lab.folder / "data").write_text("#!/bin/sh\n")
    spec = lab.spec("data")
    end = lab.end_of(spec, environment={"PATH": f"/no/such:{lab.folder}:/usr/bin"})
    assert end.exit_code == 126


def test_an_executable_text_without_an_interpreter_goes_to_the_shell(lab: Lab):
    program = lab.folder / "program"
    program.write_text("echo $1 from the shell\n")
    program.chmod(0o755)
    assert lab.run("./program", "hello").exit_code == 0
    assert lab.read() == "hello from the shell\n"


def test_a_missing_working_directory_is_named(lab: Lab):
    end = lab.end_of(lab.machine.spec("true", working_directory="/no/such/folder"))
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 126)
    assert "/no/such/folder" in end.message


def test_output_that_cannot_be_opened_is_named(lab: Lab):
    end = lab.run("true", output="missing/%j.out")
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 126)
    assert f"missing/ume-{end.attempt.number}.out" in end.message
    end = lab.run("true", error="missing/err")
    assert "missing/err" in end.message


def test_output_is_appended_as_the_user(lab: Lab):
    assert lab.run("echo", "first").exit_code == 0
    assert lab.run("grep", "flags", "/proc/self/fdinfo/1").exit_code == 0
    first, flags = lab.read().splitlines()
    assert first == "first"
    assert int(flags.split()[1], 8) & os.O_APPEND
    found = (lab.folder / "out").stat()
    assert found.st_uid == lab.machine.uid
    assert stat.S_IMODE(found.st_mode) == 0o644


def test_standard_error_is_merged_or_apart(lab: Lab):
    lab.run("sh", "-c", "echo said; echo wrong >&2")
    assert lab.read() == "said\nwrong\n"
    lab.run("sh", "-c", "echo said; echo wrong >&2", output="apart", error="errors")
    assert (lab.read("apart"), lab.read("errors")) == ("said\n", "wrong\n")


def test_names_of_files_carry_job_and_attempt(lab: Lab):
    end = lab.run("true", output="%j.%t-%r-%a-%%.out")
    assert (lab.folder / f"ume-{end.attempt.number}.0-0-1-%.out").exists()


def test_output_that_nobody_wants_goes_nowhere(lab: Lab):
    assert lab.run("sh", "-c", "echo lost >&2; echo lost", output="").exit_code == 0
    assert list(lab.folder.iterdir()) == []


def test_standard_input_is_what_was_stored(lab: Lab):
    for _ in range(2):  # from its begin each time
        lab.end_of(lab.spec("cat"), stdin=b"stored\n")
    assert lab.read() == "stored\nstored\n"
    assert lab.run("cat", output="nothing").exit_code == 0
    assert lab.read("nothing") == ""


def test_the_environment_is_the_submitters_with_what_is_ours(lab: Lab):
    spec = lab.spec("env")
    given = {"COLOUR": "blue", "PATH": "/usr/bin:/bin", "EMPTY": "", "HOME": "/elsewhere"}
    end = lab.end_of(spec, environment=given, gpu_ids=(1, 3))
    found = dict(line.split("=", 1) for line in lab.read().splitlines())
    assert {name: found[name] for name in given} == given
    assert found["IRIAI_JOB_ID"] == f"ume-{end.attempt.number}"
    assert (found["IRIAI_TASK_ID"], found["IRIAI_ATTEMPT"]) == ("0", "1")
    assert (found["IRIAI_RANK"], found["IRIAI_RANKS"], found["IRIAI_CPUS"]) == ("0", "1", "1")
    assert (found["OMP_NUM_THREADS"], found["CUDA_VISIBLE_DEVICES"]) == ("1", "1,3")
    user = pwd.getpwnam(lab.machine.user)
    assert (found["USER"], found["LOGNAME"]) == (user.pw_name, user.pw_name)
    assert found["SHELL"] == user.pw_shell
    assert not any(name.startswith(":") for name in found)


def test_what_the_user_set_for_threads_stays(lab: Lab):
    lab.end_of(lab.spec("sh", "-c", "echo $OMP_NUM_THREADS"), environment={"OMP_NUM_THREADS": "7"})
    assert lab.read() == "7\n"


def test_who_asked_for_no_gpus_sees_none(lab: Lab):
    told = "echo ${CUDA_VISIBLE_DEVICES-unset} $NVIDIA_VISIBLE_DEVICES ${HIP_VISIBLE_DEVICES-unset}"
    given = {"CUDA_VISIBLE_DEVICES": "0,1", "NVIDIA_VISIBLE_DEVICES": "all"}
    lab.end_of(lab.spec("sh", "-c", f"{told}"), environment=given)
    assert lab.read() == "void\n"


def test_a_script_is_executed_as_its_first_line_says(lab: Lab):
    lab.end_of(lab.spec("one", "two"), script=b"#!/bin/cat\ncontent\n")
    assert "content" in lab.read()
    lab.end_of(
        lab.spec("one", "two", output="shell"), script=b"echo $1 $2; ls -l $0; ls $(dirname $0)\n"
    )
    said = lab.read("shell").splitlines()
    assert said[0] == "one two"
    is_shared = lab.machine.variant.is_privileged and os.geteuid() == 0
    # With an access list, what counts as the group's bits is what it gives the user.
    assert said[1].startswith("-rw-r-x---+" if is_shared else "-r-x------")
    assert list((lab.machine.state / "launcher" / "run").iterdir()) == []


def test_a_task_runs_as_its_user_in_its_own_session(lab: Lab):
    text = """
import os, signal, resource
print(os.getuid(), os.getgid(), os.getresuid(), os.getcwd())
print(os.getsid(0) == os.getpid(), os.getppid() == int(open("/proc/self/stat").read().split()[3]))
print(sorted(map(int, os.listdir("/proc/self/fd")))[:4])
"""
    lab.end_of(lab.python(text))
    user, session, files = lab.read().splitlines()
    uid = lab.machine.uid
    assert user == f"{uid} {lab.machine.gid} ({uid}, {uid}, {uid}) {lab.folder}"
    assert session == "True True"
    assert files == "[0, 1, 2, 3]"  # 3 reads the directory; nothing else was inherited


def test_a_task_of_roots_launcher_gets_no_rights_and_another_what_its_user_has(lab: Lab):
    assert lab.run("grep", "-E", "^(Cap(Bnd|Inh)|NoNewPrivs)", "/proc/self/status").exit_code == 0
    rights = {name: int(value, 16) for name, value in map(str.split, lab.read().splitlines())}
    is_bare = rights == {"CapInh:": 0, "CapBnd:": 0, "NoNewPrivs:": 1}
    assert is_bare == (os.geteuid() == 0 and lab.machine.variant.is_privileged), rights


def test_signals_are_as_a_program_expects_them(lab: Lab):
    lab.run("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    blocked, ignored = (int(line.split()[1], 16) for line in lab.read().splitlines())
    internal = 0b11 << 31  # two that the C library keeps for itself
    assert blocked == 0
    assert ignored & ~internal == 0


def test_a_task_may_open_as_many_files_as_its_user_at_a_login(lab: Lab):
    lab.run("sh", "-c", "ulimit -Sn; ulimit -Hn")
    given = tuple(map(int, lab.read().split()))
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    if os.geteuid() != 0 or not lab.machine.variant.is_privileged:
        assert given == own
    else:  # no more than root itself may have, which in a container is less
        assert given in (TASK_FILES, (min(TASK_FILES[0], own[1]), min(TASK_FILES[1], own[1])))


def test_impossible_arguments_are_the_tasks_end_and_nothing_else(lab: Lab):
    end = lab.run("echo", "a\0b")
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 126)
    end = lab.end_of(lab.spec("true"), environment={"LARGE": "x" * (3 << 20)})
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 126)
    assert "ENVIRONMENT_BYTES_MAX" in end.message
    assert lab.run("true").cause is EndCause.COMPLETED


def test_processor_time_and_memory_are_counted(lab: Lab):
    text = """
import time
filled = bytearray(b"x") * (96 << 20)
while time.process_time() < 0.3: pass
"""
    usage = lab.end_of(lab.python(text)).usage
    assert usage.cpu_s >= 0.2
    assert usage.memory_peak_bytes >= 96 << 20


def test_use_of_children_counts(lab: Lab):
    text = """
import subprocess, sys
busy = "import time\\nwhile time.process_time() < 0.1: pass"
for _ in range(2): subprocess.run([sys.executable, "-c", busy])
"""
    assert lab.end_of(lab.python(text)).usage.cpu_s >= 0.2


def test_times_of_start_and_end_are_told(lab: Lab):
    end = lab.run("sleep", "0.1")
    assert end.started_wall_s < end.ended_wall_s
    assert end.elapsed_s >= 0.1
    assert lab.link.spawned[end.attempt].started_wall_s == end.started_wall_s


def test_hundreds_at_once_all_end(lab: Lab):
    from tests.launcher.harness import attempt, launch

    wanted = [attempt(10_000, index) for index in range(300)]
    launch(lab.link, lab.spec("sh", "-c", "exit $(($IRIAI_TASK_ID % 7))", output="%t"), *wanted)
    for each in wanted:
        assert lab.link.exit_of(each).exit_code == each.index % 7
    assert len(list(lab.folder.iterdir())) == 300


def test_a_task_that_says_that_it_has_saved_itself_is_evicted(lab: Lab):
    spec = lab.spec("sh", "-c", "sleep 1.1; exit 85", checkpoint_exit=85)
    end = lab.end_of(spec)
    assert (end.cause, end.exit_code, end.signal) == (EndCause.EVICTED, 85, None)
    assert end.message == "it has saved itself (exit code 85)"


def test_a_command_may_name_what_its_machine_is(lab: Lab):
    arch = {"x86_64": "X86_64"}.get(platform.machine(), platform.machine())
    program = lab.folder / f"tell.{arch}"
    program.write_text("#!/bin/sh\necho $1 $2\n")
    program.chmod(0o755)
    assert lab.run("./tell.%{Arch}", "%{OpSys}", "%%{Arch}").exit_code == 0
    assert lab.read() == "LINUX %{Arch}\n"
