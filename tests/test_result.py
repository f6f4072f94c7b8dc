"""The result file: what is right is read as it was written, and what is wrong is one sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.command import run, sentence
from tests.sample_result import minimal, sample_result
from tools.measure import result as result_file
from tools.measure.result import read_result, write_result


@cache
def _small() -> str:
    """A complete result of one round, as JSON."""
    return json.dumps(sample_result("gpu", rounds=1))


def _result() -> Any:
    return json.loads(_small())


def _wrong(folder: Path, content: str | bytes) -> str:
    """The sentence about a file of this content, without the file's name."""
    path = folder / "r.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        read_result(path)
    words = str(caught.value)
    assert "\n" not in words
    assert words.startswith(f"{path}: ")
    return words.removeprefix(f"{path}: ")


class TestReadsWhatIsRight:
    @pytest.mark.parametrize("device", ["cpu", "gpu"])
    def test_a_complete_result_comes_back_as_it_was_written(self, tmp_path: Path, device: Any) -> None:
        result = sample_result(device)
        write_result(tmp_path / "r.json", result)
        assert read_result(tmp_path / "r.json") == result

    def test_what_may_be_missing_is_null(self, tmp_path: Path) -> None:
        write_result(tmp_path / "r.json", minimal(sample_result(rounds=3)))
        result = read_result(tmp_path / "r.json")
        assert result["verdict"] is result["sweep"] is result["proof"]["pictures"] is None
        for cell in result["cells"]:
            assert cell["ledger"] is cell["pattern"] is cell["images_per_s_low"] is None
            assert cell["rounds"][0]["samples"] is None

    def test_an_interrupted_result_without_cells(self, tmp_path: Path) -> None:
        result = {**minimal(sample_result(rounds=1)), "cells": [], "complete": False}
        write_result(tmp_path / "r.json", result)
        assert read_result(tmp_path / "r.json")["cells"] == []

    def test_fields_that_it_does_not_know_are_left_alone(self, tmp_path: Path) -> None:
        result = {**_result(), "note": {"of": ["a later version"]}}
        write_result(tmp_path / "r.json", result)
        assert read_result(tmp_path / "r.json")["note"] == {"of": ["a later version"]}

    def test_of_a_key_that_is_there_twice_the_last_counts(self, tmp_path: Path) -> None:
        (tmp_path / "r.json").write_text(_small().replace("{", '{"device": 7, ', 1))
        assert read_result(tmp_path / "r.json")["device"] == "gpu"


NO_RESULTS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty"),
    "blank": (" \n", "is empty"),
    "no JSON": ("%PDF-1.7", "is damaged, cut short, or no JSON: Expecting value at character 0 of 8"),
    "no UTF-8": (b'{"format": "\xff"}', "is damaged, or no JSON: byte 12 is not UTF-8"),
    "a list": ("[]", "is no result of tools/compare.py: its format is not 'feedline-comparison'"),
    "a number": ("7", "is no result of tools/compare.py: its format is not 'feedline-comparison'"),
    "another format": ('{"format": "x"}', "is no result of tools/compare.py: its format is not 'feedline"),
    "a format of another type": ('{"format": [1]}', "its format is not 'feedline-comparison': a list of 1"),
    "deep": ("[" * 100_000, "is no result file: it is nested too deeply"),
    "deep objects": ('{"a":' * 100_000, "is no result file: it is nested too deeply"),
    "many lists": ("[" + "[]," * 2_000_001, "holds more than 2000000 objects and lists"),
    "only the format": ('{"format": "feedline-comparison"}', "version is missing"),
}


@pytest.mark.parametrize("name", NO_RESULTS)
def test_what_is_no_result_is_one_sentence(tmp_path: Path, name: str) -> None:
    content, words = NO_RESULTS[name]
    assert words in _wrong(tmp_path, content)


def test_a_file_that_was_cut_short(tmp_path: Path) -> None:
    whole = _small()
    for end in (1, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        assert "is damaged, cut short, or no JSON" in _wrong(tmp_path, whole[:end])


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_file, "LARGEST_BYTES", 2**20)
    assert _wrong(tmp_path, " " * (2**20 + 1)) == "is larger than 1 MiB, which no result file is"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        read_result(tmp_path / "r.json")
    with pytest.raises(ValueError, match="is a folder"):
        read_result(tmp_path)


def _set(*path: Any) -> Callable[[Any], None]:
    """Set what ``path`` leads to, to its last item; ``...`` as that deletes it."""
    *places, last, value = path

    def change(result: Any) -> None:
        for place in places:
            result = result[place]
        if value is ...:
            del result[last]
        else:
            result[last] = value

    return change


_WINDOW = ("cells", 2, "rounds", 0, "windows", 1)
WRONG_FIELDS: dict[str, tuple[Callable[[Any], None], str]] = {
    "future": (
        _set("version", 2),
        "version must be at most 1, the newest that this feedline reads: 2",
    ),
    "no version": (_set("version", "1"), 'version must be a whole number of at least 1: "1"'),
    "missing": (_set("cells", ...), "cells is missing"),
    "missing inside": (_set(*_WINDOW, "steps", ...), "cells[2].rounds[0].windows[1].steps is missing"),
    "type": (_set("cells", {}), "cells must be a list: an object of 0"),
    "null": (_set("device", None), "device must be one of cpu, gpu: null"),
    "negative": (
        _set(*_WINDOW, "seconds", -1),
        "cells[2].rounds[0].windows[1].seconds must be a number of at least 1e-09: -1",
    ),
    "text for a number": (
        _set(*_WINDOW, "seconds", "1"),
        'cells[2].rounds[0].windows[1].seconds must be a number of at least 1e-09: "1"',
    ),
    "true for a number": (_set("cells", 0, "images_per_s", True), "cells[0].images_per_s must be a number"),
    "half a step": (_set(*_WINDOW, "steps", 1.5), "steps must be a whole number of at least 1: 1.5"),
    "huge": (
        _set("cells", 0, "images_per_s", 10**400),
        "must be a number of at least 1e-09: no finite number",
    ),
    "large": (_set("cells", 0, "peak_rss_mib", 1e300), "must be a number of at least 0: 1e+300"),
    "share": (_set("cells", 2, "wait_share", 1.5), "cells[2].wait_share must be a number from 0 to 1: 1.5"),
    "steps and waits": (
        _set("cells", 0, "rounds", 0, "wait_s", [0.1]),
        "cells[0].rounds[0].wait_s must be as long as step_s,",
    ),
    "steps and windows": (
        _set("cells", 0, "rounds", 0, "windows", 0, "steps", 1),
        "cells[0].rounds[0].step_s must be as long as all windows have steps,",
    ),
    "warm-up": (
        _set("cells", 0, "rounds", 0, "warm_up_windows", 99),
        "cells[0].rounds[0].warm_up_windows must be below the number of windows, 14: 99",
    ),
    "compile": (
        _set("cells", 8, "rounds", 0, "compiles", 0, "step", 10**6),
        "cells[8].rounds[0].compiles[0].step must be below the number of steps,",
    ),
    "rounds": (_set("cells", 0, "images_per_s_rounds", [1.0, 2.0]), "cells[0].rounds must be as long as"),
    "samples": (
        _set("cells", 0, "rounds", 0, "samples", "rss_mib", [1.0]),
        "cells[0].rounds[0].samples.rss_mib must be as long as at_s,",
    ),
    "gpu samples": (
        _set("cells", 0, "rounds", 0, "samples", "gpu", "power_w", [1.0]),
        "cells[0].rounds[0].samples.gpu.power_w must be as long as at_s,",
    ),
    "half an interval": (
        _set("cells", 0, "images_per_s_low", 1.0),
        "cells[0].images_per_s_high must be null only together with images_per_s_low",
    ),
    "an interval elsewhere": (
        lambda result: result["cells"][0].update(images_per_s_low=1e9, images_per_s_high=2e9),
        "cells[0].images_per_s must not be below images_per_s_low, 1000000000.0:",
    ),
    "a loader without name": (
        _set("cells", 0, "loader", None),
        "cells[0].loader must not be null in a cell of kind loader",
    ),
    "an unknown cell": (_set("comparisons", 0, "a", "x"), 'comparisons[0].a must be the name of a cell: "x"'),
    "limit without verdict": (_set("verdict", None), "limit must be null where verdict is"),
    "no picture": (
        _set("proof", "pictures", 1, "png", "<svg onload=alert(1)>"),
        'proof.pictures[1].png must be a PNG of at most 4 MiB and 16 Mi pixels, in base64: "<svg',
    ),
    "a name with a line break": (
        _set("metadata", "versions", "a\nb", 7),
        'metadata.versions."a\\nb" must be text: 7',
    ),
    "deep flags": (
        lambda result: result["config"].update(x=json.loads("[" * 40 + "]" * 40)),
        "must be nested in at most 16 levels",
    ),
}


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_a_wrong_field_is_named_with_its_rule_and_value(tmp_path: Path, name: str) -> None:
    change, words = WRONG_FIELDS[name]
    result = _result()
    change(result)
    assert words in _wrong(tmp_path, json.dumps(result))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("place", ["cells[0].first_step_s", "config.somewhere"])
def test_numbers_that_are_not_finite(tmp_path: Path, number: str, place: str) -> None:
    result = _result()
    if place == "config.somewhere":
        result["config"]["somewhere"] = 12345.5
    else:
        result["cells"][0]["first_step_s"] = 12345.5
    words = _wrong(tmp_path, json.dumps(result).replace("12345.5", number))
    assert words.startswith(f"{place} must be a")
    assert words.endswith(": no finite number")


def test_a_picture_that_would_unpack_to_too_much(tmp_path: Path) -> None:
    import base64

    result = _result()
    picture = bytearray(base64.b64decode(result["proof"]["pictures"][0]["png"]))
    picture[16:24] = (10**6).to_bytes(4, "big") * 2
    result["proof"]["pictures"][0]["png"] = base64.b64encode(picture).decode()
    assert "proof.pictures[0].png must be a PNG" in _wrong(tmp_path, json.dumps(result))


class TestDamage:
    """Whatever is done to a file: it is read, or refused in one line."""

    @given(st.data())
    def test_changed_values(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        result = _result()
        for _ in range(data.draw(st.integers(1, 3))):
            _change_something(result, data)
        self._read_or_refuse(tmp_path_factory, json.dumps(result).encode())

    @given(st.data())
    def test_changed_bytes(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        content = bytearray(_small().encode())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        end = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
        self._read_or_refuse(tmp_path_factory, bytes(content[:end]))

    @given(st.binary(max_size=200))
    def test_any_bytes(self, tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
        self._read_or_refuse(tmp_path_factory, content)

    def _read_or_refuse(self, tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
        path = tmp_path_factory.getbasetemp() / "damaged.json"
        path.write_bytes(content)
        refused: ValueError | None = None
        try:
            read_result(path)
        except ValueError as error:
            refused = error
        if refused:
            assert type(refused) is ValueError
            assert "\n" not in str(refused)
            assert str(refused).startswith(f"{path}: ")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _change_something(value: Any, data: st.DataObject) -> None:
    """Go down into ``value`` by chance, and drop, replace or add something there."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(value[key], dict | list) and value[key] and data.draw(st.integers(0, 4)):
            value = value[key]
            continue
        how = data.draw(st.sampled_from(["drop", "replace", "add"]))
        if how == "drop":
            del value[key]
        elif how == "replace":
            value[key] = data.draw(_JSON)
        elif isinstance(value, dict):
            value[data.draw(st.text(max_size=5))] = data.draw(_JSON)
        else:
            value.append(copy.deepcopy(value[key]))
        return


class TestWrites:
    def test_a_number_that_is_not_finite_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "r.json"
        path.write_text("old")
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_result(path, {"a": float("nan")})
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


COMMAND_LINE = {
    "damaged": ('{"format": "feedline-', "is damaged, cut short, or no JSON"),
    "foreign": ('{"results": []}', "is no result of tools/compare.py"),
    "future": ('{"format": "feedline-comparison", "version": 9}', "version must be at most 1"),
    "empty": ("", "is empty"),
}


@pytest.mark.parametrize("name", COMMAND_LINE)
def test_on_the_command_line_it_is_one_sentence_and_exit_2(tmp_path: Path, name: str) -> None:
    content, words = COMMAND_LINE[name]
    (tmp_path / "r.json").write_text(content)
    assert words in sentence(run("tools/report.py", tmp_path / "r.json"))
