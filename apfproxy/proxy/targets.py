"""What a request's target says, with the time-outs in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.preset import KUBERNETES, PRESETS, Preset
from apfproxy.http.head_error import HeadError
from apfproxy.http.upgrade import NO_RULES, UpgradeRules, honoured
from apfproxy.proxy.request import Request
from apfproxy.request.attributes import AttributesError, RequestAttributes
from apfproxy.request.deadline import DeadlineError, request_timeout_ns

if TYPE_CHECKING:
    from apfproxy.flowcontrol.passage import FlowControl
    from apfproxy.http.request_head import RequestHead
    from apfproxy.settings import Settings


class Targets:
    """Makes requests of heads."""

    def __init__(self, flow_control: FlowControl, settings: Settings) -> None:
        self._flow_control = flow_control
        self._default_timeout_ns = round(settings.downstream.request_timeout_s * 1e9)
        self._answer_timeout_ns = round(settings.upstream.answer_timeout_s * 1e9)
        self._preset = preset_of(settings)
        self._upgrades = upgrade_rules_of(settings)

    def enforce(self, flow_control: FlowControl) -> None:
        """Make requests for another flow control from now on."""
        self._flow_control = flow_control

    def configure(self, settings: Settings) -> None:
        """Put time-outs and the preset in force, for requests that are made from now on."""
        self._preset = preset_of(settings)
        self._upgrades = upgrade_rules_of(settings)
        self._default_timeout_ns = round(settings.downstream.request_timeout_s * 1e9)
        self._answer_timeout_ns = round(settings.upstream.answer_timeout_s * 1e9)

    def request_of(self, head: RequestHead) -> Request:
        """The request that a head makes.

        Nothing is kept by targets: to find one of many thousands again costs as much as reading it,
        since neither the table nor what it has is in the caches of the CPU.

        Raises:
            HeadError: As of `read_target` and `with_upgrade`.
        """
        attributes, timeout_ns = read_target(head, self._preset, self._default_timeout_ns)
        if head.upgrade is not None:
            head = with_upgrade(head, attributes, self._upgrades)
        answer_timeout_ns = self._answer_timeout_ns
        if not attributes.long_running and timeout_ns < answer_timeout_ns:
            answer_timeout_ns = timeout_ns
        control = self._flow_control
        return Request(
            head,
            attributes,
            timeout_ns,
            answer_timeout_ns,
            control.kinds.kinds[attributes.is_mutating],
            control.estimator.fixed(attributes),
        )

    def __repr__(self) -> str:
        return f"<Targets of {self._flow_control!r}>"


def preset_of(settings: Settings) -> Preset:
    """The kind of API behind, with the rules of the settings."""
    named = settings.request.long_running
    return PRESETS[settings.preset].with_rules(
        named.verbs, named.subresources, named.path_prefixes, settings.request.path_prefixes
    )


def read_target(
    head: RequestHead,
    preset: Preset = KUBERNETES,
    default_timeout_ns: int = 0,
) -> tuple[RequestAttributes, int]:
    """What a head's target says: the attributes, and how long the request may take.

    Raises:
        HeadError: Kubernetes would not understand the target, or its `timeout`.
    """
    try:
        attributes = preset.read(head.method, head.target, preset.rules)
        timeout_ns = request_timeout_ns(attributes, default_timeout_ns)
    except AttributesError as error:
        raise HeadError(400, f"malformed request target: {error}") from error
    except DeadlineError as deadline_error:
        raise HeadError(
            400, f"invalid timeout specified in the request URL: {deadline_error}"
        ) from deadline_error
    return attributes, timeout_ns


def upgrade_rules_of(settings: Settings) -> UpgradeRules:
    """Where the settings have upgrades, and where not."""
    named = settings.upstream.upgrades
    return UpgradeRules(named.allow, named.deny)


def with_upgrade(
    head: RequestHead, attributes: RequestAttributes, rules: UpgradeRules = NO_RULES
) -> RequestHead:
    """The head with as much of the upgrade that it offers as is served there.

    Raises:
        HeadError: The upgrade is malformed.
    """
    assert head.upgrade is not None
    return head.with_upgrade(honoured(head.upgrade, head.method, attributes, rules))
