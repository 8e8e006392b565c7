"""The command as a process: what it imports, and how it ends."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyspark_savepoint.formats.io.local_files import cpus

COMMAND = [sys.executable, "-m", "pyspark_savepoint"]
IMPORTS = """
import sys
from pyspark_savepoint.command_line.main import main
code = main(sys.argv[1:])
heavy = {"numba", "pyspark", "pandas", "py4j", "pyarrow.compute"} & set(sys.modules)
needless = ("class_files", "kryo.objects", "notation", "sql", "avro", "runtime.cep")
needless += ("kryo.described.job_classes", "kryo.described.object_columns", "kryo.described.jdk_objects")
names = tuple(f"pyspark_savepoint.formats.{part}" for part in needless)
names += tuple(f"pyspark_savepoint.formats.serializers.{part}" for part in needless)
heavy |= {module for module in sys.modules if module.startswith(names)}
print(*sorted(heavy), file=sys.stderr)
sys.exit(code or len(heavy))
"""


def test_ls_imports_neither_spark_nor_what_its_states_do_not_need(shop: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS, "ls", str(shop)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "accounts" in done.stdout


@pytest.mark.parametrize(
    "line", ["--version", "--help", "show --help", "pyspark-savepoint si", "pyspark-savepoint show /x --wh"]
)
def test_help_version_and_completion_import_no_arrays(tmp_path: Path, line: str) -> None:
    """They are answered in the time that a key press may take."""
    env, words = {**os.environ}, line.split()
    if words[0] == "pyspark-savepoint":
        env |= {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "answer"), "COMP_LINE": line}
        env |= {"COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
        words = []
    command = [sys.executable, "-X", "importtime", *COMMAND[1:], *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    imported = {part.rpartition("|")[2].strip() for part in done.stderr.splitlines()}
    assert "pyspark_savepoint.command_line.commands" in imported
    assert not {"numpy", "pyarrow", "numba", "pyspark", "pandas"} & imported
    assert done.stdout or (tmp_path / "answer").read_text()


def test_a_closed_pipe_is_no_error(shop: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "ls", str(shop)], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_read_only_file_system_is_named(shop: Path, tmp_path: Path) -> None:
    words = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"', str(tmp_path)]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    for command in (
        ("cp", str(shop), f"{tmp_path}/new"),
        ("export", str(shop), "accounts", "--file", f"{tmp_path}/a.csv"),
    ):
        done = subprocess.run([*words, *COMMAND, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert f"  file: {tmp_path}/" in done.stderr
        assert "found: Read-only file system" in done.stderr
        assert "to do: the file system is read-only: write elsewhere" in done.stderr


def test_no_folder_for_temporary_files_is_said(shop: Path, tmp_path: Path) -> None:
    words = [
        "sh",
        "-c",
        'ulimit -f 0; exec "$@"',
        "sh",
        *COMMAND,
        "set-max-parallelism",
        str(shop),
        f"{tmp_path}/new",
        "64",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "found: No usable temporary directory found in [" in done.stderr
    assert "to do: set TMPDIR to such a folder" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_java_that_ends_at_once_is_no_bug(shop: Path, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho UnsupportedClassVersionError >&2\nexit 1\n")
    java.chmod(0o755)
    command = [*COMMAND, "ls", str(shop), "--sql", "SELECT 1"]
    env = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 2
    assert "UnsupportedClassVersionError" in done.stderr
    assert "error: Spark did not start" in done.stderr
    assert "17 or later" in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.thorough  # sessions of Spark in processes of their own
def test_notes_of_java_are_left_out(shop: Path) -> None:
    command = [*COMMAND, "ls", str(shop), "--sql", "SELECT 41 + 1 AS answer", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"answer": 42}\n', "")


def test_names_are_printed_whatever_the_locale(shop: Path) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [*COMMAND, "show", str(shop), "accounts", "--keys", "1039", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"Mei \u7f8e" in done.stdout


@pytest.mark.parametrize(
    "words", [["--help"], ["ls", "--help"], ["ls", "SHOP"], ["show", "SHOP", "accounts", "--json"]]
)
def test_a_full_disk_below_the_output_is_said(shop: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [*COMMAND, *(str(shop) if word == "SHOP" else word for word in words)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2, "error: the output cannot be written: No space left on device"
    )  # fmt: skip


def test_a_name_that_the_locale_does_not_have_is_refused(shop: Path, tmp_path: Path) -> None:
    """Its bytes would become other letters of the name, and of the uid hash."""
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [*COMMAND, "rename", str(shop), str(tmp_path / "new"), "accounts=\u043a\u043e"]
    words = [word.encode() for word in command]
    done = subprocess.run(words, env=ascii_only, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "letters that the locale does not have" in done.stderr
    assert "set LC_ALL=C.UTF-8" in done.stderr
    assert not (tmp_path / "new").exists()
    done = subprocess.run(words, env={**os.environ, "LC_ALL": "C.UTF-8"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_output_and_working_directory(shop: Path, tmp_path: Path) -> None:
    """Run it as a parent process starts it that closed its streams."""
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@" >&-'
    command = ["sh", "-c", script, "sh", str(tmp_path / "gone"), *COMMAND]
    for path, code in ((shop, 0), (Path("savepoint"), 2)):
        (tmp_path / "gone").mkdir()
        done = subprocess.run([*command, "ls", str(path)], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == code, done.stderr
    assert "the working directory was deleted" in done.stderr


def test_interrupted(shop: Path) -> None:
    """Interrupt it while it waits for a reader of its output."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    command = [*COMMAND, "show", str(shop), "accounts", "--limit", "0", "--json"]
    process = subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert select.select([read], [], [], 60)[0]
    time.sleep(0.5)  # it prints more than the pipe holds
    process.send_signal(signal.SIGINT)
    while os.read(read, 65536):
        pass
    os.close(read)
    assert process.wait(timeout=30) == 130
    assert process.stderr is not None
    assert process.stderr.read() == "interrupted\n"


#: The command, interrupted when it imports a module, as if Ctrl-C was pressed then.
WHILE_IMPORTING = """
import os, signal, sys
from pyspark_savepoint.command_line.main import console

def interrupt(event, arguments):
    if event == "import" and arguments[0] == NAME:
        os.kill(os.getpid(), signal.SIGINT)

NAME = sys.argv.pop(1)
sys.addaudithook(interrupt)
sys.exit(console())
"""
#: The same while a class is made, of which Python 3.11 makes another error.
WHILE_MAKING_A_CLASS = """
import os, signal, sys
from pyspark_savepoint.command_line import main

class Named:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGINT)

main._run = lambda *_, **__: type("Owner", (), {"named": Named()})
sys.exit(main.console())
"""
#: The same while an object is deleted, from where an exception does not reach the command.
WHILE_DELETING = """
import os, signal, sys
from pyspark_savepoint.command_line import main

class Deleted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def run(*_):
    Deleted()
    return 0

main.main = run
sys.exit(main.console())
"""


@pytest.mark.parametrize(
    "module", ["argparse", "json", "pyarrow", "numpy", "pyspark_savepoint.engines.arrow.local_table"]
)
def test_interrupted_while_it_imports(shop: Path, module: str) -> None:
    command = [sys.executable, "-c", WHILE_IMPORTING, module, "ls", str(shop)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("script", [WHILE_DELETING, WHILE_MAKING_A_CLASS], ids=["destructor", "class"])
def test_interrupted_where_python_has_another_error(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.thorough("head after --help", sets=("s",))
@pytest.mark.parametrize("command", ["--help", "show SHOP accounts --limit 0 --csv", "schema SHOP"])
def test_head_is_silent(shop: Path, command: str) -> None:
    """Also if the standard error goes into the pipe."""
    words = [str(shop) if word == "SHOP" else word for word in command.split()]
    script = 'set -o pipefail; "$@" 2>&1 | head -n 1'
    done = subprocess.run(["bash", "-c", script, "bash", *COMMAND, *words], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 141)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def state_of(process: str) -> str | None:
    """The state of a process, None if there is none."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


@pytest.mark.thorough("warm-up reads every kind of table")
@pytest.mark.skipif(cpus() < 2, reason="one core: one process compiles")
def test_warm_up_compiles_in_two_processes_and_an_interrupt_ends_both(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    process = subprocess.Popen([*COMMAND, "warm-up"], env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("savepoint: compiling")
    (second,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert "compile_backwards" in Path(f"/proc/{second}/cmdline").read_text()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert process.stderr.read() == "interrupted\n"
    # Until its new parent has asked for its exit code, a process that ended is a zombie.
    states = (state_of(second) for _ in range(600) if time.sleep(0.1) is None)
    assert any(state in (None, "Z", "X") for state in states)
