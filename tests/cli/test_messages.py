"""Wrong usage of each command: one line on stderr that says what to write."""

from __future__ import annotations

import io
import sys

import pytest

from apfproxy.cli import apiserver as apiserver_module
from apfproxy.cli import serve as serve_module
from apfproxy.cli.main import main

USAGE = """
srve | apfproxy: there is no command 'srve'; did you mean serve? (see
docs | apfproxy: there is no command 'docs'; expected one of apiserver, ban,
ban | Missing argument 'USER'
ban * | "" is none, and "*" would be all
ban a --for 10 | expected a duration such as 32s, 500ms or 1m30s, not '10'; write 10s for
ban a --for 7d | not '7d'; write 168h for days
ban a --until 7d | No such option '--until' (see
ban a --for 0 | expected 1s to 8784h; without --for the ban stays until apfproxy
ban a --for forever | expected a duration such as
ban a --for 9999h | expected 1s to
ban a --rate 0 | expected a number from 0.001 to 1000000, not '0'
ban a --objects /nowhere | Directory '/nowhere' does not exist
ban a --objects /etc/passwd | '/etc/passwd' is a file
ban a --objects / --kubectl | give one of --objects and --kubectl
unban a --objects / --kubectl | give one of --objects and --kubectl
serve --upstrem x | No such option '--upstrem'. Did you mean '--upstream'? (see
serve --preset htp | 'htp' is not one of 'kubernetes', 'http', 'llm'; did you mean http? (see
serve --kubeconfig /no | Invalid value for '--kubeconfig': File '/no' does not exist (see
serve | say where to forward: --upstream URL, or --settings FILE
serve --upstream http://a --upstream-dns http://a | give only one of upstream.url (--upstream) and
serve --upstream http://a:1 --upstream http://a:1 | upstream.endpoints[1]: http://a:1 is upstream
serve --upstream-service kubernetes | expected NAMESPACE/NAME
serve --upstream a:1 | expected a URL such as http://127.0.0.1:8000
serve --listen 80 | expected HOST:PORT, or :80 for all addresses
serve --identity-headers-from 10.0.0.1/8 | write 10.0.0.0/8
serve --objects /nowhere | Path '/nowhere' does not exist
serve --settings /nowhere | File '/nowhere' does not exist
serve --server-concurrency-limit 0 | expected a number of seats from 1 on, or auto
serve --server-concurrency-limit 99999999999 | must be at most 2147483647, not 99999999999
serve --store / | is a directory
serve --object-counts-from x | expected a URL such as http://127.0.0.1:8000/metrics
apiserver --listen 80 | expected HOST:PORT, or :80 for all addresses
apiserver --controllers evil | there is no controller 'evil'
apiserver --latency 5 | write 5ms, or 5s for seconds
apiserver --capacity 0 | expected a whole number from 1 to
apiserver --store / | is a directory
apiserver more | Got unexpected extra argument
check | Missing argument 'PATH...' (see
check --ignore x . | 'x' is no id of a finding
check --ignore APF001 . | APF001 cannot be ignored
check --fail-on never . | 'never' is not one of
check --settings /dev/null . | give either --settings FILE or PATH...: one at a time
demo --seconds nan | Invalid value for '--seconds': expected a number from 1 to 600
explain | say the request once
explain list pods --path /a | say the request once
explain list pods --verb GET | --verb goes with --path
explain --path /a -n x | go with VERB RESOURCE only
explain - -A | go with VERB RESOURCE only
explain fetch pods | expected a verb of get, list
explain --path a | begins with a slash
explain --path /%zz | '/%zz' is no target of a request
explain --verb a/b --path /a | expected a method or verb such as GET
explain list pods --as-group g | --as-group needs --as
explain list pods --as= | --as needs a name
explain list pods --as a --as-group= | --as-group needs a
explain list pods --header x | expected a header such as
explain list pods --hash-seed -1 | whole number from 0 to 4294967295, not '-1'
explain list pods --admin a:1 --hash-seed 1 | no proxy is asked
find-limit --path / | Missing option '--upstream'
find-limit --upstream http://a | Missing option '--path'
find-limit --upstream a --path / | expected a URL such as http://127.0.0.1:8000
find-limit --upstream http://a --path b | expected a path that begins with a slash
find-limit --upstream http://a --path / --header b | expected a header such as
find-limit --upstream http://a --path / --max-concurrency 0 | from 1 to 10000, not '0'
find-limit --upstream http://a --path / --max-duration 2h | expected a duration from 1s to 1h
find-limit --upstream http://a --path / --plot a.png | plots are SVG
find-limit --upstream http://9.9.9.9 --path / | has the public address 9.9.9.9; give --yes
limits --server-concurrency-limit 0 | from 1 to 2147483647, not '0'
limits --offline --cluster x | leave out --cluster or --offline
limits --fleet --offline | running proxy's fleet: leave out LEVEL
limits --fleet workload-low | running proxy's fleet: leave out LEVEL
limits --admin x | HOST:PORT, :PORT or unix:/PATH
limits --admin-ca-file a | --admin-key-file go with an --admin of https://
limits --admin https://a --admin-cert-file a | --admin-cert-file and --admin-key-file go together
odds --queues | Option '--queues' requires an argument (see
odds --queues 0 | expected a whole number from 1 to 10000000
odds --queues 4 | expected a hand of 1 to 4 queues
odds --queues 512 | with so many queues a hand can be 6
odds --elephants 0 | expected numbers from 1 to 10000
odds --bound 0.1 | --bound goes with --suggest
odds --suggest | --suggest needs --bound
odds --suggest --bound 0.1 --queues 8 | leave theirs out
odds --suggest --bound 1 | above 0 and below 1, not '1'
odds --suggest --bound nan | expected a number above 0
simulate | give one of --mix, --audit-log and
simulate --mix a --audit-log b | give one of
simulate --mix a --max-broken-lines x | expected a whole number from 0 on, not 'x'
simulate --mix a --server-concurrency-limit 0 | expected a number of seats from 1 on, or auto
simulate --mix a --server-model capacity | expected capacity=20, capacity=20,overload=1.5 or
simulate --mix a --auto-limit target=97 | --auto-limit goes with --server-concurrency-limit auto
simulate --mix a --compare-auto-limit target=97 | --compare-auto-limit goes with --compare-server
simulate --mix a --auto-limit min=2.5 | expected whole numbers, not 'min=2.5'
simulate --mix a --auto-limit min=20,max=10 | expected min <= initial <= max, not
simulate --mix a --auto-limit max=10,initial=20 | expected min <= initial <= max, not
simulate --mix a --auto-limit least=2 | unknown 'least'; known are min, max, initial, target
simulate --mix a --plot a.html | Invalid value for '--plot': plots are SVG: expected a file
top --interval 1ms | expected a duration with its unit, from 100ms to 1h, not '1ms'
top --interval soon | expected a duration such as 32s, 500ms or 1m30s, not 'soon'
find-limit --upstream http://a --path / --ca-file b | --ca-file goes with an --upstream of https://
top --admin here | expected http://127.0.0.1:8081, HOST:PORT, :PORT or unix:/PATH, not 'here'
"""
FAILURES = """
ban system:masters | this is a group, and no user; its users are exempt, so nothing bans them
ban system:authenticated | system:authenticated cannot be banned: this is a group, and no user
ban system:kube-schedular | did you mean "system:kube-scheduler"?
unban a --objects /proc/self | /proc/self/ban-a.yaml cannot be changed: there is no such ban
ban a --objects /proc/self | /proc/self/ban-a.yaml cannot be changed:
explain list pods --objects /nowhere | /nowhere: cannot be read
explain - | <stdin>: the proxy would answer 400: malformed
explain --verb TRACE --path /a | would answer 405: TRACE
explain get /api?timeout=x --offline | 400: invalid timeout
find-limit --upstream http://a --path / --token-file /no | the token file /no cannot be read
find-limit --upstream https://a --path / --ca-file /no | /no
find-limit --upstream http://a --path / --plot /no/a.svg | there is no directory /no
find-limit --upstream http://a.invalid --path / | no address of a.invalid
limits --objects /nowhere | /nowhere: cannot be read
odds --suggest --bound 1e-30 | at or below 1e-30 with 16
"""


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (2 if text is USAGE else 1, each)
        for text in (USAGE, FAILURES)
        for each in text.split("\n")[1:-1]
    ],
)
def test_one_line_says_what_is_wrong(
    code: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, _, message = line.partition(" | ")
    data = io.BytesIO(b"GET /%zz HTTP/1.1\nHost: a\n\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    for module in (serve_module, apiserver_module):
        monkeypatch.setattr(module, "run", pytest.fail)

    assert code == main(arguments.split())
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said
    assert said.startswith("apfproxy")
