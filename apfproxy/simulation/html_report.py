"""The report as a page: one file without scripts and without anything from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from apfproxy.simulation.plots import Line, Plot, bars, plot
from apfproxy.simulation.report import BOTH, changed_name

if TYPE_CHECKING:
    from collections.abc import Callable

    Row = dict[str, Any]
    Columns = tuple[tuple[str, Callable[[Row], str]], ...]

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --rule: #d5dbe3; --paper: #fff;
  --card: #f6f8fa; --seats: #2f6fde; --waiting: #c26a00; --rejected: #c9302c; --limit: #157a55; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --soft: #9aa7b8; --rule: #364152;
  --paper: #12171f; --card: #1a212c; --seats: #6ea2ff; --waiting: #f0a544; --rejected: #ff7b76;
  --limit: #4fc794; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 80rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; } p { margin: .3rem 0; }
.soft, figcaption, th { color: var(--soft); font-weight: normal; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; white-space: nowrap; }
td, th { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--rule);
  font-variant-numeric: tabular-nums; } td:first-child, th:first-child { text-align: left; }
td:first-child { min-width: 10rem; max-width: 22rem; white-space: normal; overflow-wrap: anywhere; }
tr.second td { color: var(--soft); } tr.change td { font-weight: 600; }
.pair { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); }
figure { margin: 0; padding: .7rem; background: var(--card); border-radius: 6px; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
.axis { stroke: var(--rule); } .line { fill: none; stroke-width: 1.5; } .area { opacity: .22; }
.seats { stroke: var(--seats); fill: var(--seats); } .line.seats { fill: none; }
.waiting { stroke: var(--waiting); fill: var(--waiting); } .line.waiting { fill: none; }
.rejected { stroke: var(--rejected); fill: var(--rejected); } .line.rejected { fill: none; }
.limit { stroke: var(--limit); } .nominal { stroke: var(--soft); stroke-dasharray: 4 4; }
.area { stroke: none; }
.key { display: inline-block; width: 1em; height: .7em; margin: 0 .4em 0 1.2em;
  border-bottom: 2px solid; }
.key.seats { border-color: var(--seats); } .key.limit { border-color: var(--limit); }
.key.waiting { border-color: var(--waiting); } .key.rejected { border-color: var(--rejected); }
.key.nominal { border-color: var(--soft); border-bottom-style: dashed; }
"""


POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Whatever the names in a log contain, nothing runs and nothing is fetched."""


def html_report(report: dict[str, Any]) -> str:
    """The page of a report, see `report`."""
    configurations = report["configurations"]
    changes = report.get("difference")
    letters = "AB" if len(configurations) > 1 else ("",)
    parts = [
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f'<meta http-equiv=Content-Security-Policy content="{POLICY}">',
        f"<title>apfproxy simulate</title>\n<style>{STYLE}</style>",
        "<h1>What flow control makes of these requests</h1>",
        f"<p class=soft>{escape(described(report['input']))}</p>",
    ]

    def add_table(title: str, group: str, keys: tuple[str, ...], columns: Columns) -> None:
        rows = rows_of(configurations, changes, group, keys, letters)
        parts.append(table(title, rows, columns))

    parts += [f"<p><b>Note:</b> {escape(warning)}</p>" for warning in report["warnings"]]
    for letter, each in zip(letters, configurations, strict=True):
        total = each["total"]
        parts.append(
            f"<p><b>{letter and letter + ': '}{escape(each['name'])}</b>:"
            f" {total['requests']:,} requests in {span(each)},"
            f" {total['executed']:,} executed, {total['queued']:,} of them queued,"
            f" {total['rejectedTotal']:,} rejected{exceptions(total)}</p>"
        )
        parts += [f"<p class=soft>{escape(problem)}</p>" for problem in each["problems"]]
    levels = busy_levels(configurations)
    parts.append("<h2>Priority levels</h2>")
    add_table("priority level", "levels", ("priorityLevel",), LEVEL_COLUMNS)
    parts.append(
        "<h2>Over time</h2><p class=soft><span class='key seats'></span>seats in use"
        "<span class='key limit'></span>current limit<span class='key nominal'></span>nominal"
        " limit<span class='key waiting'></span>requests waiting"
        "<span class='key rejected'></span>rejected a second</p>"
    )
    for name in levels:
        parts.append(f"<h3>{escape(name)}</h3><div class=pair>")
        parts.append(level_plots(configurations, letters, name))
        parts.append("</div>")
    parts.append("<h2>Waits of clients</h2><div class=pair>")
    for letter, each in zip(letters, configurations, strict=True):
        parts.append(
            f"<figure><figcaption>{letter} wait p99, seconds</figcaption>"
            + bars([(row["client"], row["waitP99"]) for row in each["clients"]])
            + "</figure>"
        )
    parts.append("</div><h2>Flows</h2>")
    add_table("flow", "flows", ("priorityLevel", "flowSchema", "flow"), TALLY_COLUMNS)
    parts.append("<h2>Clients</h2>")
    add_table("client", "clients", ("client",), TALLY_COLUMNS)
    return "\n".join(parts) + "\n</html>\n"


def span(configuration: dict[str, Any]) -> str:
    """How long a configuration was looked at, in words."""
    warm_up_s = configuration["warmUpSeconds"]
    after = f" after a warm-up of {warm_up_s:g} s" if warm_up_s else ""
    return f"{configuration['seconds']:.1f} s{after}"


def exceptions(total: Row) -> str:
    """Of all requests, those whose time ended first, and those that take no seats, if any."""
    cut_off, without_seats = total["cutOff"], total["withoutSeats"]
    return (f", {cut_off:,} cut off when their time was over" if cut_off else "") + (
        f", {without_seats:,} long-running ones without seats" if without_seats else ""
    )


def described(source: dict[str, Any]) -> str:
    """What was replayed, in words."""
    if "mix" in source:
        return f"The mix {source['mix']}."
    return (
        f"The log {source['log']}: {source['requests']:,} requests,"
        f" {source['brokenLines']:,} of its lines left out as broken,"
        f" {source['guessedServiceTimes']:,} of the service times guessed."
    )


def busy_levels(configurations: list[dict[str, Any]]) -> list[str]:
    """The levels that had requests in any configuration, in their order."""
    return list(
        dict.fromkeys(
            row["priorityLevel"]
            for each in configurations
            for row in each["levels"]
            if row["requests"]
        )
    )


def level_plots(
    configurations: list[dict[str, Any]], letters: tuple[str, ...] | str, name: str
) -> str:
    """The plots of one level, of each configuration on the same scales."""
    made = []
    found = [
        (letter, each["series"], each["series"]["levels"][name], row)
        for letter, each in zip(letters, configurations, strict=True)
        if (row := next((r for r in each["levels"] if r["priorityLevel"] == name), None))
    ]
    most_s = max(series["binSeconds"] * len(own["seats"]) for _, series, own, _ in found)
    most_seats = max(
        max([*own["seats"], *([] if row["isExempt"] else own["limit"]), row["nominalLimit"], 1])
        for _, _, own, row in found
    )
    most_waiting = max(max(own["waiting"], default=0) for _, _, own, _ in found)
    most_rejected = max(
        max([each / series["binSeconds"] for each in own["rejected"]], default=0)
        for _, series, own, _ in found
    )
    for letter, series, own, row in found:
        bin_s = series["binSeconds"]
        lines = [
            Line("nominal", [row["nominalLimit"]] * len(own["seats"])),
            Line("seats", own["seats"], is_area=True),
        ]
        if not row["isExempt"]:
            lines.insert(1, Line("limit", own["limit"]))
        figure = plot(Plot(f"{name}: seats in use", lines, bin_s, most_s, most_seats))
        per_second = [each / bin_s for each in own["rejected"]]
        for kind, title, values, most in (
            ("waiting", "requests waiting", own["waiting"], most_waiting),
            ("rejected", "rejected a second", per_second, most_rejected),
        ):
            if most:
                lines = [Line(kind, values, is_area=True)]
                figure += plot(Plot(f"{name}: {title}", lines, bin_s, most_s, most, height=90))
        caption = f"{letter}: " if letter else ""
        made.append(f"<figure><figcaption>{caption}{escape(name)}</figcaption>{figure}</figure>")
    return "".join(made)


def rows_of(
    configurations: list[dict[str, Any]],
    changes: dict[str, Any] | None,
    group: str,
    keys: tuple[str, ...],
    letters: tuple[str, ...] | str,
) -> list[tuple[str, str, Row]]:
    """Name, kind and numbers of each row: of one thing in A, in B, and the difference."""
    found: dict[tuple[str, ...], list[tuple[str, str, Row]]] = {}
    for letter, each in zip(letters, configurations, strict=True):
        for row in each[group]:
            if row["requests"]:
                key = tuple(row[name] for name in keys)
                label = " / ".join(part for part in key if part)
                kind = "second" if letter == "B" else ""
                found.setdefault(key, []).append((f"{letter} {label}".strip(), kind, row))
    for row in (changes or {}).get(group, ()):
        key = tuple(row[name] for name in keys)
        if key in found:
            found[key].append((changed_name("B less A", row), "change", row))
        elif row["presence"] != BOTH:  # it had no requests, and somebody may wonder why
            label = " / ".join(part for part in key if part)
            found[key] = [(changed_name(f"B less A {label}", row), "change", row)]
    return [row for rows in found.values() for row in rows]


def table(title: str, rows: list[tuple[str, str, Row]], columns: Columns) -> str:
    """A table; a row that lacks a column's field has nothing there."""
    heads = "".join(f"<th>{escape(heading)}" for heading, _ in columns)
    body = []
    for name, kind, row in rows:
        cells = "".join(f"<td>{escape(cell(row))}" for _, cell in columns)
        body.append(f"<tr class='{kind}'><td>{escape(name)}{cells}")
    return (
        f"<div class=scroll><table><thead><tr><th>{escape(title)}{heads}</thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def number(field: str, digits: int = 0) -> Callable[[Row], str]:
    """A field as a number."""
    return lambda row: f"{row[field]:,.{digits}f}" if field in row else ""


def milliseconds(field: str) -> Callable[[Row], str]:
    """A field in seconds as milliseconds."""
    return lambda row: f"{row[field] * 1e3:,.1f}" if field in row else ""


def reasons(row: Row) -> str:
    """Rejections by reason."""
    if "rejected" not in row:
        return f"{row['rejectedTotal']:,}"
    return ", ".join(f"{count:,} {why}" for why, count in row["rejected"].items()) or "0"


TALLY_COLUMNS: Columns = (
    ("executed", number("executed")),
    ("queued", number("queued")),
    ("rejected", reasons),
    ("cut off", number("cutOff")),
    ("wait mean, ms", milliseconds("waitMean")),
    ("p50", milliseconds("waitP50")),
    ("p90", milliseconds("waitP90")),
    ("p99", milliseconds("waitP99")),
    ("seat-seconds", number("seatSeconds", 1)),
)
LEVEL_COLUMNS: Columns = (
    ("nominal", number("nominalLimit")),
    ("highest limit", number("highestLimit")),
    *TALLY_COLUMNS,
    ("seats mean", number("seatsMean", 1)),
    ("max", number("seatsMax")),
    ("borrowed mean", number("borrowedMean", 1)),
    ("max", number("borrowedMax")),
)
