"""Some runs in every gate; ``python -m tests.faults`` does as many as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.runner import attack

pytestmark = pytest.mark.spark


def test_the_old_or_the_new_savepoint_is_left(tmp_path: Path) -> None:
    counts, problems = attack(tmp_path, 20, 20, ["worker", "driver JVM", "driver Python"])
    assert not problems
    assert sum(counts.values()) == 20
    assert any(": killed" in what for what in counts)
