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
  /             type a part of a name: only such levels and flows are shown;
                Enter keeps it, Esc clears it

LEVELS
  SEATS         solid: in use, shaded: free, dotted: lent to other levels,
                a stroke: the nominal limit of a level that borrows;
                yellow: all in use, red: requests wait
  USE  CUR      seats in use, and the limit now
  NOM  MIN MAX  the limit that the shares buy, and its bounds
  LOAN          seats borrowed (+) or lent (-)
  EXEC  WAIT    requests that execute and that wait
  SERV/S        requests a second, in the last 5 s, that had seats and did not fail
  FAIL/S        those that the server behind failed: no answer, or a 5xx
  REJ/S         requests a second that got no seats

TOP FLOWS       who used most lately; numbers halve every five minutes
  SEAT-S        seats times the seconds that they were held
  WAIT-S        seconds that requests waited
  REJ           rejected requests
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
