"""Some runs in every gate; ``python -m tests.faults`` runs any number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.runner import attack

RUNS = 16

pytestmark = pytest.mark.spark


def test_the_old_or_the_new_savepoint_is_left(tmp_path: Path) -> None:
    only_root = ["disk"] if os.geteuid() == 0 else []  # mounts a disk that is small enough to become full
    counts, problems = attack(tmp_path, RUNS, 20, ["worker", "driver JVM", "driver Python", *only_root])
    assert not problems
    assert sum(counts.values()) == RUNS
    assert any(": killed" in what for what in counts)
    assert not only_root or any(": full, told failed, found the old" in what for what in counts)
