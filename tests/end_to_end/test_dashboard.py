"""Every panel of the dashboard shows something of real proxies that a real Prometheus scrapes."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from typing import TYPE_CHECKING

from tests.config.expressions import CONFIG
from tests.end_to_end.programs import free_port
from tests.end_to_end.prometheus import LOOK_EVERY_S, prometheus
from tests.end_to_end.scene import NARROW
from tests.end_to_end.served import WITHIN_S, ask
from tests.end_to_end.test_alerts import IN_A_YEAR, Stage, redis
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

COUNTING = NARROW.replace(
    "{name: narrow,", '{name: narrow, annotations: {"apfproxy.io/cost": tokens},', 1
)
COMPLETE = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
VALUES = {"job": "apfproxy", "__rate_interval": "1m"}
"""For the dashboard's variables; of all others every value is chosen, as Grafana does by itself."""
ABOVE_ZERO = re.compile(r" > 0(\)?)$")
"""Hides what does not happen, at the end of an expression."""


def expressions() -> dict[str, str]:
    dashboard = json.loads((CONFIG / "grafana" / "apfproxy.json").read_text())
    shown = [
        (target["expr"], panel["title"])
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]
    shown += [(each["expr"], each["name"]) for each in dashboard["annotations"]["list"]]
    return {
        ABOVE_ZERO.sub(
            r"\1", re.sub(r"\$\{?(\w+)\}?", lambda name: VALUES.get(name[1], ".*"), expression)
        ): title
        for expression, title in shown
    }


def test_panels(tmp_path: Path) -> None:
    """Each query has a result, as series keep their own labels beside those of the operator."""
    (tmp_path / "token").write_text("own")
    (tmp_path / "prometheus").mkdir()
    admins = [free_port() for _ in range(3)]
    with contextlib.ExitStack() as stack:
        scraping = stack.enter_context(prometheus(tmp_path / "prometheus", admins))
        stage = Stage(tmp_path, stack, admins[0])
        stage.serve(
            stage.behind(),
            admin=admins[1],
            downstream={"tls": stage.tls(Authority("a"), IN_A_YEAR)},
            flowControl={"serverConcurrencyLimit": "auto"},
        )
        objects = [stage.objects("a.yaml", COUNTING)]
        _, chat = stage.serve(
            stage.behind(),
            admin=admins[2],
            preset="http",
            flowControl={"objects": objects},
        )
        stage.hold(chat, 1, COMPLETE)
        store, _ = stack.enter_context(redis(tmp_path))
        urls = [stage.behind(), stage.behind()]
        _, port = stage.serve(
            {
                "endpoints": [{"url": each} for each in urls],
                "tokenFile": "token",
            },
            authentication={"tokenReview": {"enabled": True}},
            flowControl={
                "serverConcurrencyLimit": 2,
                "objects": objects,
            },
            fleet={"store": store},
            accessLog={"path": "access.log"},
            tracing={"endpoint": "http://127.0.0.1:9", "samplingRatePerMillion": 1000000},
        )
        assert [ask(port, path)[0] for path in ("/", "/broken", "/bad")] == [200, 502, 500]
        stage.hold(port, 10)
        stage.until(r"apiserver_flowcontrol_rejected_requests_total\{.* [1-9]")
        empty = expressions()
        end = time.monotonic() + WITHIN_S  # a rate is of two scrapes, and a busy machine loses some
        while empty := {k: v for k, v in empty.items() if not scraping.query(k)}:
            assert time.monotonic() < end, empty
            threading.Event().wait(LOOK_EVERY_S)
        endpoints = scraping.query("last_over_time(apfproxy_endpoint_up[1m])")

    assert set(urls) == {each["metric"]["endpoint"] for each in endpoints}
