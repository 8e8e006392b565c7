"""Damaged inputs read by kernels that check every index. Many more: ``python -m tests.fuzz --bounds --hours 2``."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fuzz.bounds import TARGETS, checked
from tests.fuzz.formats import Report, fuzz

pytestmark = pytest.mark.slow("damaged snapshots by the hundred")

#: Inputs of each target; most of the time goes to compiling.
COUNT = 100
#: A kernel that reads the byte after its input.
BEYOND = """
import numpy as np
from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.load import be_u16

def beyond(buf, at):
    return be_u16(buf, at)

try:
    print("read", kernel(beyond)(np.zeros(8, np.uint8), 7))
except IndexError as error:
    print("refused", error)
"""


def test_a_read_beyond_the_input_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "beyond.py"
    script.write_text(BEYOND)
    found = {}
    for name, more in {"checked": checked(), "usual": {"PYSPARK_SAVEPOINT_KERNELS": "compiled"}}.items():
        env = {**os.environ, **more, "NUMBA_CACHE_DIR": str(tmp_path / name)}
        done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=True)
        found[name] = done.stdout.split()[0]
    assert found == {"checked": "refused", "usual": "read"}


def test_no_kernel_reads_or_writes_out_of_bounds(corpus: Path, tmp_path: Path) -> None:
    environment = checked()

    def run(target: str) -> Report:
        return fuzz(target, 20, 0, COUNT, tmp_path, environment=environment)

    with ThreadPoolExecutor(2) as pool:
        for report in pool.map(run, TARGETS):
            assert not report.problems, report.problems
            assert report.inputs == COUNT
            assert 0 < report.read < COUNT
