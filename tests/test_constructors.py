"""Tests that every attribute of an object is set when it is made.

An attribute that only some ways set is an AttributeError on the others, which neither mypy nor ruff
finds.  So all classes are read: what any of their methods assigns, their `__slots__` and their bare
annotations name is assigned by `__init__` whatever its arguments, at the latest by a method that it
calls in any case.  Data classes, structs, enumerations and protocols see to that themselves.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PACKAGE = Path(__file__).parents[1] / "apfproxy"
GENERATED = frozenset(
    {"Enum", "IntEnum", "NamedTuple", "Protocol", "StrEnum", "Struct", "TypedDict"}
)
"""Bases whose classes have generated constructors."""


@dataclass
class Class:
    """A class as its text says.

    Attributes:
        where: Its place.
        bases: Their names.
        is_generated: Whether its constructor is generated.
        methods: By their names.
        named: The attributes that its slots and bare annotations name.
        values: Those that the class itself has values of.
    """

    where: str
    bases: list[str]
    is_generated: bool
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)


def classes_of(source: str, where: str) -> Iterator[tuple[str, Class]]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
        found = Class(
            f"{where}:{node.lineno} {node.name}",
            bases,
            is_generated=any("dataclass" in ast.unparse(each) for each in node.decorator_list),
        )
        for each in node.body:
            match each:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    found.methods[each.name] = each
                case ast.Assign(targets=[ast.Name(id="__slots__")]):
                    slots = ast.literal_eval(each.value)
                    names = {slots} if isinstance(slots, str) else set(slots)
                    # Python itself fills a place such as __weakref__.
                    found.named |= {name for name in names if not name.startswith("__")}
                case ast.Assign(targets=targets):
                    found.values |= {name.id for name in targets if isinstance(name, ast.Name)}
                case ast.AnnAssign(target=ast.Name(id=name), value=value):
                    (found.named if value is None else found.values).add(name)
        yield node.name, found


def assigned(node: ast.AST) -> set[str]:
    targets: list[ast.expr] = []
    match node:
        case ast.Assign():
            targets = list(node.targets)
        case ast.AnnAssign(value=ast.expr()) | ast.AugAssign():
            targets = [node.target]
        case ast.With() | ast.AsyncWith():
            targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
        case ast.For() | ast.AsyncFor():
            targets = [node.target]
    found = set()
    for target in targets:
        for each in ast.walk(target):
            match each:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    found.add(name)
    return found


class Reader:
    """Says which attributes a class has, and which of them its constructor sets.

    Args:
        classes: All of them, by their names.
    """

    def __init__(self, classes: Mapping[str, Class]) -> None:
        self._classes = classes

    def family(self, found: Class) -> Iterator[Class]:
        yield found
        for base in found.bases:
            if base in self._classes:
                yield from self.family(self._classes[base])

    def is_generated(self, found: Class) -> bool:
        return any(
            each.is_generated or not GENERATED.isdisjoint(each.bases) for each in self.family(found)
        )

    def attributes(self, found: Class) -> set[str]:
        names = set()
        for each in self.family(found):
            names |= each.named
            for method in each.methods.values():
                for node in ast.walk(method):
                    names |= assigned(node)
        return names

    def set_at_once(self, found: Class) -> set[str]:
        values = {name for each in self.family(found) for name in each.values}
        return values | self._set_by(found, "__init__", frozenset())

    def _set_by(self, found: Class, method: str, calling: frozenset[str]) -> set[str]:
        for each in self.family(found):
            if method in each.methods:
                body = each.methods[method].body
                return self._set_in_any_case(found, each, body, calling | {method})
        return set()

    def _set_in_any_case(
        self, found: Class, here: Class, body: Iterable[ast.stmt], calling: frozenset[str]
    ) -> set[str]:
        names: set[str] = set()
        for each in body:
            names |= assigned(each)
            match each:
                case ast.Return() | ast.Raise():
                    return names
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr=called))):
                    match of:
                        case ast.Name(id="self") if called not in calling:
                            names |= self._set_by(found, called, calling)
                        case ast.Call(func=ast.Name(id="super")):
                            for base in here.bases:
                                if base in self._classes:
                                    names |= self._set_by(
                                        self._classes[base], called, calling - {called}
                                    )
                case ast.If():
                    ways = [
                        self._set_in_any_case(found, here, way, calling)
                        for way in (each.body, each.orelse)
                        if not any(isinstance(last, ast.Raise) for last in way[-1:])
                    ]
                    names |= set.intersection(*ways) if ways else set()
                    if any(isinstance(last, ast.Return) for last in (*each.body, *each.orelse)):
                        return names
                case ast.With() | ast.AsyncWith():
                    names |= self._set_in_any_case(found, here, each.body, calling)
                case ast.Try():
                    if all(isinstance(handler.body[-1], ast.Raise) for handler in each.handlers):
                        names |= self._set_in_any_case(found, here, each.body, calling)
                    names |= self._set_in_any_case(found, here, each.finalbody, calling)
        return names


def unset(classes: Mapping[str, Class]) -> list[str]:
    reader = Reader(classes)
    return [
        f"{found.where}: {', '.join(sorted(missing))}"
        for found in classes.values()
        if not reader.is_generated(found)
        and (missing := reader.attributes(found) - reader.set_at_once(found))
    ]


def test_every_attribute_is_set_by_the_constructor() -> None:
    classes: dict[str, Class] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE.parent).as_posix()
        for name, found in classes_of(path.read_text(), where):
            # Of two with one name the reader would take either for the other's base.
            classes[name if name not in classes else f"{where} {name}"] = found

    assert {"Exchange", "Passage", "Http1Connection", "Ticket"} <= classes.keys()
    assert [] == unset(classes)


def test_no_code_asks_whether_an_attribute_is_set() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case (
                    ast.Call(
                        func=ast.Name(id="getattr" | "hasattr" | "setattr"),
                        args=[ast.Name(id="self"), *_],
                    )
                    | ast.Delete(targets=[ast.Attribute(value=ast.Name(id="self")), *_])
                ):
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")

    assert [] == found
