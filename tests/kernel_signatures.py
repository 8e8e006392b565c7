"""``python -m tests.kernel_signatures``: list all kernels, with the types of their arguments.

The tests run while calls of kernels by the package are written down (not those by tests, which try other types). About
20 minutes. It is also the plugin of pytest that does so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.kernels import _jit
from pyspark_savepoint.formats.kernels.all_kernels import SIGNATURES, name_of
from pyspark_savepoint.formats.kernels.object_code import Signature

ROOT = Path(__file__).parents[1]
#: The folder where each process writes what it has called.
VARIABLE = "KERNEL_SIGNATURES"
TESTED = ("tests/formats", "tests/statebackends", "tests/connector/api", "tests/connector/engines/arrow")
QUICK = "not slow and not flink and not thorough"

called: set[str] = set()
_call = _jit._Kernel.__call__


def _recorded(kernel: Any, *arguments: Any) -> Any:
    caller = sys._getframe(1).f_code.co_filename
    if "/tests/" not in caller:
        called.add(f"{name_of(kernel.py_func)} {Signature.of(arguments)}")
    return _call(kernel, *arguments)


def pytest_sessionfinish() -> None:
    """Write down what this process has called."""
    folder = os.environ.get(VARIABLE)
    if folder:
        Path(folder, str(os.getpid())).write_text("\n".join(called))


if os.environ.get(VARIABLE):
    _jit._Kernel.__call__ = _recorded  # type: ignore[method-assign]


def main() -> int:
    """Run the tests, write the list, and return the exit code of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["-q", "-n", "2", "-p", __spec__.name, "-p", "no:cacheprovider", "-m", QUICK]
        command = [sys.executable, "-m", "pytest", *options, *TESTED]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: folder}, check=False)
        lines = {line for file in Path(folder).iterdir() for line in file.read_text().splitlines()}
    (ROOT / "formats" / "kernels" / SIGNATURES).write_text("".join(f"{line}\n" for line in sorted(lines)))
    print(f"{len(lines)} kernels for some types")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
