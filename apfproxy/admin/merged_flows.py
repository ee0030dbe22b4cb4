"""The top flows of several workers as one list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.admin.top_flows import MEASURES, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Flow = Mapping[str, Any]


def merged_flows(
    lists: Iterable[Iterable[Flow]], most: int, by: Sequence[str] = MEASURES
) -> list[dict[str, Any]]:
    """The flows with most by any of some measures, in the order of the first one.

    A flow's numbers are sums over the workers that know it, and so are never below the truth by
    more than what the others may have of a flow that is too small for their lists.
    """
    sums: dict[tuple[str, ...], dict[str, Any]] = {}
    for flows in lists:
        for flow in flows:
            known = sums.setdefault(tuple(flow[name] for name in NAMES), {})
            for name, value in flow.items():
                known[name] = known.get(name, 0.0) + value if name in MEASURES else value
    order: dict[tuple[str, ...], None] = {}
    for measure in by:
        counted = [key for key, flow in sums.items() if flow[measure]]
        counted.sort(key=lambda key: -sums[key][measure])
        order.update(dict.fromkeys(counted[:most]))
    return [sums[key] for key in order]


def merged_top_flows(pages: Sequence[Mapping[str, Any]], most: int, by: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    """The page of all workers as JSON has it; there is at least one."""
    first = pages[0]
    return {
        "halfLifeSeconds": first["halfLifeSeconds"],
        "capacity": first["capacity"],
        "measures": {
            measure: {
                what: sum(page["measures"][measure][what] for page in pages)
                for what in ("total", "maxOverestimate")
            }
            for measure in MEASURES
        },
        "flows": merged_flows((page["flows"] for page in pages), most, by),
    }
