"""Where the embedded apiserver is known to differ, with the reason.

docs/differences.md lists them for users.
"""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "Numbers beyond 32 or 64 bits are refused; Kubernetes takes what is left of some of them.": (
        r"cannot unmarshal number 9223372036854776000|to proper version.*int(32|64).*want (201|422)"
        r"|step: Invalid value: .9223372036854776k|\[\w*=9223372036854775808\]"
    ),
    "Values of types that have names of their own in Go are shown as strings.": (
        r"^text .*<&>.*want .*u003c|^text .*u003c.*want .*<&>"
    ),
    "An empty list is the same as none.": "null: binding.*Conditions are required",
    "Supported values are told in alphabetical order.": "^text .*Unsupported value: ",
    "A dry deletion of a namespace does not say what would hold it.": (
        "namespaces-.*foregroundDeletion"
    ),
    "How an eviction is to delete is judged before the budgets are asked.": (
        "evict-(guarded|twice).*Sideways.*want (429|500)"
    ),
    "Pods have few of the warnings.": "^warnings pods-",
    "Values with fields are shown as JSON, not with the names of Go.": (
        r'^text rs-val-.*want .*("IntValue"|"MatchExpressions")'
    ),
    "Objects as keys of an applied list are shown as JSON.": r"^text .*containerPort=\{",
}
"""Reason to a pattern of the lines that `replaying.compared` makes."""
