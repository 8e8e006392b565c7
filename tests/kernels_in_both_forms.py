"""pytest plugin (``-p tests.kernels_in_both_forms``): each kernel runs compiled and interpreted, with the same effect.

Results must have the same values and types, and all arrays the same content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyspark_savepoint.formats.kernels import _jit, interpretation
from pyspark_savepoint.formats.kernels.interpretation import as_compiled, python_form

#: How often each kernel was compared.
compared: Counter[str] = Counter()


class Kernel(interpretation.Kernel):
    """A kernel that runs in both forms."""

    def __call__(self, *arguments: Any) -> Callable[..., Any]:
        return self.both

    def both(self, *arguments: Any) -> Any:
        """Run compiled with the arguments, and interpreted with copies."""
        interpretation.choice.left = 1 << 60
        copies = [given.copy() if isinstance(given, np.ndarray) else given for given in arguments]
        with np.errstate(over="ignore"):
            interpreted = as_compiled(python_form(self.function)(*copies))
        compiled = self.compiled(*arguments)(*arguments)
        assert (interpreted, type(interpreted)) == (compiled, type(compiled)), self.function.__name__
        for number, (given, copy) in enumerate(zip(arguments, copies, strict=True)):
            if isinstance(given, np.ndarray):
                same = given.tobytes() == copy.tobytes()
                assert same, f"{self.function.__name__} leaves different content in array {number}"
        compared[self.function.__name__] += 1
        return compiled


def pytest_configure(config: pytest.Config) -> None:
    """Run before any kernel is imported."""
    _jit.Kernel = Kernel  # type: ignore[misc]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was compared."""
    terminalreporter.line(f"{sum(compared.values())} calls of {len(compared)} kernels compared: {sorted(compared)}")
