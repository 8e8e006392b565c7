"""The command that measures the whole table: a part of it, with few keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks.measure import measured, of_times, used


def test_a_part_is_measured_and_written_into_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{command.BEGIN}\nold\n{command.END}\nafter\n")
    monkeypatch.setattr(command, "README", readme)
    figures = [of_times("a query", [3.0, 2.0, 1.0, 1.5], aim=3)]
    monkeypatch.setattr(command, "PARTS", {"one": lambda run: figures, "two": lambda run: []})
    command.measure("one", 1000, 3, tmp_path)
    assert json.loads((tmp_path / "one.json").read_text())["figures"][0]["first"] == 3.0
    command.main(["--shown", "--readme", "--results", str(tmp_path)])
    text = readme.read_text()
    assert "| a query | 3 | 3.00 | 1.50 | 1.00 | 3 |" in text
    assert "python -m tests.benchmarks one`: 1,000 keys" in text
    assert (text.startswith("before\n"), text.endswith("\nafter\n"), "old" in text) == (True, True, False)
    with pytest.raises(SystemExit):
        command.main(["three"])
    assert "no such part: three; there are one, two" in capsys.readouterr().err


def test_the_readme_has_a_place_for_the_table() -> None:
    text = command.README.read_text("utf-8")
    assert text.index(command.BEGIN) < text.index(command.END)


def test_processor_time_of_this_process_is_counted() -> None:
    before = used()[1]
    figure = measured("a loop", lambda: sum(range(1_000_000)), runs=30)
    assert len(figure.again) == 30
    assert used()[1] > before
