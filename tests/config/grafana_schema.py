"""Grafana's schema of the parts that our dashboard uses, and how a value is held to it.

Grafana publishes a schema of dashboards and of each panel's options.  The facts here are those of
the fields and values that may be in a dashboard like ours; any other field is a mistake.

Source: grafana/grafana-foundation-sdk at f178d5a, jsonschema/dashboard.jsonschema.json and those of
stat, timeseries and prometheus; grafana/grafana, kinds/dashboard/dashboard_kind.cue, for what the
former says more narrowly than Grafana is, the values of overrides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER = (int, float)


@dataclass(frozen=True)
class Each:
    """An array, or an object of any names, whose values have a shape."""

    shape: Any


@dataclass(frozen=True)
class Fields:
    """An object: its fields by name, and which of them must be there."""

    shapes: dict[str, Any]
    required: tuple[str, ...] = ()


ANYTHING = object
SOURCE = Fields({"type": str, "uid": str})
GRID = Fields({"h": int, "w": range(1, 25), "x": range(24), "y": int}, ("h", "w", "x", "y"))

TARGET = Fields(
    {
        "datasource": SOURCE,
        "expr": str,
        "legendFormat": str,
        "refId": str,
        "instant": bool,
        "range": bool,
        "exemplar": bool,
        "hide": bool,
        "interval": str,
        "format": {"time_series", "table", "heatmap"},
        "editorMode": {"code", "builder"},
    },
    ("expr",),
)

COLOR = Fields(
    {
        "mode": {"thresholds", "palette-classic", "palette-classic-by-name", "fixed", "shades"},
        "fixedColor": str,
        "seriesBy": {"min", "max", "last"},
    },
    ("mode",),
)
MAPPED = Fields({"text": str, "color": str, "icon": str, "index": int})
FIELD = {
    "unit": str,
    "min": NUMBER,
    "max": NUMBER,
    "decimals": NUMBER,
    "noValue": str,
    "color": COLOR,
    "thresholds": Fields(
        {
            "mode": {"absolute", "percentage"},
            "steps": Each(
                Fields({"value": (*NUMBER, type(None)), "color": str}, ("value", "color"))
            ),
        },
        ("mode", "steps"),
    ),
    "mappings": Each(Fields({"type": {"value"}, "options": Each(MAPPED)}, ("type", "options"))),
}
SERIES_FIELD = Fields(
    {
        "drawStyle": {"line", "bars", "points"},
        "lineInterpolation": {"linear", "smooth", "stepBefore", "stepAfter"},
        "lineWidth": NUMBER,
        "fillOpacity": NUMBER,
        "showPoints": {"auto", "never", "always"},
        "stacking": Fields({"mode": {"none", "normal", "percent"}, "group": str}),
    }
)
OVERRIDES = Each(
    Fields(
        {
            "matcher": Fields({"id": str, "options": ANYTHING}, ("id",)),
            "properties": Each(Fields({"id": str, "value": ANYTHING}, ("id",))),
        },
        ("matcher", "properties"),
    )
)

OPTIONS = {
    "stat": Fields(
        {
            "graphMode": {"none", "line", "area"},
            "colorMode": {"value", "background", "background_solid", "none"},
            "justifyMode": {"auto", "center"},
            "textMode": {"auto", "value", "value_and_name", "name", "none"},
            "percentChangeColorMode": {"standard", "inverted", "same_as_value"},
            "orientation": {"auto", "vertical", "horizontal"},
            "wideLayout": bool,
            "showPercentChange": bool,
            "reduceOptions": Fields(
                {"calcs": Each(str), "fields": str, "values": bool, "limit": NUMBER}, ("calcs",)
            ),
        },
        (
            *("graphMode", "colorMode", "justifyMode", "textMode", "percentChangeColorMode"),
            *("orientation", "wideLayout", "showPercentChange", "reduceOptions"),
        ),
    ),
    "timeseries": Fields(
        {
            "legend": Fields(
                {
                    "displayMode": {"list", "table", "hidden"},
                    "placement": {"bottom", "right"},
                    "showLegend": bool,
                    "calcs": Each(str),
                },
                ("displayMode", "placement", "showLegend", "calcs"),
            ),
            "tooltip": Fields(
                {"mode": {"single", "multi", "none"}, "sort": {"asc", "desc", "none"}},
                ("mode", "sort"),
            ),
        },
        ("legend", "tooltip"),
    ),
}
CUSTOM = {"stat": Fields({}), "timeseries": SERIES_FIELD}

ROW = Fields(
    {
        "type": {"row"},
        "id": int,
        "title": str,
        "gridPos": GRID,
        "collapsed": bool,
        "panels": Each(ANYTHING),
        "repeat": str,
        "datasource": SOURCE,
    },
    ("type", "collapsed", "id", "panels"),
)


def panel(kind: str) -> Fields:
    """A panel of a type."""
    return Fields(
        {
            "type": {kind},
            "id": int,
            "title": str,
            "description": str,
            "gridPos": GRID,
            "datasource": SOURCE,
            "targets": Each(TARGET),
            "options": OPTIONS[kind],
            "repeat": str,
            "repeatDirection": {"h", "v"},
            "maxPerRow": NUMBER,
            "fieldConfig": Fields(
                {"defaults": Fields({**FIELD, "custom": CUSTOM[kind]}), "overrides": OVERRIDES},
                ("defaults", "overrides"),
            ),
        },
        ("type",),
    )


VARIABLE = Fields(
    {
        "name": str,
        "label": str,
        "query": str,
        "definition": str,
        "datasource": SOURCE,
        "multi": bool,
        "includeAll": bool,
        "regex": str,
        "allValue": str,
        "type": {"query", "adhoc", "constant", "datasource", "interval", "textbox", "custom"},
        "hide": range(4),
        "refresh": range(3),
        "sort": range(9),
    },
    ("type", "name"),
)
ANNOTATION = Fields(
    {
        "name": str,
        "datasource": SOURCE,
        "enable": bool,
        "hide": bool,
        "iconColor": str,
        "expr": str,
        "titleFormat": str,
        "textFormat": str,
        "tagKeys": str,
        "step": str,
    },
    ("name", "enable", "iconColor"),
)
DASHBOARD = Fields(
    {
        "title": str,
        "uid": str,
        "description": str,
        "tags": Each(str),
        "timezone": str,
        "editable": bool,
        "refresh": str,
        "schemaVersion": int,
        "version": int,
        "graphTooltip": range(3),
        "time": Fields({"from": str, "to": str}, ("from", "to")),
        "links": Each(ANYTHING),
        "panels": Each(ANYTHING),
        "templating": Fields({"list": Each(VARIABLE)}),
        "annotations": Fields({"list": Each(ANNOTATION)}),
    },
    ("schemaVersion", "templating", "annotations"),
)


def dashboard_mistakes(dashboard: dict[str, Any]) -> list[str]:
    found = list(mistakes(dashboard, DASHBOARD, "dashboard"))
    for each in dashboard["panels"]:
        kind = each.get("type")
        where = f"panel {each.get('id')}"
        if kind != "row" and kind not in OPTIONS:
            found.append(f"{where}: no panel of ours is of the type {kind!r}")
        else:
            found += mistakes(each, ROW if kind == "row" else panel(kind), where)
    return found


def mistakes(value: Any, shape: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Where a value is not of a shape."""
    if isinstance(shape, Fields):
        if not isinstance(value, dict):
            yield f"{where}: no object"
            return
        for name in shape.required:
            if name not in value:
                yield f"{where}.{name}: missing"
        for name, each in value.items():
            if name not in shape.shapes:
                yield f"{where}.{name}: unknown"
            else:
                yield from mistakes(each, shape.shapes[name], f"{where}.{name}")
    elif isinstance(shape, Each):
        if not isinstance(value, dict | list):
            yield f"{where}: neither array nor object"
            return
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for index, each in pairs:
            yield from mistakes(each, shape.shape, f"{where}[{index}]")
    elif isinstance(shape, set | range):
        if value not in shape or isinstance(value, bool):
            yield f"{where}: {value!r} is none of {shape}"
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape not in (bool, object)):
        yield f"{where}: {value!r} has another type"
