"""A fixed number of damaged snapshots, always the same ones. Many more: ``python -m tests.fuzz --hours 2``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.runner import run, run_worker

pytestmark = pytest.mark.slow("damaged snapshots by the hundred")

CASES = 600


def test_damaged_snapshots_give_sound_rows_or_our_errors(corpus: Path, tmp_path: Path) -> None:
    findings = run(seed=20, first=0, count=CASES, snapshots=60, keep=tmp_path / "findings")
    assert not findings.problems, findings.report()
    assert findings.cases == CASES
    # Damage that is never detected, or that makes all tables unreadable, would test nothing.
    assert findings.read > CASES
    assert findings.refused > CASES


def test_what_was_found_before_is_not_found_again() -> None:
    found = sorted(str(path) for path in (Path(__file__).parent / "found" / "snapshot").iterdir())
    findings, killed = run_worker(["--replay", *found], None)
    assert not findings.problems, findings.report()
    assert killed is None
    assert findings.cases == len(found) > 5
