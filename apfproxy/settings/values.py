"""Settings as people write them: durations, sizes, addresses, networks, names and URLs.

Flags and the settings file share these forms.  Each reads a text, or raises ValueError with what it
expected; the caller adds where the text stood.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from apfproxy.base.address import Address, Network
from apfproxy.objects.field_errors import closest
from apfproxy.request.rules import PATTERN

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_PER_UNIT = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)")
WHOLE_DURATION = re.compile(rf"(?:{DURATION_PART.pattern})+")

BYTES_PER_UNIT = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
NUMBER_OF_BYTES = re.compile(r"([0-9]+)\s*([A-Za-z]*)")

AUTO = "auto"
AUTO_WORKERS = 0
"""As many workers as there are processors."""
MAX_SEATS = (1 << 31) - 1
AUTO_SEATS = 0
"""As many seats as the server turns out to need."""
MAX_WORKERS = 128
"""Each of them has pools, caches and health checks of its own: beyond, replicas do better."""

# Letters of a DNS name, and the underscore that container runtimes allow in theirs.
DNS_NAME_PART = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST_NAME = re.compile(rf"(?=.{{1,254}}$){DNS_NAME_PART}(?:\.{DNS_NAME_PART})*\.?")
MAX_PORT = 65535
UNIX = "unix:"
"""As nginx writes it, too."""
MAX_UNIX_BYTES = 107
"""Linux has no room for more in the address."""
DEFAULT_PORTS = {"http": 80, "https": 443}
A_DURATION = "a duration such as 32s, 500ms or 1m30s"
A_SIZE = "a size such as 65536, 64KiB or 1MiB"
A_PORT = f"the name of a port, or its number from 1 to {MAX_PORT}"
A_HOST = "a host without a port, such as a.example, *.example or 10.0.0.1"
A_NETWORK = "an address or a CIDR such as 10.0.0.0/8"
DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
MAX_NUMBER_LENGTH = 32
"""More digits than any setting has; int() and Decimal() take time that grows with the square."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is written.

    `parse` raises ValueError with what it expected; `expected` says it of a value of another kind,
    that is none of `kinds` in YAML.  `choices` is empty if they cannot be listed.
    """

    parse: Callable[[str], Any]
    expected: str
    kinds: tuple[str, ...] = ("str",)
    choices: tuple[str, ...] = ()
    metavar: str = ""


def unlike(expected: str, text: str) -> ValueError:
    return ValueError(f"expected {expected}, not {text!r}")


def matching(
    pattern: str,
    expected: str,
    kinds: tuple[str, ...] = ("str",),
    make: Callable[[str], Any] = str,
    **more: Any,  # noqa: ANN401 - of `Form`
) -> Form:
    compiled = re.compile(pattern)

    def parse(text: str) -> Any:  # noqa: ANN401 - as `make` has it
        if compiled.fullmatch(text) is None:
            raise unlike(expected, text)
        return make(text)

    return Form(parse, expected, kinds, **more)


def one_of(*choices: str) -> Form:
    expected = f"one of {', '.join(choices)}"

    def parse(text: str) -> str:
        if text in choices:
            return text
        close = closest(text, choices)
        raise ValueError(f"{unlike(expected, text)}{f'; did you mean {close}?' if close else ''}")

    return Form(parse, expected, choices=choices)


def parse_text(text: str) -> str:
    if not text:
        raise ValueError("expected a text, not an empty one; leave the key out for the default")
    if not is_text(text):
        raise ValueError(f"has a character that no text has: {text!r}")
    return text


def is_text(text: str) -> bool:
    """Whether a text can be handed to the system: it has no NUL, and no half of a character."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def parse_duration(text: str) -> float:
    """The seconds of a duration as Kubernetes writes it, such as `32s`, `500ms` or `1m30s`."""
    if text == "0":
        return 0.0
    if len(text) > MAX_NUMBER_LENGTH or WHOLE_DURATION.fullmatch(text) is None:
        hint = f"; write {text}s for seconds" if re.fullmatch(r"[0-9.]{1,9}", text) else ""
        if re.fullmatch(r"[0-9]{1,5}d", text):
            hint = f"; write {24 * int(text[:-1])}h for days"
        raise ValueError(f"expected {A_DURATION}, not {text!r}{hint}")
    parts = DURATION_PART.findall(text)
    return float(sum(Decimal(number) * SECONDS_PER_UNIT[unit] for number, unit in parts))


def format_duration(duration_s: float) -> str:
    for unit in ("s", "ms", "us"):
        count = Decimal(str(duration_s)) / SECONDS_PER_UNIT[unit]
        if count == int(count):
            return f"{int(count)}{unit}"
    return f"{int(Decimal(str(duration_s)) / SECONDS_PER_UNIT['ns'])}ns"


def parse_size(text: str) -> int:
    match = NUMBER_OF_BYTES.fullmatch(text) if len(text) <= MAX_NUMBER_LENGTH else None
    if match is None or match[2] not in BYTES_PER_UNIT:
        raise unlike(A_SIZE, text)
    return int(match[1]) * BYTES_PER_UNIT[match[2]]


def parse_port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > MAX_PORT:
        raise unlike(f"a port from 0 to {MAX_PORT}", text)
    return int(text)


def parse_host(text: str) -> str:
    """A host name or an IP address; IPv6 without its brackets."""
    try:
        if ":" in text:
            return str(ipaddress.IPv6Address(text))
        is_host = HOST_NAME.fullmatch(text) is not None
    except ValueError:
        is_host = False
    if not is_host:
        raise unlike("a host name or an IP address", text)
    return text


def parse_socket_path(path: str) -> str:
    if not path.startswith("/") or path.endswith("/") or not is_text(path):
        raise unlike("the whole path of a socket, such as /run/a.sock", path)
    if len(os.fsencode(path)) > MAX_UNIX_BYTES:
        raise ValueError(f"the path of a socket has at most {MAX_UNIX_BYTES} bytes: {path!r}")
    return path


def parse_unix(text: str) -> Address:
    path = text.removeprefix(UNIX)
    if not path.startswith("/"):
        raise unlike(f"{UNIX} and the whole path of a socket, such as unix:/run/a.sock", text)
    return Address.unix(parse_socket_path(path))


def parse_address(text: str) -> Address:
    """`HOST:PORT`, where an IPv6 address goes in brackets, or `unix:/PATH`."""
    if text.startswith(UNIX):
        return parse_unix(text)
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        hint = f"127.0.0.1:{text.lstrip(':')}" if text.lstrip(":").isdigit() else f"{text}:8080"
        raise unlike(f"HOST:PORT, such as {hint}", text)
    if "://" in text:
        raise unlike("HOST:PORT without http://, such as 127.0.0.1:8080", text)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise unlike("an IPv6 address in brackets, such as [::1]:8080", text)
    return Address(host=parse_host(host), port=parse_port(port))


def parse_listen_address(text: str) -> Address:
    """An address, or `:PORT` for every address of the machine, of IPv4 and of IPv6."""
    if text.isascii() and text.isdigit():
        raise unlike(f"HOST:PORT, or :{text} for all addresses", text)
    if text.startswith(":") and ":" not in text[1:]:
        return Address(host="", port=parse_port(text[1:]))
    return parse_address(text)


def shown(url: str) -> str:
    """A wrong URL as messages have it: without what may be a password or a token."""
    return repr(re.sub(r"//[^/?#]*@", "//...@", url).partition("?")[0])


def web_url(text: str, example: str) -> SplitResult:
    try:
        url = urlsplit(text)
        url.port  # noqa: B018 - the property raises if the port is bad
    except ValueError as error:
        raise ValueError(f"expected a URL, not {shown(text)}: {error}") from None
    if url.scheme not in DEFAULT_PORTS or not url.hostname:
        raise ValueError(f"expected a URL such as {example}, not {shown(text)}")
    parse_host(url.hostname)
    return url


def parse_url(text: str) -> str:
    web_url(text, "http://127.0.0.1:8000/metrics")
    return text


def parse_collector_url(text: str) -> str:
    """Logs and health pages name it: so it holds no secret."""
    url = web_url(text, "http://127.0.0.1:4318")
    if url.query or url.fragment or "@" in url.netloc:
        raise ValueError(
            f"expected a URL without user, query and fragment, not {shown(text)};"
            " the environment's OTEL_EXPORTER_OTLP_HEADERS may hold credentials"
        )
    return text


def parse_upstream_url(text: str) -> Address:
    if text.startswith(UNIX):
        return parse_unix(text)
    url = web_url(text, "http://127.0.0.1:8000")
    if url.path not in ("", "/") or url.query or url.fragment or "@" in url.netloc:
        raise ValueError(
            "expected a URL of only a host and a port, such as http://127.0.0.1:8000,"
            f" not {shown(text)}: request targets are forwarded unchanged"
        )
    port = DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    return Address(host=parse_host(str(url.hostname)), port=port, is_tls=url.scheme == "https")


def parse_dns_url(text: str) -> Address:
    """Its host is a name with any number of addresses."""
    if "://" in text:
        upstream = parse_upstream_url(text)
        try:
            ipaddress.ip_address(upstream.host)
        except ValueError:
            return upstream
    raise ValueError(
        f"expected a URL with a host name, such as https://api.example:6443, not {shown(text)}"
    )


def parse_service(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not slash or not DNS_LABEL.fullmatch(namespace) or not DNS_LABEL.fullmatch(name):
        raise unlike("NAMESPACE/NAME, such as default/kubernetes", text)
    return namespace, name


def parse_service_port(text: str) -> str:
    is_number = re.fullmatch(r"[0-9]{1,5}", text) is not None
    if not (1 <= int(text) <= MAX_PORT if is_number else DNS_LABEL.fullmatch(text)):
        raise unlike(A_PORT, text)
    return text


def parse_host_pattern(text: str) -> str:
    """A host that requests name, or `*.` and the end of such hosts, in lower case."""
    is_wildcard = text.startswith("*.")
    host = text.removeprefix("*.")
    if ":" in host and host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        host = parse_host(host).lower().removesuffix(".")
    except ValueError:
        host = ""
    if not host or (is_wildcard and ":" in host):
        raise unlike(A_HOST, text)
    return f"*.{host}" if is_wildcard else host


def parse_network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise unlike(A_NETWORK, text) from None
    if network.network_address != ipaddress.ip_address(text.partition("/")[0]):
        raise ValueError(f"{text!r} has bits set to the right of its prefix; write {network}")
    return network


TEXT = Form(parse_text, "a text")
BOOL = matching(
    "(?i:true|yes|on|false|no|off)",
    "true or false",
    ("bool",),
    lambda text: text.lower() in ("true", "yes", "on"),
)
# In decimal digits, as YAML has other ways to write one.
WHOLE = matching(
    r"[+-]?[0-9]{1,19}", "a whole number in decimal digits, such as 100", ("int",), int
)
NUMBER = matching(
    r"[+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?", "a number such as 0.02", ("int", "float"), float
)
DURATION = Form(parse_duration, A_DURATION, ("str", "int", "float"))
SIZE = Form(parse_size, A_SIZE, ("str", "int"))
MODE = matching(
    "0?[0-7]{3}",
    "permissions in octal digits, such as 0660",
    ("str", "int"),
    partial(int, base=8),
)
WORKERS = matching(
    f"{AUTO}|[1-9][0-9]?|1[01][0-9]|12[0-8]",
    f"a number of workers from 1 to {MAX_WORKERS}, or {AUTO}",
    ("str", "int"),
    lambda text: AUTO_WORKERS if text == AUTO else int(text),
    metavar="NUMBER",
)


def parse_seats(text: str) -> int:
    if text == AUTO:
        return AUTO_SEATS
    seats = int(text)
    if seats > MAX_SEATS:
        raise ValueError(f"must be at most {MAX_SEATS}, not {text}")
    return seats


SEATS = matching(
    f"{AUTO}|0*[1-9][0-9]{{0,18}}",
    f"a number of seats from 1 on, or {AUTO}",
    ("str", "int"),
    parse_seats,
    metavar="NUMBER",
)
FILE = Form(parse_text, "the path of a file", metavar="FILE")
LOG_FILE = Form(parse_text, "the path of a file, or -", metavar="FILE")
LISTEN = Form(
    parse_listen_address, 'HOST:PORT in quotes, such as "127.0.0.1:8080"', metavar="[HOST]:PORT"
)
UPSTREAM = Form(parse_upstream_url, "a URL such as http://127.0.0.1:8000", metavar="URL")
DNS = Form(parse_dns_url, "a URL such as https://api.example:6443", metavar="URL")
URL = Form(parse_url, "a URL such as http://127.0.0.1:8000/metrics", metavar="URL")
COLLECTOR = Form(parse_collector_url, "a URL such as http://127.0.0.1:4318", metavar="URL")
NETWORK = Form(parse_network, A_NETWORK, metavar="CIDR")
HOST_PATTERN = Form(parse_host_pattern, A_HOST)
SERVICE_PORT = Form(parse_service_port, A_PORT, ("str", "int"))

LABEL = matching(
    DNS_LABEL.pattern,
    "a DNS label, of at most 63 lower-case letters, digits and hyphens between them",
    ("str", "int"),
)
# What a request's target may be: no space, no control character, no fragment.
TARGET = matching(r"/[!-\"$-~]{0,1023}", "a path such as /readyz")
# Letters, digits and the hyphen: what no server takes for another character.
HEADER = matching(
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,125}[A-Za-z0-9-])?", "the name of a header field, such as X-Id"
)
COOKIE = matching(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", "the name of a cookie, such as sessionid")
HOST_HEADER = matching(
    rf"(?:{DNS_NAME_PART}(?:\.{DNS_NAME_PART})*\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?",
    "HOST or HOST:PORT, such as api.example.com",
)
PATH_PREFIX = matching(
    r"(?=.{1,1024}$)(?:/(?!\.\.?(?:/|$))[A-Za-z0-9._~!$&'()*+,;=:@-]+)+",
    "the begin of a path, such as /clusters/a: without / at its end, %, ?, and the segments"
    " . and ..",
)
# A method in small letters, or a verb of Kubernetes.
VERB = matching(r"[a-z0-9!#$%&'+.^_`|~-]{1,64}", "a verb in small letters, such as watch")
SUBRESOURCE = matching(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", "a subresource alone, such as exec"
)
# What `request.path_prefixes.is_plain_path` takes, without empty segments and `*`.
PATHS_BELOW = matching(
    r"(?=.{2,1024}$)(?:/(?!\.+(?:/|$))[A-Za-z0-9._~!$&'()+,=:@-]+)+/?",
    "a path such as /events, which stands for all below it, too: without *, %, ?, ; and the"
    " segments . and .., and not / alone",
)
# The same with `*` for segments.
PATH_PATTERN = matching(
    r"(?=.{2,1024}$)(?:/(?:\*|(?!\.+(?:/|$))[A-Za-z0-9._~!$&'()+,=:@-]+)(?=/|$))+",
    "a path in which a segment may be *, such as /apis/a.example/*/things/*/shell or /socket/*:"
    " without %, ?, ; and the segments . and ..",
)
API_PREFIX = matching(
    rf"(?=.{{1,1024}}$)(?:{PATTERN.pattern})",
    "a path such as /clusters/{workspace}, of which one segment at most is a name in braces,"
    " without a slash at its end, *, %, ?, ; and the segments . and ..",
)
