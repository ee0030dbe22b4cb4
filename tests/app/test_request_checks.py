"""Settings of requests: what makes sense for an API, and what is probably meant otherwise."""

from __future__ import annotations

import pytest

from apfproxy.app.settings_checks import check_api, warnings
from apfproxy.base.errors import OperatorError
from apfproxy.settings import (
    HTTP_API,
    KUBERNETES_API,
    LongRunningSettings,
    RequestSettings,
    Settings,
    UpgradeSettings,
    UpstreamSettings,
)


def settings(preset: str, named: LongRunningSettings) -> Settings:
    """Settings that name what is long-running."""
    return Settings(preset=preset, request=RequestSettings(long_running=named))


@pytest.mark.parametrize(
    ("preset", "named", "problem"),
    [
        pytest.param(
            HTTP_API,
            LongRunningSettings(subresources=("exec",)),
            "request.longRunning.subresources: with the preset http no path has a subresource;"
            " name paths in pathPrefixes",
            id="no-subresources",
        ),
        pytest.param(
            KUBERNETES_API,
            LongRunningSettings(verbs=("proxy",)),
            "request.longRunning.verbs: needs watch, which lasts whatever is said here",
            id="watch",
        ),
    ],
)
def test_problems(preset: str, named: LongRunningSettings, problem: str) -> None:
    """What cannot be is refused."""
    with pytest.raises(OperatorError) as caught:
        check_api(settings(preset, named))

    assert problem == str(caught.value)


@pytest.mark.parametrize(
    ("prefixes", "problem"),
    [
        pytest.param(
            ("/api/{version}",),
            "request.pathPrefixes: /api/{version} is never found, since what is below /api and"
            " /apis is an API by itself",
            id="an-api-by-itself",
        ),
        pytest.param(
            ("/a/{b}", "/c", "/a/{d}"),
            "request.pathPrefixes: /a/{b} and /a/{d} are the same; remove one of them",
            id="the-same",
        ),
    ],
)
def test_prefixes(prefixes: tuple[str, ...], problem: str) -> None:
    """Patterns that are of no use are refused; of another API any path may be variable."""
    request = RequestSettings(path_prefixes=prefixes)
    with pytest.raises(OperatorError) as caught:
        check_api(Settings(request=request))

    assert problem == str(caught.value)
    check_api(Settings(preset=HTTP_API, request=RequestSettings(path_prefixes=("/api/{v}",))))


@pytest.mark.parametrize(
    ("preset", "named"),
    [
        pytest.param(HTTP_API, LongRunningSettings(), id="http"),
        pytest.param(HTTP_API, LongRunningSettings(subresources=()), id="http-without"),
        pytest.param(HTTP_API, LongRunningSettings(verbs=("report",)), id="methods"),
        pytest.param(KUBERNETES_API, LongRunningSettings(), id="kubernetes"),
        pytest.param(
            KUBERNETES_API,
            LongRunningSettings(
                verbs=("watch", "proxy", "foo"),
                subresources=("attach", "exec", "log", "portforward", "proxy", "vnc"),
                path_prefixes=("/debug/pprof/", "/a"),
            ),
            id="others",
        ),
    ],
)
def test_sense(preset: str, named: LongRunningSettings) -> None:
    """Anything else goes, and is not warned of."""
    found = settings(preset, named)
    check_api(found)

    assert warnings(Settings(preset=preset)) == warnings(found)


@pytest.mark.parametrize(
    ("preset", "verb", "warning"),
    [
        pytest.param(
            KUBERNETES_API,
            "list",
            "has list: all such requests take no seats, so that nothing limits them; name"
            " subresources or paths instead",
            id="list",
        ),
        pytest.param(
            HTTP_API,
            "get",
            "has get: all such requests take no seats, so that nothing limits them; name"
            " subresources or paths instead",
            id="get",
        ),
        pytest.param(KUBERNETES_API, "proxi", "has proxi: did you mean proxy?", id="misspelt"),
    ],
)
def test_warnings(preset: str, verb: str, warning: str) -> None:
    """What would let nearly everything pass, or nothing, is named."""
    found = warnings(settings(preset, LongRunningSettings(verbs=("watch", verb))))

    assert f"request.longRunning.verbs {warning}" in found


def test_what_is_left_out() -> None:
    """A list stands for itself alone."""
    named = LongRunningSettings(verbs=("watch",), subresources=("exec", "vnc"), path_prefixes=())
    ends = (
        "which kube-apiserver takes for long-running: here it takes seats, and its time is limited"
    )

    assert [
        f"request.longRunning.verbs leaves out proxy, {ends}",
        f"request.longRunning.subresources leaves out attach, log, portforward, proxy, {ends}",
        f"request.longRunning.pathPrefixes leaves out /debug/pprof/, {ends}",
    ] == [each for each in warnings(settings(KUBERNETES_API, named)) if "leaves out" in each]
    assert not any("leaves out" in each for each in warnings(settings(HTTP_API, named)))


def test_upgrades() -> None:
    """Nothing is both; and what is needless is named."""
    both = UpstreamSettings(upgrades=UpgradeSettings(allow=("/a", "/b/*"), deny=("/b/*",)))
    with pytest.raises(OperatorError, match=r"upstream.upgrades: /b/\* is in allow and in deny"):
        check_api(Settings(upstream=both))
    needless = UpstreamSettings(upgrades=UpgradeSettings(allow=("/a",)))

    assert (
        "upstream.upgrades.allow: with the preset http WebSockets are served on any path; name"
        " exceptions in deny"
    ) in warnings(Settings(preset=HTTP_API, upstream=needless))
    assert not any("upgrades" in each for each in warnings(Settings(upstream=needless)))
