"""Figures have the numbers of the tables that they show, and names as text."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import OperatorNotFoundError, OptionError, SavepointWarning
from pyspark_savepoint.insight.plots import UNITS, _time_axis
from tests.connector.command_line.test_texts_that_leave import acting
from tests.connector.insight.test_report import HOSTILE, SHOP
from tests.fuzz.shapes import keyed_subtask, made, operator, snapshot, state

DAY = UNITS["days"]
#: The operator of the shop's largest file.
OF_LARGEST = "accounts"


@pytest.fixture(scope="module")
def shop() -> LocalSavepoint:
    return pyspark_savepoint.open(SHOP)


def drawn(figure: Figure, path: Path) -> Figure:
    figure.savefig(path / "figure.png")
    assert (path / "figure.png").stat().st_size > 5_000
    return figure


def heights(axes: Any) -> list[float]:
    return [bar.get_height() for bar in axes.patches]


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.get_legend().get_texts()]


def test_sizes(shop: LocalSavepoint, tmp_path: Path) -> None:
    (axes,) = drawn(shop.inspect.plot.sizes(top=3), tmp_path).axes
    widths = [bar.get_width() for bar in axes.patches]
    assert len(widths) == 4
    assert sum(widths) == sum(row["bytes"] or 0 for row in shop.inspect.sizes().rows() if row["note"] is None)
    assert widths[:3] == sorted(widths[:3], reverse=True)
    assert next(text.get_text() for text in axes.get_yticklabels()).startswith("accounts  ")
    with pytest.raises(OptionError, match="top"):
        shop.inspect.plot.sizes(top=0)


def test_skew(shop: LocalSavepoint, tmp_path: Path) -> None:
    left, right = drawn(shop.inspect.plot.skew(), tmp_path).axes
    groups: dict[int, int] = {}
    for row in shop.inspect.sizes("accounts", by="key-group").rows():
        groups[row["key_group"]] = groups.get(row["key_group"], 0) + row["bytes"]
    assert sorted(heights(left)) == sorted(groups.values())
    halves = [sum(size for group, size in groups.items() if group // 64 == half) for half in (0, 1)]
    ratios = dict(zip([text.get_text() for text in right.get_xticklabels()], heights(right), strict=True))
    assert ratios["1"] == 1
    assert ratios["2"] == pytest.approx(max(halves) * 2 / sum(halves))
    with pytest.raises(OperatorNotFoundError, match="accounts"):
        shop.inspect.plot.skew("acounts")


def test_timers(shop: LocalSavepoint, tmp_path: Path) -> None:
    (axes,) = drawn(shop.inspect.plot.timers("accounts"), tmp_path).axes
    assert sum(bar.get_height() for container in axes.containers for bar in container) == 400
    with pytest.raises(OperatorNotFoundError):
        shop.inspect.plot.timers("orders-source")


def test_what_cannot_be_read_is_said_in_the_figure_and_warned_of(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(SHOP, broken)
    files = [path for path in broken.iterdir() if path.name != "_metadata"]
    largest = max(files, key=lambda path: path.stat().st_size)
    largest.write_bytes(b"damaged" * 9)
    plot = pyspark_savepoint.open(broken).inspect.plot
    with pytest.warns(SavepointWarning, match="leaves out what cannot be read: 1 of 7 operators cannot be read, with"):
        figure = plot.sizes()
    said = figure.get_supxlabel()
    assert said.endswith(f"in files: {OF_LARGEST}")
    with pytest.warns(SavepointWarning, match=OF_LARGEST):
        assert plot.skew("orders-per-minute").get_supxlabel() == said
    drawn(figure, tmp_path)


@pytest.mark.parametrize(
    ("first", "last", "now", "expected"),
    [
        (DAY, 4 * DAY, 2 * DAY, "days after the snapshot"),
        (1000 * DAY, 1000 * DAY, 2 * DAY, "milliseconds after the first timer, 1972-09-27 00:00:00 UTC"),
        (0, 90_000, 20_700 * DAY, "seconds after the first timer, 1970-01-01 00:00:00 UTC"),
        (-(1 << 62), 1 << 62, 0, "years after the snapshot"),
        (20 * DAY, 21 * DAY, 20 * DAY, "hours after the snapshot"),
    ],
)
def test_the_axis_of_timers_is_readable(first: int, last: int, now: int, expected: str) -> None:
    start, unit, said = _time_axis(first, last, now)
    assert said == expected
    assert abs(last - start) / UNITS[unit] < 1e9


def test_timers_far_from_now_have_plain_ticks(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "timestamp": pa.array([0, 1, 90], pa.int64()), "domain": ["event"] * 3})
    written = pyspark_savepoint.create().with_operator("far").with_timers("far", rows, key="id")
    (axes,) = drawn(written.write(tmp_path / "far").inspect.plot.timers(), tmp_path).axes
    assert axes.get_xlabel() == "milliseconds after the first timer, 1970-01-01 00:00:00 UTC"
    assert axes.xaxis.get_major_formatter().get_offset() == ""


def test_growth_and_ages(corpus: Path, tmp_path: Path) -> None:
    folder = corpus / "history" / "2.3.0-rocksdb-incr"
    newest = pyspark_savepoint.open(folder, version_as_of="latest", allow_outside=True)
    (axes,) = drawn(newest.inspect.plot.growth(folder, last=3), tmp_path).axes
    whole = axes.lines[-1].get_ydata()
    assert len(whole) == 3
    assert whole[-1] == sum(row["bytes"] or 0 for row in newest.inspect.sizes().rows() if row["note"] is None)
    (axes,) = drawn(newest.inspect.plot.ttl(), tmp_path).axes
    assert sum(heights(axes)) == sum(row["units"] for row in newest.inspect.ttl_ages().rows())


def test_hashes_of_uids_are_short_so_that_states_are_seen(corpus: Path, tmp_path: Path) -> None:
    folder = next((corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints").glob("*"))
    newest = pyspark_savepoint.open(folder, version_as_of="latest", allow_outside=True)
    names = labels(drawn(newest.inspect.plot.growth(folder), tmp_path))
    assert "14cfd403…  _timer_state/event_user-timers" in names
    assert len(set(names)) == len(names)


def test_names_are_text(tmp_path: Path) -> None:
    name = HOSTILE + "$x^2$"
    states = [state(f"{place}{name}", "VALUE", "LONG") for place in range(2)]
    with made(snapshot(operator(keyed_subtask(states, (1, 2)), name))) as (path, _):
        plot = pyspark_savepoint.open(path).inspect.plot
        assert acting(repr(plot)) == set()
        figures = [drawn(plot.sizes(), tmp_path), drawn(plot.skew(), tmp_path)]
        found = [each.get_text() for figure in figures for axes in figure.axes for each in axes.get_yticklabels()]
        found += [axes.get_title() for figure in figures for axes in figure.axes]
    assert acting("".join(found)) == set()
    assert any("</script>" in text for text in found)


def test_no_state_with_a_time_to_live(tmp_path: Path) -> None:
    written = (
        pyspark_savepoint.create().with_operator("a", pa.table({"id": [1], "v": [2]}), key="id").write(tmp_path / "s")
    )
    with pytest.raises(OptionError, match="time to live"):
        written.inspect.plot.ttl()


def test_what_notebooks_show(shop: LocalSavepoint) -> None:
    assert "12.1 KiB" in shop._repr_html_()
    assert "," not in shop._repr_html_().replace(",<wbr>", "").partition("</style>")[2].partition("MAP&lt;")[2][:20]
    table = shop.keyed_state("accounts")
    shown = table._repr_html_()
    assert all(f"<td>{name}</td>" in shown for name in table.schema.names)
    assert "POJO&lt;oracle.Shop$Profile&gt;" in shown
    for each in (shop, table, shop.inspect.plot, pyspark_savepoint.open_history(SHOP), shop.inspect.verify()):
        assert 10 < len(repr(each)) < 400
        assert "\n" not in repr(each)


def test_lines_are_seen_on_a_dark_figure(shop: LocalSavepoint, tmp_path: Path) -> None:
    for style, ink in (("default", "black"), ("dark_background", "white")):
        with pyplot.style.context(style):
            figures = [shop.inspect.plot.skew(), shop.inspect.plot.timers("accounts"), shop.inspect.plot.growth(SHOP)]
        dashed = [
            line for figure in figures for axes in figure.axes for line in axes.lines if line.get_linestyle() == "--"
        ]
        assert len(dashed) >= 4
        assert {line.get_color() for line in dashed} == {ink}
