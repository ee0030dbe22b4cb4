"""What `apfproxy top` explains on its help screen."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

HELP = """\
KEYS
  q  Ctrl-C     end
  h  ?          this help, or back
  p             levels with problems first, flows by seats (at the start)
  s  w  r  n    levels and flows by seats, waits, rejections or name
  e             the servers behind in place of queues and flows, or back
  /             only what has a part of a name; Enter keeps it, Esc clears it

LEVELS
  SEATS         solid: in use, shaded: free, dotted: lent to other levels,
                a stroke: the nominal limit of a level that borrows;
                yellow: all in use, red: requests wait
  USE CUR NOM   seats in use, the limit now, and the limit that the shares buy
  MIN MAX LOAN  its bounds; seats borrowed (+) or lent (-)
  EXEC  WAIT    requests that execute and that wait
  SERV/S        requests a second, in the last 5 s, that had seats and did not fail
  FAIL/S REJ/S  that a server behind failed (no answer, or a 5xx); that got no seats

SERVERS BEHIND  SHARE: the part of all requests that one should have;
                FLIGHT: what is under way there

TOP FLOWS       who used most lately; numbers halve every five minutes
  SEAT-S        seats times the seconds that they were held
  WAIT-S  REJ   seconds that requests waited; rejected requests
"""


def help_screen() -> Group:
    """The help, with its headings in bold."""
    lines = []
    for each in HELP.splitlines():
        text = Text(each, no_wrap=True, overflow="ellipsis")
        if each[:1].isupper():
            end = each.find("  ") if "  " in each else len(each)
            text.stylize("bold", 0, end)
        lines.append(text)
    return Group(*lines)
