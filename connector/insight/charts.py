"""Charts of the report as SVG: Vega's, drawn here and not by the browser.

Of the libraries that draw a treemap, bars and lines, Vega (through vl-convert) is the one whose drawing needs no script
in the page: SVG that a browser shows offline, prints, and scales, in which each mark has a label (ARIA), and whose
colours may be CSS variables, so that one drawing is right in light and in dark. Plotly's script has 4.5 MB, more than a
page may have; that of ECharts has 1 MB and must run before anything is seen; Vega-Lite in the page has 0.8 MB and
evaluates code, which the page's security policy forbids; uPlot draws no treemap, and on a canvas, which screen readers
cannot read; Matplotlib's SVG has fixed colours and no labels. Charts are written in Vega itself: Vega-Lite's
compiler takes 0.1 s more to load.

Texts are given as data, never as a part of an expression, and pass :func:`said` first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import east_asian_width

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.text.texts import UNITS

Row = Mapping[str, Any]
#: Colours of series, which the page defines for light and dark.
COLOURS = tuple(f"var(--c{number})" for number in range(8))
INK, DIM, LINE = "var(--ink)", "var(--dim)", "var(--line)"
FONT = "system-ui, sans-serif"
#: Charts are drawn for a page of 400 pixels and grow with it.
WIDTH, HEIGHT = 440, 180
#: Width of a letter of an axis, about.
LETTER = 7
MAX_LEGEND_NAME, MAX_ON_TILE = 160, 60
#: Letters of a name in a legend of two columns.
MAX_IN_COLUMN = 20
SCHEMA = "https://vega.github.io/schema/vega/v5.json"
#: No text of an axis is cut or left out: to measure each again takes Vega's library milliseconds.
DRAWN = ("domain", "labels", "ticks")
AXIS = {"labelAngle": 0, "labelOverlap": False, "ticks": False}
CONFIG = {
    "axis": {
        "labelColor": DIM, "titleColor": DIM, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE,
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 0, "titleLimit": 0,
    },
    "legend": {"labelColor": INK, "labelFontSize": 12, "orient": "bottom", "columnPadding": 16},
    "style": {"guide-label": {"font": FONT}, "guide-title": {"font": FONT}},
}  # fmt: skip


def said(text: str, limit: int = MAX_LEGEND_NAME) -> str:
    """Return a text of a snapshot as a chart shows it."""
    return shown(text, limit, line=True)


#: Characters of the private area that Vega draws in the place of others, which are put back into its picture.
PRIVATE = range(0xE000, 0xF900)
_DRAWN: dict[str, str] = {}


def drawn(text: str) -> str:
    r"""Return a text for Vega, which would cut characters beyond 16 bits in two, and fail: each has a stand-in.

    >>> _in_page("<svg >" + drawn("a💥"))
    '<svg  focusable="false" aria-hidden="true">a💥'
    """
    return "".join(map(_stand_in, text)) if any(ord(one) >= PRIVATE.start for one in text) else text


def _stand_in(character: str) -> str:
    if ord(character) < 1 << 16 and ord(character) not in PRIVATE:
        return character
    if character not in _DRAWN and len(_DRAWN) < len(PRIVATE):
        _DRAWN[character] = chr(PRIVATE[len(_DRAWN)])
    return _DRAWN.get(character) or ascii(character)[1:-1]


def on_tile(text: str) -> str:
    """Return a text for a tile, which is cut to its width: to measure a long text takes Vega's library milliseconds."""
    return said(text, MAX_ON_TILE)


def needed() -> Any:
    """Return the library that draws, or raise OptionError if it is not installed."""
    try:
        import vl_convert
    except ImportError:
        raise OptionError(
            "a report needs packages that are not installed",
            expected="vl-convert-python and jinja2",
            remedy='pip install "pyspark-savepoint[report]"',
        ) from None
    return vl_convert


def bars(rows: Sequence[Row], x: str, y: str, *, series: Sequence[str] = (), mean: float | None = None) -> str:
    """Return a bar chart of rows with ``x`` (in order), ``y``, ``said``, of series ``series``, or alone ``marked``."""
    unit, rows, mean = _scaled(rows, y, mean)
    colour = {"scale": "colour", "field": "series"} if series else {"field": "colour"}
    marks: list[dict[str, Any]] = [
        {
            "type": "rect", "from": {"data": "rows"},
            "encode": {"enter": {
                "x": {"scale": "x", "field": "x"}, "width": {"scale": "x", "band": 1}, "fill": colour,
                "y": {"scale": "y", "field": "top"}, "y2": {"scale": "y", "field": "bottom"},
                "description": {"field": "said"},
            }},
        }
    ]  # fmt: skip
    if mean is not None:
        rule = {"x": {"value": 0}, "x2": {"signal": "width"}, "y": {"scale": "y", "value": mean}}
        rule |= {"stroke": {"value": INK}, "strokeDash": {"value": [4, 3]}}
        marks.append({"type": "rule", "aria": False, "encode": {"enter": rule}})
    scale = {"name": "x", "type": "band", "paddingInner": 0.1, "paddingOuter": 0.05}
    return _plot(rows, scale, (x, unit), series, marks)


def lines(rows: Sequence[Row], x: str, y: str, series: Sequence[str]) -> str:
    """Return a line chart of rows with ``x`` (in order), ``y``, ``series`` and ``said``."""
    unit, rows, _ = _scaled(rows, y, None, is_stacked=False)
    colour = {"scale": "colour", "field": "series"}
    place = {"x": {"scale": "x", "field": "x"}, "y": {"scale": "y", "field": "y"}}
    line = {**place, "stroke": colour, "strokeWidth": {"value": 2}}
    point = {**place, "fill": colour, "size": {"value": 36}, "description": {"field": "said"}}
    of_series = {"name": "line", "data": "rows", "groupby": "series"}
    marks: list[Mapping[str, Any]] = [
        {
            "type": "group", "from": {"facet": of_series},
            "marks": [{"type": "line", "aria": False, "from": {"data": "line"}, "encode": {"enter": line}}],
        },
        {"type": "symbol", "from": {"data": "rows"}, "encode": {"enter": point}},
    ]  # fmt: skip
    return _plot(rows, {"name": "x", "type": "point", "padding": 0.5}, (x, unit), series, marks)


def _scaled(
    rows: Sequence[Row], y: str, mean: float | None, is_stacked: bool = True
) -> tuple[str, list[dict[str, Any]], float | None]:
    """Return the unit of the axis, and the rows with their numbers in it: bytes are in the units that tables have."""
    totals: dict[str, float] = {}
    for row in rows:
        before = totals.get(row["x"], 0)
        totals[row["x"]] = before + row["y"] if is_stacked else max(before, row["y"])
    unit, size = 0, max([*totals.values(), mean or 0], default=0)
    while y == UNITS[0] and size >= 1024 and unit < len(UNITS) - 1:
        unit, size = unit + 1, size / 1024
    ratio = 1024**unit
    scaled = [{**row, "y": row["y"] / ratio} for row in rows]
    return y if y != UNITS[0] else UNITS[unit], scaled, None if mean is None else mean / ratio


def _plot(
    rows: Sequence[Row],
    scale: Mapping[str, Any],
    titles: tuple[str, str],
    series: Sequence[str],
    marks: Sequence[Mapping[str, Any]],
) -> str:
    """Return a chart with both axes and, of several series, a legend. ``scale`` is that of ``x``."""
    names = [drawn(name) for name in series]
    ranks = {name: rank for rank, name in enumerate(names)}
    values = []
    for row in rows:
        name = drawn(row.get("series", ""))
        colour = COLOURS[1 if row.get("marked") else 0]
        values.append({**row, "series": name, "rank": ranks.get(name, 0), "colour": colour})
    # The first series is on top.
    stack = {
        "type": "stack", "groupby": ["x"], "field": "y", "sort": {"field": "rank", "order": "descending"},
        "as": ["bottom", "top"],
    }  # fmt: skip
    is_whole = all(float(row["y"]).is_integer() for row in rows)
    numbers = {"scale": "y", "orient": "left", "tickCount": 4, **({"tickMinStep": 1} if is_whole else {})}
    colours = {
        "name": "colour",
        "type": "ordinal",
        "domain": names,
        "range": [_colour(rank) for rank in range(len(names))],
    }
    # Two columns of short names, or one of long ones, so that no name runs out of the chart.
    columns = 2 if max(map(len, names), default=0) <= MAX_IN_COLUMN else 1
    legend = {"fill": "colour", "symbolType": "square", "columns": columns, "labelLimit": 0, "direction": "horizontal"}
    heights = ["y"] if scale["type"] == "point" else ["bottom", "top"]
    spec = {
        "$schema": SCHEMA, "width": WIDTH - 60, "height": HEIGHT, "padding": 4, "background": None, "config": CONFIG,
        "autosize": {"type": "pad", "contains": "padding"},
        "data": [{"name": "rows", "values": values, "transform": [stack]}],
        "scales": [
            {**scale, "domain": {"data": "rows", "field": "x"}, "range": [0, {"signal": "width"}]},
            {
                "name": "y", "type": "linear", "domain": {"data": "rows", "fields": heights}, "nice": True,
                "range": [{"signal": "height"}, 0], "zero": True,
            },
            colours,
        ],
        "axes": [
            {**numbers, "gridScale": "x", "grid": True, "aria": False, **dict.fromkeys(DRAWN, False)},
            {"scale": "x", "orient": "bottom", "title": titles[0], "values": _axis_labels(rows), **AXIS},
            {**numbers, "title": titles[1], "format": "~s" if is_whole else "~r", "labelOverlap": False},
        ],
        "legends": [legend] if len(names) > 1 else [],
        "marks": list(marks),
    }  # fmt: skip
    return _in_page(needed().vega_to_svg(spec, allowed_base_urls=[]))


def _axis_labels(rows: Sequence[Row]) -> list[str]:
    """Return the ``x`` that the axis names, as many as there is room for: to measure each takes milliseconds."""
    names = list(dict.fromkeys(row["x"] for row in rows))
    most = max(1, (WIDTH - 60) // (LETTER * (2 + max(map(len, names), default=0))))
    return names[:: -(-len(names) // most) or 1]


def _colour(rank: int) -> str:
    return COLOURS[rank % len(COLOURS)]


def _labelled_tile(tile: Row) -> dict[str, Any]:
    """Return a tile with its name as it is drawn, and the width of one of its letters, by the widest eight of them."""
    name = drawn(tile.get("name", ""))
    widths = sorted((_width(letter) for letter in name), reverse=True)[:8]
    return {**tile, "name": name, "letter": sum(widths) / len(widths) if widths else LETTER}


def _width(letter: str) -> float:
    """Return about how many pixels of a bold name a letter takes."""
    if east_asian_width(letter) in "WF" or letter in "WMmw@%":
        return 13
    return 10 if letter.isupper() else 5 if letter in "fijlrt.,:;'|!()[] " else 8.5


def treemap(tiles: Sequence[Row], width: int, height: int) -> str:
    """Return a treemap.

    Tiles have ``id``, ``parent`` (None of the whole), ``size``, ``name``, ``said``, ``colour``, and ``amount``.
    """
    # Vega's own limit of a text measures it several times, which takes longer than all the rest.
    letters = "max(1, floor((datum.x1 - datum.x0 - 8) / datum.letter))"
    name = f"datum.x1 - datum.x0 > 44 && datum.y1 - datum.y0 > 18 ? truncate(datum.name, {letters}) : ''"
    amount = "datum.x1 - datum.x0 > 70 && datum.y1 - datum.y0 > 36 ? datum.amount : ''"
    rectangle = {"x": {"field": "x0"}, "x2": {"field": "x1"}, "y": {"field": "y0"}, "y2": {"field": "y1"}}
    text = {"text": {"signal": name}, "fill": {"value": INK}, "font": {"value": FONT}, "fontSize": {"value": 12}}
    spec = {
        "$schema": SCHEMA,
        "width": width, "height": height, "padding": 0, "background": None, "autosize": "none",
        "data": [
            {
                "name": "tree", "values": [_labelled_tile(tile) for tile in tiles],
                "transform": [
                    {"type": "stratify", "key": "id", "parentKey": "parent"},
                    {
                        "type": "treemap", "field": "size", "sort": {"field": "value", "order": "descending"},
                        "size": [width, height], "paddingTop": 20, "paddingInner": 2, "paddingOuter": 2, "round": True,
                    },
                ],
            },
            {"name": "operators", "source": "tree", "transform": [{"type": "filter", "expr": "datum.depth === 1"}]},
            {"name": "states", "source": "tree", "transform": [{"type": "filter", "expr": "datum.depth === 2"}]},
        ],
        "marks": [
            {
                "type": "rect", "from": {"data": "operators"},
                "encode": {"enter": {
                    **rectangle, "fill": {"field": "colour"}, "fillOpacity": {"value": 0.18},
                    "stroke": {"field": "colour"}, "description": {"field": "said"},
                }},
            },
            {
                "type": "rect", "from": {"data": "states"},
                "encode": {"enter": {
                    **rectangle, "fill": {"field": "colour"}, "fillOpacity": {"value": 0.35},
                    "description": {"field": "said"},
                }},
            },
            {
                "type": "text", "aria": False, "interactive": False, "from": {"data": "operators"},
                "encode": {"enter": {
                    **text, "fontWeight": {"value": "bold"},
                    "x": {"field": "x0", "offset": 4}, "y": {"field": "y0", "offset": 14},
                }},
            },
            {
                "type": "text", "aria": False, "interactive": False, "from": {"data": "states"},
                "encode": {"enter": {
                    **text,
                    "x": {"field": "x0", "offset": 4}, "y": {"field": "y0", "offset": 15},
                }},
            },
            {
                "type": "text", "aria": False, "interactive": False, "from": {"data": "states"},
                "encode": {"enter": {
                    **text, "text": {"signal": amount},
                    "x": {"field": "x0", "offset": 4}, "y": {"field": "y0", "offset": 31},
                }},
            },
        ],
    }  # fmt: skip
    # The whole has no title, but the room for one.
    svg = _in_page(needed().vega_to_svg(spec, allowed_base_urls=[]))
    return svg.replace(f'viewBox="0 0 {width} {height}"', f'viewBox="0 18 {width} {height - 18}"')


def _in_page(svg: str) -> str:
    """Return an SVG that scales with the page: it has a view box, and no size of its own."""
    head, mark, rest = svg.partition(">")
    head = re.sub(r'\s(?:width|height|class|version|xmlns(?::\w+)?)="[^"]*"', "", head)
    rest = rest.translate({ord(stand_in): character for character, stand_in in _DRAWN.items()})
    return f'{head} focusable="false" aria-hidden="true"{mark}{rest}'
