"""What workers and their parent say to each other."""

from __future__ import annotations

import msgspec
import pytest

from apfproxy.fleet.parent_messages import Answer, Greeting, Message, Question, line_of


@pytest.mark.parametrize(
    ("message", "line"),
    [
        pytest.param(Greeting(protocol=1), b'{"protocol":1}\n', id="greeting"),
        pytest.param(
            Question(number=1, verb="listen", key="a"),
            b'{"number":1,"verb":"listen","key":"a"}\n',
            id="listen",
        ),
        pytest.param(
            Question(number=3, verb="swap", key="a", version="v", data=b"{", is_urgent=True),
            b'{"number":3,"verb":"swap","key":"a","version":"v","data":"ew==","urgent":true}\n',
            id="swap",
        ),
        pytest.param(
            Answer(number=3, is_done=True, version="w"),
            b'{"number":3,"done":true,"version":"w"}\n',
            id="done",
        ),
        pytest.param(Answer(urgent="a"), b'{"urgent":"a"}\n', id="urgent"),
    ],
)
def test_lines(message: Message, line: bytes) -> None:
    """Messages are on the wire as the module says, and come back."""
    assert line == line_of(message)
    assert message == msgspec.json.decode(line, type=type(message))
