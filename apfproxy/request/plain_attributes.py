"""The attributes of a request to an API that is not Kubernetes.

Nothing but its method and its path has a meaning: every request is one for a non-resource URL, and
its verb is its method in small letters.  `/api/v1/pods` is a path like any other, and a parameter
such as `watch` or `timeout` is the server's own business.
"""

from __future__ import annotations

from apfproxy.request.attributes import AttributesError, RequestAttributes
from apfproxy.request.rules import NONE, RequestRules
from apfproxy.request.target import TargetError, decode_path, split_target

READ_ONLY_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def plain_attributes(method: str, target: bytes, rules: RequestRules = NONE) -> RequestAttributes:
    """The attributes of a request, from the method and target that are forwarded.

    Raises:
        AttributesError: The target makes no sense.
    """
    try:
        raw_path, _ = split_target(method, target)
        path = decode_path(raw_path)
    except TargetError as error:
        raise AttributesError(str(error)) from None
    verb = method.lower()
    found = RequestAttributes(
        is_resource_request=False,
        path=path,
        verb=verb,
        long_running_by=rules.verbs.get(verb, "") or rules.by_path(path),
        is_mutating=method not in READ_ONLY_METHODS,
        is_plain=True,
    )
    if rules.api_prefixes is not None:
        found.put_below(path, *rules.api_prefixes.find(raw_path, path))
    return found
