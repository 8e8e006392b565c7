"""The command as a process: what it imports, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "pyspark_savepoint"]
IMPORTS = """
import sys
from pyspark_savepoint.command_line.main import main
code = main(sys.argv[1:])
heavy = {"numba", "pyspark", "pandas", "py4j", "pyarrow.compute"} & set(sys.modules)
needless = ("class_files", "kryo.objects", "kryo.described", "notation", "sql", "avro", "python", "runtime.cep")
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


def test_a_closed_pipe_is_no_error(shop: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "ls", str(shop)], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_interrupted(shop: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen([*COMMAND, "check-restore", str(shop), str(fifo)], stderr=subprocess.PIPE, text=True)
    with fifo.open("w"):  # it waits for the rest of the job's description
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    assert process.stderr is not None
    assert process.stderr.read() == "interrupted\n"
