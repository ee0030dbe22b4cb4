"""The report as a page: one file without scripts and without anything from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.objects.field_errors import counted
from apfproxy.simulation.plots import Line, Plot, bars, escape, plot
from apfproxy.simulation.report_tables import summaries, tables

if TYPE_CHECKING:
    from apfproxy.simulation.report_tables import ReportTable

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --rule: #d5dbe3; --paper: #fff;
  --card: #f6f8fa; --seats: #2f6fde; --waiting: #c26a00; --rejected: #c9302c; --limit: #157a55;
  --good: #14744f; --bad: #b3261e; --mixed: #8a5200; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --soft: #9aa7b8; --rule: #364152;
  --paper: #12171f; --card: #1a212c; --seats: #6ea2ff; --waiting: #f0a544; --rejected: #ff7b76;
  --limit: #4fc794; --good: #4fc794; --bad: #ff8a85; --mixed: #f0a544; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 100rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; } p { margin: .3rem 0; }
.soft, figcaption, th { color: var(--soft); font-weight: normal; }
.verdict { list-style: none; margin: 0 0 1rem; padding: .7rem 1rem; background: var(--card);
  border-radius: 6px; font-size: 1.05rem; }
.verdict li { display: grid; grid-template-columns: 5rem 1fr; margin: .15rem 0; }
.verdict span { overflow-wrap: anywhere; } .verdict b { color: var(--soft); }
.verdict .wins b, .better { color: var(--good); } .verdict .loses b, .worse { color: var(--bad); }
.verdict .trades b, .verdict .waits b { color: var(--mixed); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; white-space: nowrap; }
td, th { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--rule);
  font-variant-numeric: tabular-nums; } td:first-child, th:first-child { text-align: left; }
td:first-child { min-width: 10rem; white-space: normal; overflow-wrap: anywhere; }
@media (max-width: 1000px) { table { white-space: normal; font-size: 13px; }
  td, th { padding: .2rem .3rem; } td:first-child { min-width: 7rem; } }
.pair { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); }
.pair.two { grid-template-columns: repeat(2, minmax(0, 1fr)); }
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
    """The page of a report, see `report`: it says what the text says, and draws it over time."""
    configurations = report["configurations"]
    letters = "AB" if len(configurations) > 1 else ("",)
    pair = "pair two" if len(configurations) > 1 else "pair"
    parts = [
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f'<meta http-equiv=Content-Security-Policy content="{POLICY}">',
        f"<title>apfproxy simulate</title>\n<style>{STYLE}</style>",
        "<h1>What flow control makes of these requests</h1>",
        "<ul class=verdict>",
    ]
    parts += [
        f"<li class={escape(each['side'])}><b>{escape(each['side'])}</b>"
        f" <span>{escape(each['text'])}</span>"
        for each in report["verdict"]
    ]
    parts.append(f"</ul><p class=soft>{escape(described(report['input']))}</p>")
    parts += [f"<p><b>Note:</b> {escape(warning)}</p>" for warning in report["warnings"]]
    for line, each in zip(summaries(report), configurations, strict=True):
        parts.append(f"<p><b>{escape(line)}</b></p>")
        parts += [f"<p class=soft>{escape(problem)}</p>" for problem in each["problems"]]
    for made in tables(report):
        parts.append(f"<h2>{escape(made.title)}</h2>{table(made)}")
    parts.append(
        "<h2>Over time</h2><p class=soft><span class='key seats'></span>seats in use"
        "<span class='key limit'></span>current limit<span class='key nominal'></span>nominal"
        " limit<span class='key waiting'></span>requests waiting"
        "<span class='key rejected'></span>rejected a second</p>"
    )
    names = busy_levels(configurations)
    drawn = [level_plots(configurations, letters, name) for name in names]
    if len(configurations) > 1:
        parts += [
            f"<h3>{escape(name)}</h3><div class='{pair}'>{plots}</div>"
            for name, plots in zip(names, drawn, strict=True)
        ]
    else:
        parts += [f"<div class='{pair}'>", *drawn, "</div>"]
    parts.append(f"<h2>Waits of clients</h2><div class='{pair}'>")
    most = max((row["waitP99"] for each in configurations for row in each["clients"]), default=0.0)
    for letter, each in zip(letters, configurations, strict=True):
        waits = [(row["client"], row["waitP99"]) for row in each["clients"]]
        parts.append(
            f"<figure><figcaption>{letter and letter + ': '}wait p99, seconds</figcaption>"
            f"{bars(waits, most)}</figure>"
        )
    return "\n".join([*parts, "</div>\n</html>\n"])


def table(made: ReportTable) -> str:
    """A table of the report."""
    heads = "".join(f"<th>{escape(each.replace(chr(10), ' '))}" for each in made.headings)
    body = []
    for name, cells in made.rows:
        drawn = "".join(f"<td class='{cell.tone}'>{escape(whole(cell.text))}" for cell in cells)
        body.append(f"<tr><td>{escape(name)}{drawn}")
    rest = ""
    if made.rest > 0:
        rest = f"<p class=soft>and {counted(made.rest, f'more {made.noun}')} (--top)</p>"
    return (
        f"<div class=scroll><table><thead><tr><th>{escape(made.noun)}{heads}</thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>{rest}"
    )


def whole(text: str) -> str:
    """A cell that may be broken between its two figures, but not between a number and its unit."""
    return " → ".join(part.replace(" ", "\u00a0") for part in text.split(" → "))


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
    """The plots of one level, of each configuration on the same scales and in its own column."""
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
    if found[0][0] == "B":
        made.append("<div></div>")
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
