"""Commands do not import pandas, which pyarrow does to recognise its objects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHOP = "tests/oracle/savepoints/shop/savepoint"
ROOT = Path(__file__).parents[3]
RUN = """
import sys
from pyspark_savepoint.command_line.main import console
sys.argv = ["pyspark-savepoint", *sys.argv[1:]]
code = console()
print(code, "pandas" in sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [["ls", SHOP], ["show", SHOP, "accounts"], ["verify", SHOP], ["sizes", SHOP], ["heaviest", SHOP, "accounts"]],
    ids=lambda words: words[0],
)
def test_commands_do_not_import_pandas(words: list[str]) -> None:
    command = [sys.executable, "-c", RUN, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stderr.splitlines()[-1] == "0 False"
