"""Charts of the report as SVG: Vega's, drawn here and not by the browser.

Of the libraries that draw a treemap, bars and lines, Vega (through vl-convert) is the one whose drawing needs no script
in the page: SVG that a browser shows offline, prints, and scales, in which each mark has a label (ARIA), and whose
colours may be CSS variables, so that one drawing is right in light and in dark. Plotly's script has 4.5 MB, more than a
page may have; that of ECharts has 1 MB and must run before anything is seen; Vega-Lite in the page has 0.8 MB and
evaluates code, which the page's security policy forbids; uPlot draws no treemap, and on a canvas, which screen readers
cannot read; Matplotlib's SVG has fixed colours and no labels.

Texts are given as data, never as a part of an expression, and pass :func:`said` first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import east_asian_width

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.redaction import shown

Row = Mapping[str, Any]
#: Colours of series, which the page defines for light and dark.
COLOURS = tuple(f"var(--c{number})" for number in range(8))
INK, DIM, LINE = "var(--ink)", "var(--dim)", "var(--line)"
FONT = "system-ui, sans-serif"
#: Charts are drawn for a page of 400 pixels and grow with it.
WIDTH, HEIGHT = 440, 180
#: Width of a letter of an axis, about.
LETTER = 7
MAX_SAID, MAX_ON_TILE = 160, 60
#: Letters of a name in a legend of two columns.
MAX_IN_COLUMN = 20
#: An axis of numbers. No text of an axis is cut or left out: to measure each again takes Vega's library milliseconds.
NUMBERS = {"format": "~s", "tickCount": 4, "labelOverlap": False}
CONFIG = {
    "background": None,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": DIM, "titleColor": DIM, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE,
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 0, "titleLimit": 0,
    },
    "legend": {
        "labelColor": INK, "titleColor": DIM, "labelFontSize": 12, "orient": "bottom", "title": None,
        "columnPadding": 16,
    },
}  # fmt: skip


def said(text: str, limit: int = MAX_SAID) -> str:
    """Return a text of a snapshot as a chart shows it."""
    return shown(text, limit, line=True)


def drawn(text: str) -> str:
    r"""Return a text as it is drawn: Vega would cut characters beyond 16 bits in two, and fail.

    >>> drawn("a💥")
    'a\\U0001f4a5'
    """
    return "".join(character if ord(character) < 1 << 16 else ascii(character)[1:-1] for character in text)


def on_tile(text: str) -> str:
    """Return a text for a tile, which is cut to its width: to measure a long text takes Vega's library milliseconds."""
    return said(text, MAX_ON_TILE)


def needed() -> Any:
    """Return the library that draws; raise OptionError if it is not installed."""
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
    """Return a bar chart of rows with ``x`` (in order), ``y``, ``said`` and, if there are series, ``series``."""
    encoding: dict[str, Any] = {
        "x": {"field": "x", "type": "ordinal", "sort": None, "title": x, "axis": _axis(rows)},
        "y": {"field": "y", "type": "quantitative", "title": y, "axis": NUMBERS},
        "description": {"field": "said"},
        "color": {"value": COLOURS[0]},
    }  # fmt: skip
    if series:
        encoding["color"] = _of_series(series)
    layers: list[dict[str, Any]] = [{"mark": {"type": "bar", "aria": True}, "encoding": encoding}]
    if mean is not None:
        rule = {"type": "rule", "strokeDash": [4, 3], "stroke": INK, "aria": False}
        layers.append(
            {"data": {"values": [{"y": mean}]}, "mark": rule, "encoding": {"y": {"field": "y", "type": "quantitative"}}}
        )
    return _lite(rows, {"layer": layers})


def lines(rows: Sequence[Row], x: str, y: str, series: Sequence[str]) -> str:
    """Return a line chart of rows with ``x`` (in order), ``y``, ``series`` and ``said``."""
    encoding = {
        "x": {"field": "x", "type": "ordinal", "sort": None, "title": x, "axis": _axis(rows)},
        "y": {"field": "y", "type": "quantitative", "title": y, "axis": NUMBERS},
        "color": _of_series(series),
        "description": {"field": "said"},
    }  # fmt: skip
    marks: list[dict[str, Any]] = [
        {"mark": {"type": "line", "aria": False, "strokeWidth": 2}},
        {"mark": {"type": "point", "filled": True, "size": 36, "opacity": 1}},
    ]
    return _lite(rows, {"encoding": encoding, "layer": marks})


def _axis(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Return the axis of ``x``; it names as many as there is room for: Vega's library measures each in milliseconds."""
    names = list(dict.fromkeys(row["x"] for row in rows))
    most = max(1, (WIDTH - 60) // (LETTER * (2 + max(map(len, names), default=0))))
    shown = names[:: -(-len(names) // most) or 1]
    return {"labelAngle": 0, "labelOverlap": False, "ticks": False, "values": shown}


def _of_series(series: Sequence[str]) -> dict[str, Any]:
    series = [drawn(name) for name in series]
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(series))]
    # Two columns of short names, or one of long ones, so that no name runs out of the chart.
    legend = {"columns": 2 if max(map(len, series), default=0) <= MAX_IN_COLUMN else 1, "labelLimit": 0}
    return {"field": "series", "type": "nominal", "scale": {"domain": series, "range": colours}, "legend": legend}


def _lite(rows: Sequence[Row], spec: Mapping[str, Any]) -> str:
    whole = {
        "width": WIDTH - 60, "height": HEIGHT, "padding": 4, "config": CONFIG, **spec,
        "data": {"values": [{**row, "series": drawn(row.get("series", ""))} for row in rows]},
        "autosize": {"type": "pad", "contains": "padding"},
    }  # fmt: skip
    return _in_page(needed().vegalite_to_svg(whole, allowed_base_urls=[]))


def _named(tile: Row) -> dict[str, Any]:
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
    """Return a treemap: tiles have ``id``, ``parent`` (None of the whole), ``size``, ``name``, ``said``, ``colour``."""
    # Vega's own limit of a text measures it several times, which takes longer than all the rest.
    letters = "max(1, floor((datum.x1 - datum.x0 - 8) / datum.letter))"
    name = f"datum.x1 - datum.x0 > 44 && datum.y1 - datum.y0 > 18 ? truncate(datum.name, {letters}) : ''"
    rectangle = {"x": {"field": "x0"}, "x2": {"field": "x1"}, "y": {"field": "y0"}, "y2": {"field": "y1"}}
    text = {"text": {"signal": name}, "fill": {"value": INK}, "font": {"value": FONT}, "fontSize": {"value": 12}}
    spec = {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "width": width, "height": height, "padding": 0, "background": None, "autosize": "none",
        "data": [
            {
                "name": "tree", "values": [_named(tile) for tile in tiles],
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
        ],
    }  # fmt: skip
    # The whole has no title, but the room for one.
    svg = _in_page(needed().vega_to_svg(spec, allowed_base_urls=[]))
    return svg.replace(f'viewBox="0 0 {width} {height}"', f'viewBox="0 18 {width} {height - 18}"')


def _in_page(svg: str) -> str:
    """Return an SVG that scales with the page: it has a view box, and no size of its own."""
    head, mark, rest = svg.partition(">")
    head = re.sub(r'\s(?:width|height|class|version|xmlns(?::\w+)?)="[^"]*"', "", head)
    return f'{head} focusable="false" aria-hidden="true"{mark}{rest}'
