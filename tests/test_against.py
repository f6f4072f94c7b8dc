"""tools/measure/against.py: what became faster or slower, what is refused, and when a build fails."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.measure.against import compare_results, parse_percent, ratio_of_medians, slower_than
from tools.measure.config import CompareConfig

Result = dict[str, Any]


def cell(loader: str | None, xla: str | None, rates: Sequence[float], **more: Any) -> dict[str, Any]:
    kind = "ceiling" if loader is None else "loader" if xla is None else "train"
    name = {"ceiling": f"ceiling, xla {xla}", "loader": f"{loader} alone", "train": f"{loader}, xla {xla}"}[
        kind
    ]
    return {
        "kind": kind,
        "name": name,
        "loader": loader,
        "xla": xla,
        "images_per_s": float(np.median(rates)),
        "images_per_s_rounds": list(rates),
        **more,
    }


def result(*cells: dict[str, Any], **flags: Any) -> Result:
    return {
        "device": "cpu",
        "data": {
            "shards": 4,
            "records": 2048,
            "bytes": 27_000_000,
            "schema": {"height": 256, "width": 256, "image_feature": "image"},
            "fingerprint": "d" * 64,
        },
        "config": asdict(CompareConfig(**flags)),
        "metadata": {
            "versions": {"python": "3.11.9", "tensorflow": "2.21.0", "nvidia-dali-cuda120": None},
            "processor": "A processor",
            "cores": 2,
            "usable_cores": 2,
            "memory_gib": 23.5,
            "system": "Linux",
            "gpus": [],
            "fingerprint": "a" * 64,
        },
        "proof": {
            "loaders": ["tfdata", "dali"],
            "records": 1024,
            "parts": ["image", "tokens"],
            "sha256": "e" * 64,
            "difference": None,
        },
        "cells": list(cells),
    }


def rounds(rate: float, *, count: int = 12, noise: float = 0.01, seed: int = 0) -> list[float]:
    return list(rate * np.exp(np.random.default_rng(seed).normal(0, noise, count)))


class TestChanges:
    def test_faster_slower_equal(self) -> None:
        old = result(
            cell("tfdata", "off", rounds(100)),
            cell("dali", "off", rounds(100)),
            cell(None, "off", rounds(100)),
        )
        new = result(
            cell("tfdata", "off", rounds(110, seed=1)),
            cell("dali", "off", rounds(90, seed=2)),
            cell(None, "off", rounds(100, seed=3)),
        )
        against = compare_results(old, new)
        assert [change.verdict for change in against.cells] == ["faster", "slower", "equal"]
        assert against.cells[0].ratio == pytest.approx(1.1, rel=0.02)
        assert against.cells[0].low is not None
        assert against.cells[0].high is not None
        assert 1 < against.cells[0].low < against.cells[0].ratio < against.cells[0].high
        assert re.fullmatch(
            r"tfdata, xla off: faster \(\+\d+\.\d %, 99 % interval \+\d+\.\d to \+\d+\.\d %\)",
            against.cells[0].sentence,
        )
        assert "equal as far as these runs can tell" in against.cells[2].sentence
        assert against.sentence == "of 3 cells in both results 1 slower, 1 faster, 1 equal"

    def test_few_rounds_are_ranked_beyond_their_noise_only(self) -> None:
        old = result(*(cell(name, "off", [100.0]) for name in ("a", "b", "c", "d")))
        new = result(
            *(
                cell(name, "off", [rate])
                for name, rate in (("a", 90.0), ("b", 80.0), ("c", 112.0), ("d", 125.0))
            )
        )
        against = compare_results(old, new)
        assert [change.verdict for change in against.cells] == ["equal", "slower", "equal", "faster"]
        assert {change.low for change in against.cells} == {None}
        assert against.cells[1].sentence == "b, xla off: slower (-20.0 %, from 1 round no interval)"

    def test_an_interval_needs_enough_rounds_on_both_sides(self) -> None:
        old, new = result(cell("a", "off", rounds(100, count=7))), result(cell("a", "off", rounds(100)))
        assert compare_results(old, new).cells[0].high is None
        assert "from 7 rounds no interval" in compare_results(new, old).cells[0].sentence

    def test_cells_of_one_result_only_are_listed(self) -> None:
        old = result(cell("tfdata", "off", [100]), cell("tfdata", "jit", [100]))
        new = result(cell("tfdata", "off", [100]), cell("cached", "off", [100]))
        against = compare_results(old, new)
        assert (against.only_old, against.only_new) == (("tfdata, xla jit",), ("cached, xla off",))
        assert "only in the old result: tfdata, xla jit" in against.sentence
        assert "only in the new result: cached, xla off" in against.sentence
        assert compare_results(result(), new).sentence == "no cell is in both results"

    def test_two_loaders_with_one_short_name_are_two_cells(self) -> None:
        names = ("one.py:make_loader", "two.py:make_loader")
        old = result(*(cell(name, "off", [100], name="make_loader, xla off") for name in names))
        new = result(
            *(
                cell(name, "off", [rate], name="make_loader, xla off")
                for name, rate in zip(names, (50, 200), strict=True)
            )
        )
        assert [change.verdict for change in compare_results(old, new).cells] == ["slower", "faster"]

    def test_a_result_from_a_file_equals_one_in_memory(self) -> None:
        new = result(cell("tfdata", "off", [100]), xla=("off",))
        old = json.loads(json.dumps(new))
        assert compare_results(old, new).cells[0].ratio == 1

    def test_run_settings_may_differ(self) -> None:
        old = result(cell("tfdata", "off", [100]))
        new = result(
            cell("tfdata", "off", [100]),
            data=("elsewhere",),
            loader=("tfdata",),
            xla=("off",),
            kinds=("train",),
            sweep=("prefetch=1,2",),
            quick=True,
            rounds=20,
            budget_s=60.0,
            measure_s=1.0,
            warm_up_s=5.0,
            out="other.json",
            index_dir="elsewhere",
            height=256,
        )
        assert len(compare_results(old, new).cells) == 1


class TestChance:
    def test_the_same_thing_twice_is_equal(self) -> None:
        """99 % intervals: one of a hundred may be wrong; the median of eight is coarser than that."""
        wrong = 0
        for seed in range(200):
            _, low, high = ratio_of_medians(
                rounds(100, count=8, noise=0.03, seed=seed),
                rounds(100, count=8, noise=0.03, seed=1000 + seed),
            )
            assert low is not None
            assert high is not None
            wrong += not low <= 1 <= high
        assert wrong <= 6

    def test_ten_percent_are_found(self) -> None:
        found = 0
        for seed in range(50):
            _, _, high = ratio_of_medians(
                rounds(100, count=8, noise=0.02, seed=seed), rounds(90, count=8, noise=0.02, seed=1000 + seed)
            )
            assert high is not None
            found += high < 1
        assert found >= 48


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "value", "words"),
        [
            ("metadata.versions.tensorflow", "2.20.0", "version of tensorflow is 2.20.0, and was 2.21.0"),
            (
                "metadata.versions.nvidia-dali-cuda120",
                "2",
                "version of nvidia-dali-cuda120 is 2, and was none",
            ),
            ("metadata.versions.new", "1", "version of new is 1, and was none"),
            ("metadata.processor", "Another", "machine's processor is Another, and was A processor"),
            ("metadata.gpus", ["H200", "H200"], "machine's gpus is H200, H200, and was none"),
            ("metadata.fingerprint", "b" * 64, f"machine's fingerprint is {'b' * 12}, and was {'a' * 12}"),
            ("device", "gpu", "device is gpu, and was cpu"),
            ("data.records", 1024, "number of records is 1024, and was 2048"),
            ("data.schema.height", 128, "schema's height is 128, and was 256"),
            ("data.fingerprint", "c" * 64, f"data's fingerprint is {'c' * 12}, and was {'d' * 12}"),
            ("proof.sha256", "f" * 64, f"digest of the first records is {'f' * 12}, and was {'e' * 12}"),
            ("config.batch_size", 32, "flag --batch-size is 32, and was 64"),
            ("config.image_dtype", "float32", "flag --image-dtype is float32, and was uint8"),
            ("config.precision", "mixed_float16", "flag --precision is mixed_float16, and was float32"),
            ("config.augment", "light", "flag --augment is light, and was none"),
            ("config.shuffle", "none", "flag --shuffle is none, and was records"),
            ("config.shuffle_buffer", 64, "flag --shuffle-buffer is 64, and was 1024"),
            ("config.scale", True, "flag --scale is True, and was False"),
            ("config.cold", True, "flag --cold is True, and was False"),
            ("config.unheard_of", 1, "flag --unheard-of is 1, and was absent"),
        ],
    )
    def test_other_things(self, path: str, value: Any, words: str) -> None:
        old = result(cell("tfdata", "off", [100]))
        new = copy.deepcopy(old)
        if path.startswith("data."):
            new["data"]["fingerprint"] = "c" * 64
        *folders, name = path.split(".")
        part = new
        for folder in folders:
            part = part[folder]
        part[name] = value
        with pytest.raises(ValueError, match=r"^the results can't be compared: the ") as caught:
            compare_results(old, new)
        assert str(caught.value) == f"the results can't be compared: the {words} before"

    def test_a_proof_of_other_loaders_says_nothing_of_the_records(self) -> None:
        old = result(cell("tfdata", "off", [100]))
        new = copy.deepcopy(old)
        new["proof"] |= {"loaders": ["cached"], "sha256": "f" * 64}
        assert len(compare_results(old, new).cells) == 1


class TestFailing:
    def test_only_what_is_surely_slower(self) -> None:
        old = result(*(cell(name, "off", rounds(100, seed=i)) for i, name in enumerate("abc")))
        new = result(
            cell("a", "off", rounds(80, seed=10)),
            cell("b", "off", rounds(96, seed=11)),
            cell("c", "off", rounds(120, seed=12)),
        )
        against = compare_results(old, new)
        assert against.cells[1].verdict == "slower"
        assert [change.cell for change in slower_than(against, 0.05)] == ["a, xla off"]
        assert [change.cell for change in slower_than(against, 0.0)] == ["a, xla off", "b, xla off"]
        assert slower_than(against, 0.5) == []

    def test_noise_does_not_fail_a_build(self) -> None:
        old = result(cell("a", "off", rounds(100, noise=0.2)))
        new = result(cell("a", "off", rounds(90, noise=0.2, seed=1)))
        assert slower_than(compare_results(old, new), 0.05) == []

    @pytest.mark.parametrize(("rate", "fails"), [(90.0, False), (81.0, False), (79.0, True)])
    def test_without_an_interval_the_noise_comes_on_top(self, rate: float, fails: bool) -> None:
        against = compare_results(result(cell("a", "off", [100.0])), result(cell("a", "off", [rate])))
        assert bool(slower_than(against, 0.05)) == fails


class TestPercent:
    @pytest.mark.parametrize(
        ("text", "share"), [("5%", 0.05), ("5 %", 0.05), (" 2.5% ", 0.025), ("0%", 0.0), ("99.9%", 0.999)]
    )
    def test_read(self, text: str, share: float) -> None:
        assert parse_percent(text) == pytest.approx(share)

    @pytest.mark.parametrize(
        "text", ["", "5", "0.05", "%", "-5%", "100%", "5%%", "five%", "٥%", "1e1%", "nan%", "5%\n6%"]
    )
    def test_refused(self, text: str) -> None:
        words = f"--fail-if-slower must be a percentage from 0% to below 100%, such as 5%: {text!r}"
        with pytest.raises(ValueError, match=re.escape(words)):
            parse_percent(text)

    @given(st.text(max_size=8))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        with suppress(ValueError):
            assert 0 <= parse_percent(text) < 1
