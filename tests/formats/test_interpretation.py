"""Small inputs need no compiled kernel; large ones do, and compiling says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pyspark_savepoint.formats.kernels import interpretation, numbers
from pyspark_savepoint.formats.kernels.interpretation import Kernel, as_compiled, counted_range, python_form
from tests.benchmarks import data

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "tests" / "oracle" / "savepoints" / "shop" / "savepoint"
PROCESSES = 2

READ = """
import sys
import pyspark_savepoint

savepoint = pyspark_savepoint.open(sys.argv[1])
print(len(list(savepoint.table("keyed_state", uid=sys.argv[2]).rows())), "numba" in sys.modules)
"""
COMPILE = """
import sys
import numpy as np
from pyspark_savepoint.formats.kernels import numbers

rows = np.zeros(1, np.int64)
numbers.read_i16(np.zeros(8, np.uint8), rows, rows + 8, np.zeros(1, np.uint16))
print(numbers.read_i16.compiled_here, "numba" in sys.modules)
"""
COMMAND = """
import sys
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.kernels import interpretation

interpretation.SILENT_SECONDS = 0.01
sys.exit(main(sys.argv[1:]))
"""


def start(cache: Path, script: str, *arguments: str, form: str = "") -> subprocess.Popen[str]:
    """Start a process on a machine that has compiled what is in ``cache``."""
    environment = {**os.environ, interpretation.VARIABLE: form, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(not interpretation.KEEPS_TYPES, reason="before numpy 2 every kernel is compiled")
def test_a_small_savepoint_is_read_without_compiling(tmp_path: Path) -> None:
    out, err = start(tmp_path, READ, str(SHOP), "accounts").communicate(timeout=120)
    assert (out, err) == ("200 False\n", "")
    assert not any(tmp_path.rglob("*.code"))


@pytest.mark.thorough  # kernels are compiled again
def test_compiling_says_so_once_and_not_beside_json(tmp_path: Path) -> None:
    cold, json, warm = (
        start(tmp_path / cache, COMMAND, "sizes", str(SHOP), *options, form="compiled").communicate(timeout=300)[1]
        for cache, options in (("a", ()), ("b", ("--json",)), ("a", ()))
    )
    assert (cold, json, warm) == (f"{interpretation.ONCE}\n", "", "")


UPGRADED = """
import os, sys
import numpy as np

sys.path.insert(0, sys.argv[1])
import loops

given = (np.arange(3),)
before = loops.total.is_cached(given)
loops.total(*given)
print(before, loops.total.is_cached(given), loops.total.compiled_here)
"""
LOOPS = """
from pyspark_savepoint.formats.kernels._jit import kernel

@kernel
def total(values):
    total = 0
    for value in values:
        total += value
    return total
"""


@pytest.mark.thorough("compiling, in a process of its own")
def test_code_of_an_older_source_is_not_in_the_cache(tmp_path: Path) -> None:
    """Else small inputs would compile after an upgrade of the package, which leaves the files of the cache."""
    source, found = tmp_path / "loops.py", []
    for text in (LOOPS, LOOPS, f"{LOOPS}\n"):
        source.write_text(text)
        os.utime(source, (1, 1))
        found.append(start(tmp_path / "cache", UPGRADED, str(tmp_path), form="compiled").communicate(timeout=120))
    assert [out for out, _ in found] == ["False True 1\n", "True True 0\n", "False True 1\n"], found


SAY = """
import sys
from pyspark_savepoint.formats.kernels.interpretation import notice

notice._print()
print("tried", flush=True)
sys.stdin.read()
"""


def test_processes_that_write_to_one_stream_say_it_once() -> None:
    """As Spark's workers of one executor do, whose log it is."""
    read, write = os.pipe()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": write}
    processes = [subprocess.Popen([sys.executable, "-c", SAY], cwd=ROOT, **pipes) for _ in range(PROCESSES)]
    os.close(write)
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"tried\n"
    for process in processes:
        process.communicate(timeout=60)
    with os.fdopen(read) as stream:
        assert stream.read() == f"{interpretation.ONCE}\n"


def test_one_process_compiles_and_the_others_load(tmp_path: Path) -> None:
    processes = [start(tmp_path, COMPILE, form="compiled") for _ in range(PROCESSES)]
    ended = [process.communicate(timeout=120) for process in processes]
    assert sorted(out for out, _ in ended) == ["0 False\n"] * (PROCESSES - 1) + ["1 True\n"], ended


def test_a_call_with_too_many_rounds_is_repeated_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arrays are restored: otherwise, rows that were written twice would be further apart."""
    monkeypatch.setattr(interpretation, "MOST_ROUNDS", 20)
    monkeypatch.setattr(interpretation.spending, "form", "")
    kernel = numbers.write_fixed.choice
    compiled, calls = kernel.compiled, []

    def compiled_for(*given: object) -> object:
        calls.append(len(given))
        return compiled(*given)

    monkeypatch.setattr(kernel, "compiled", compiled_for)
    buffer, position = np.zeros(40, np.uint8), np.arange(0, 40, 4)
    kernel._interpreted(buffer, position, np.arange(10), 4)
    assert calls == [4]
    assert buffer.view(">i4").tolist() == list(range(10))
    assert position.tolist() == list(range(4, 44, 4))


@pytest.mark.skipif(not interpretation.KEEPS_TYPES, reason="before numpy 2 every kernel is compiled")
@pytest.mark.parametrize("kind", ["long", "string"])
def test_reading_a_hundred_thousand_keys_compiles_nothing(tmp_path: Path, kind: str) -> None:
    """The slowest kernel to compile, which merges the states of a key, takes longer than numpy does."""
    path = data.write_savepoint(tmp_path / "savepoint", kind, 100_000)

    process = start(tmp_path, READ, str(path), data.UID)
    output, errors = process.communicate(timeout=120)

    assert (output, process.returncode) == ("100000 False\n", 0), errors


def test_a_process_interprets_until_compiling_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    spending = interpretation.Spending()
    spending.form = ""
    monkeypatch.setattr(interpretation, "spending", spending)
    cached = False
    kernel = Kernel(numbers.write_fixed.py_func, lambda *_: "compiled", lambda _: cached)
    kernel.arrays = None

    def form(elements: int = 10) -> str:
        chosen = kernel(np.zeros(elements, np.uint8), 3)
        return chosen if isinstance(chosen, str) else "interpreted"

    assert form() == "interpreted"
    assert form(interpretation.MOST_ELEMENTS + 1) == "compiled"
    spending.seconds = interpretation.CACHED_SECONDS
    assert form() == "interpreted"
    cached = True
    assert form() == "compiled"
    assert form(interpretation.CACHED_ELEMENTS + 1) == "compiled"
    spending.seconds = 0.0
    assert form() == "interpreted"
    assert form(interpretation.CACHED_ELEMENTS + 1) == "compiled"
    cached, kernel.seconds = False, 0.9 * kernel.left
    assert form() == "interpreted"
    kernel.seconds += kernel.left
    assert form() == "compiled"
    kernel.seconds, spending.seconds = 0.0, interpretation.PROCESS_SECONDS
    assert form() == "compiled"
    spending.form = interpretation.INTERPRETED
    assert form(interpretation.MOST_ELEMENTS + 1) == "interpreted"


def test_calls_of_numpy_replace_a_kernel_that_would_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    spending = interpretation.Spending()
    spending.form = ""
    monkeypatch.setattr(interpretation, "spending", spending)
    cached = False
    kernel = Kernel(numbers.write_fixed.py_func, lambda *_: "compiled", lambda _: cached)
    values = np.arange(1 << 17)

    def written() -> bool:
        out = np.zeros(8 * len(values), np.uint8)
        chosen = kernel(out, 8 * values, values, 8)
        return chosen != "compiled" and chosen(out, 8 * values, values, 8) is None and out.any()

    assert written()
    assert kernel.seconds > 0
    cached = True
    assert not written()
    cached, kernel.seconds = False, kernel.seconds + kernel.left
    assert not written()


def test_kernels_are_interpreted_only_where_numbers_keep_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before numpy 2, 8 bytes plus a Python number are a float, with 53 bits."""
    assert (int(np.__version__.split(".")[0]) >= 2) == interpretation.KEEPS_TYPES
    monkeypatch.setenv(interpretation.VARIABLE, interpretation.INTERPRETED)
    monkeypatch.setattr(interpretation, "KEEPS_TYPES", True)
    assert interpretation.Spending().form == interpretation.INTERPRETED
    monkeypatch.setattr(interpretation, "KEEPS_TYPES", False)
    assert interpretation.Spending().form == interpretation.COMPILED
    monkeypatch.delenv(interpretation.VARIABLE)
    assert interpretation.Spending().form == interpretation.COMPILED


@pytest.mark.filterwarnings("error")
def test_interpreted_kernels_wrap_and_convert_without_warnings() -> None:
    def overflow(number: np.int32, nothing: np.float64) -> tuple[np.int32, int]:
        return number + np.int32(1), np.float64(nothing).astype(np.int64) * 0

    kernel = Kernel(overflow, lambda *_: None, lambda _: False)
    assert kernel._interpreted(np.int32(2**31 - 1), np.float64("nan")) == (-(2**31), 0)


def test_interpreted_kernels_call_python_functions_and_return_pythons_numbers() -> None:
    interpretation.choice.left = 100
    form = python_form(numbers.read_i64.py_func)
    assert form.__globals__["range"] is counted_range
    assert type(form.__globals__["be_i64"]) is type(form)
    assert [type(part) for part in as_compiled((np.int64(1), np.uint64(2), np.bool_(True), 4))] == [int, int, bool, int]
