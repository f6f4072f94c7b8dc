"""Small checks of what JSON may hold, to be put together into the description of a file.

A check gets a value, returns when it is right, and raises ``Wrong`` with the rule and the value
when it is not; the records and lists around it add the place, so that the sentence names the
very field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

LARGEST_NUMBER = 1e15
"""Beyond it whole numbers are no longer exact to every reader of JSON, and no figure is that large."""
_DEEPEST = 16
"""Levels of lists and objects in what has no fixed form, such as the flags."""
_SHOWN = 60
"""Characters of a wrong value that are quoted."""

Check = Callable[[Any], None]


class Wrong(Exception):
    """A broken rule; ``at`` is the place in the file, which grows from the inside outwards."""

    def __init__(self, rule: str, *, at: str = "") -> None:
        super().__init__(rule)
        self.rule = rule
        self.at = at

    def inside(self, place: str) -> Wrong:
        joint = "." if self.at and not self.at.startswith("[") else ""
        return Wrong(self.rule, at=f"{place}{joint}{self.at}")

    def __str__(self) -> str:
        return f"{self.at} {self.rule}" if self.at else self.rule


def must(rule: str, value: Any) -> Wrong:
    return Wrong(f"must be {rule}: {shown(value)}")


def shown(value: Any) -> str:
    """A value as JSON on one line, shortened."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, float) and math.isnan(value):
        return "no finite number"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def number(least: float = -LARGEST_NUMBER, most: float = LARGEST_NUMBER) -> Check:
    """A finite number from ``least`` to ``most``."""
    bounds = f"from {least:g} to {most:g}" if most < LARGEST_NUMBER else f"of at least {least:g}"

    def check(value: Any) -> None:
        # bool is an int to Python, and not to JSON.
        if type(value) not in (int, float) or not least <= value <= most:
            raise must(f"a number {bounds}", value)

    return check


def whole(least: int) -> Check:
    """A whole number of at least ``least``."""

    def check(value: Any) -> None:
        if type(value) is not int or not least <= value <= LARGEST_NUMBER:
            raise must(f"a whole number of at least {least}", value)

    return check


def text(value: Any) -> None:
    if not isinstance(value, str):
        raise must("text", value)


def flag(value: Any) -> None:
    if not isinstance(value, bool):
        raise must("true or false", value)


def one_of(*choices: str) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, str) or value not in choices:
            raise must(f"one of {', '.join(choices)}", value)

    return check


def nullable(check_value: Check) -> Check:
    """Null, or what passes ``check_value``."""

    def check(value: Any) -> None:
        if value is not None:
            check_value(value)

    return check


def list_of(check_item: Check, *, least: int = 0) -> Check:
    """A list of at least ``least`` items that pass ``check_item``."""

    def check(value: Any) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise must(f"a list of at least {least}" if least else "a list", value)
        for place, item in enumerate(value):
            try:
                check_item(item)
            except Wrong as wrong:
                raise wrong.inside(f"[{place}]") from None

    return check


def table_of(check_item: Check) -> Check:
    """An object of any names whose values pass ``check_item``."""

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise must("an object", value)
        for name, item in value.items():
            _check_field(name, check_item, item)

    return check


def record(required: Mapping[str, Check], nullable: Mapping[str, Check], *rules: Check) -> Check:
    """An object with fixed names. A ``nullable`` field may be null or missing, and is null then; fields
    that are not named may be anything. ``rules`` hold between its fields."""

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise must("an object", value)
        for name in required:
            if name not in value:
                raise Wrong("is missing", at=name)
        for name in nullable:
            value.setdefault(name, None)
        for name, item in value.items():
            if name in required:
                _check_field(name, required[name], item)
            elif name not in nullable:
                _check_field(name, anything, item)
            elif item is not None:
                _check_field(name, nullable[name], item)
        for rule in rules:
            rule(value)

    return check


def anything(value: Any, *, levels: int = _DEEPEST) -> None:
    """Any JSON, as long as its numbers are finite and it is not nested deeply."""
    if isinstance(value, dict | list) and levels == 0:
        raise Wrong(f"must be nested in at most {_DEEPEST} levels")
    if isinstance(value, dict):
        for name, item in value.items():
            _check_field(name, lambda item: anything(item, levels=levels - 1), item)
    elif isinstance(value, list):
        list_of(lambda item: anything(item, levels=levels - 1))(value)
    elif isinstance(value, float) and math.isnan(value):
        raise must("a finite number", value)


def _check_field(name: str, check: Check, value: Any) -> None:
    try:
        check(value)
    except Wrong as wrong:
        # A name that somebody else chose may hold anything, a line break included.
        raise wrong.inside(name if name.isidentifier() else shown(name)) from None


def same_length(*names: str) -> Check:
    """Those of the lists that are not null are equally long."""

    def rule(value: Any) -> None:
        there = [name for name in names if value[name] is not None]
        for name in there[1:]:
            if len(value[name]) != len(value[there[0]]):
                raise Wrong(
                    f"must be as long as {there[0]}, {len(value[there[0]])}: {len(value[name])}", at=name
                )

    return rule


def in_order(*names: str) -> Check:
    """Those of the numbers that are not null do not get smaller."""

    def rule(value: Any) -> None:
        there = [name for name in names if value[name] is not None]
        for early, late in pairwise(there):
            if value[late] < value[early]:
                raise Wrong(
                    f"must not be below {early}, {shown(value[early])}: {shown(value[late])}", at=late
                )

    return rule


def all_or_none(*names: str) -> Check:
    """Either all of the fields are null, or none of them is."""

    def rule(value: Any) -> None:
        nulls = [name for name in names if value[name] is None]
        if nulls and len(nulls) < len(names):
            raise Wrong(
                f"must be null only together with {' and '.join(n for n in names if n not in nulls)}",
                at=nulls[0],
            )

    return rule


def only_with(name: str, other: str) -> Check:
    """``name`` may have a value only where ``other`` has one."""

    def rule(value: Any) -> None:
        if value[name] is not None and value[other] is None:
            raise Wrong(f"must be null where {other} is", at=name)

    return rule
