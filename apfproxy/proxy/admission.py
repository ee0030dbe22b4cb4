"""What joins a request's head to the flow control: attributes, class, estimate of its work.

Answers are kept with the head they belong to, so that equal heads are looked at once per
configuration.  All of it is bounded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apfproxy.proxy.bounded_cache import BoundedCache, MemoryBudget
from apfproxy.proxy.cache_sizes import of_target
from apfproxy.proxy.request_fields import HeadError
from apfproxy.request.attributes import AttributesError, RequestAttributes, parse_attributes
from apfproxy.request.deadline import DeadlineError, request_timeout_ns

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Classification, Controller
    from apfproxy.flowcontrol.kind_meter import KindMeter
    from apfproxy.flowcontrol.learned_costs import LearnedCosts
    from apfproxy.flowcontrol.ticket import WorkEstimate
    from apfproxy.flowcontrol.work_estimate import WorkEstimator
    from apfproxy.proxy.request_head import RequestHead

_NOT_VISIBLE = re.compile(r"[^\x21-\x7e]")

MAX_KEPT_TARGETS = 8192
"""Attributes by method and target; a typical one takes 1.5 KiB."""
KEPT_TARGETS_BYTES = 16 << 20
"""Of all of them."""
MAX_KEPT_TARGET_BYTES = 1024
"""Longer targets are parsed each time: they would take the room of many."""


class Admission:
    """Classifies requests and estimates their work.

    Attributes:
        costs: What is learned from answers.
    """

    __slots__ = (
        "_answer_timeout_ns",
        "_attributes",
        "_controller",
        "_default_timeout_ns",
        "_estimator",
        "_kinds",
        "_pf_headers",
        "costs",
    )

    def __init__(
        self,
        controller: Controller,
        estimator: WorkEstimator,
        costs: LearnedCosts,
        kinds: KindMeter,
        *,
        request_timeout_s: float,
        answer_timeout_s: float,
    ) -> None:
        self._controller = controller
        self._estimator = estimator
        self.costs = costs
        self._kinds = kinds.kinds
        self.configure(request_timeout_s=request_timeout_s, answer_timeout_s=answer_timeout_s)
        self._attributes: BoundedCache[tuple[str, bytes], RequestAttributes] = BoundedCache(
            MAX_KEPT_TARGETS, MemoryBudget(KEPT_TARGETS_BYTES), of_target
        )
        self._pf_headers: dict[tuple[str, str], bytes] = {}

    def configure(self, *, request_timeout_s: float, answer_timeout_s: float) -> None:
        """Put time-outs in force, for heads that are prepared from now on."""
        self._default_timeout_ns = round(request_timeout_s * 1e9)
        self._answer_timeout_ns = round(answer_timeout_s * 1e9)

    def prepare(self, head: RequestHead) -> None:
        """Set what of a head depends on its target only.

        Raises:
            HeadError: Kubernetes would not understand the target, or its `timeout`, or an upgrade
                is malformed.
        """
        try:
            attributes = head.attributes = self._attributes_of(head.method, head.target)
            head.timeout_ns = request_timeout_ns(attributes, self._default_timeout_ns)
        except AttributesError as error:
            raise HeadError(400, f"malformed request target: {error}") from error
        except DeadlineError as error:
            raise HeadError(
                400, f"invalid timeout specified in the request URL: {error}"
            ) from error
        head.is_watch = attributes.is_resource_request and attributes.verb == "watch"
        head.is_list = attributes.is_resource_request and attributes.verb == "list"
        head.kind = self._kinds[attributes.is_mutating]
        head.takes_seats = head.is_watch or not attributes.long_running
        head.answer_timeout_ns = self._answer_timeout_ns
        if not attributes.long_running:
            head.answer_timeout_ns = min(head.timeout_ns, self._answer_timeout_ns)
        head.fixed_estimate = self._estimator.fixed(attributes)
        if head.upgrade is not None:
            head.decide_upgrade()

    def classify(self, head: RequestHead) -> Classification:
        """The class of a request by the configuration in force."""
        found = head.classification
        if found is None or found.generation != self._controller.generation:
            found = head.classification = self._controller.classify(
                head.user, head.attributes, head.header
            )
            # As kube-apiserver, whose flow control does not see the other long-running requests.
            head.pf_headers = self._pf_headers_of(found) if head.takes_seats else b""
        return found

    def estimate(self, head: RequestHead) -> WorkEstimate:
        """The work of a request whose estimate depends on what is known of its objects now."""
        found = self.classify(head)
        return self._estimator.estimate(head.attributes, found.level.max_seats, found.flow.counters)

    def seats(self, head: RequestHead) -> int:
        """The most seats that a request needs by its estimate, without counting it once more."""
        estimate = head.fixed_estimate
        if estimate is None:
            max_seats = self.classify(head).level.max_seats
            estimate = self._estimator.estimate(head.attributes, max_seats)
        return estimate.max_seats

    def _attributes_of(self, method: str, target: bytes) -> RequestAttributes:
        key = (method, target)
        attributes = self._attributes.values.get(key)
        if attributes is None:
            attributes = parse_attributes(method, target)
            if len(target) <= MAX_KEPT_TARGET_BYTES:
                self._attributes.offer(key, attributes)
        return attributes

    def _pf_headers_of(self, found: Classification) -> bytes:
        key = (found.flow_schema_uid, found.priority_level_uid)
        lines = self._pf_headers.get(key)
        if lines is None:
            if len(self._pf_headers) >= MAX_KEPT_TARGETS:
                self._pf_headers.clear()
            # Validation refuses such objects; but nothing may end a line, wherever it is from.
            schema, level = (_NOT_VISIBLE.sub("_", uid) for uid in key)
            lines = self._pf_headers[key] = (
                f"X-Kubernetes-PF-FlowSchema-UID: {schema}\r\n"
                f"X-Kubernetes-PF-PriorityLevel-UID: {level}\r\n"
            ).encode()
        return lines

    def __repr__(self) -> str:
        return f"<Admission, {len(self._attributes.values)} targets kept>"
