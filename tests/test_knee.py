"""tools/measure/knee.py: where a setting stops to gain, and what --sweep may say."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.measure.knee import LEAST_GAIN, SETTINGS, find_knee, parse_sweep


class TestKnee:
    @pytest.mark.parametrize(
        ("x", "rates", "at", "sentence"),
        [
            ([1, 2, 4], [100, 195, 197], 2, "parallel: 2 is enough (4 gains 1 %)"),
            ([1, 2, 4], [100, 103, 105], 1, "parallel: 1 is enough (4 gains 5 %)"),
            ([1, 2, 4], [100, 98, 99], 1, "parallel: 1 is enough (4 loses 1 %)"),
            (
                [1, 2, 4],
                [100, 190, 360],
                4,
                "parallel: still rising at the end (4 gains 89 % over 2); try more",
            ),
            ([1, 2, 4], [100, 190, 120], 2, "parallel: 2 is enough, it falls after (4 loses 37 %)"),
            ([1, 2, 4, 8], [200, 150, 140, 120], 1, "parallel: 1 is enough, it falls after (8 loses 40 %)"),
            # A dip does not hide the gain behind it.
            ([1, 2, 4, 8], [100, 95, 180, 182], 4, "parallel: 4 is enough (8 gains 1 %)"),
            # A tenth for each doubling: 18 % over two of them is not worth it, 25 % is.
            ([1, 2, 4], [100, 109, 118], 1, "parallel: 1 is enough (4 gains 18 %)"),
            (
                [1, 2, 4],
                [100, 109, 125],
                4,
                "parallel: still rising at the end (4 gains 15 % over 2); try more",
            ),
            ([32, 48, 64], [100, 107, 108], 48, "parallel: 48 is enough (64 gains 1 %)"),
        ],
    )
    def test_definition(self, x: list[float], rates: list[float], at: float, sentence: str) -> None:
        knee = find_knee(x, rates, 0.02, name="parallel")
        assert knee is not None
        assert (knee.at, knee.sentence) == (at, sentence)
        assert knee.still_rising == ("still rising" in sentence)
        assert knee.falls_after == ("falls after" in sentence)

    def test_a_gain_within_the_noise_is_none(self) -> None:
        x, rates = [1, 2, 4], [100.0, 115.0, 118.0]
        assert [find_knee(x, rates, noise).at for noise in (0.02, 0.2)] == [2, 1]  # type: ignore[union-attr]

    def test_the_name_is_optional(self) -> None:
        knee = find_knee([1, 2, 4], [100, 195, 197], 0.02)
        assert knee is not None
        assert knee.sentence == "2 is enough (4 gains 1 %)"

    def test_two_points_have_no_knee(self) -> None:
        assert find_knee([1, 2], [100, 200], 0.02) is None
        assert find_knee([], [], 0.02) is None

    def test_large_numbers_are_written_out(self) -> None:
        knee = find_knee([1000, 100_000, 1_000_000], [100, 100, 103], 0.0, name="shuffle_buffer")
        assert knee is not None
        assert knee.sentence == "shuffle_buffer: 1000 is enough (1000000 gains 3 %)"

    @pytest.mark.parametrize(
        ("x", "rates", "noise", "words"),
        [
            ([1, 2, 4], [1, 2], 0.0, "a rate for every value: 3 values and 2 rates"),
            ([1, 2, 2], [1, 2, 3], 0.0, "each there once: [1, 2, 2]"),
            ([0, 1, 2], [1, 2, 3], 0.0, "must be above 0, each there once: [0, 1, 2]"),
            ([1, 2, 4], [1, 0, 3], 0.0, "rates must be above 0: [1, 0, 3]"),
            ([1, 2, 4], [1, math.nan, 3], 0.0, "rates must be above 0"),
            ([1, 2, 4], [1, 2, 3], -0.1, "noise of a sweep must be at least 0: -0.1"),
        ],
    )
    def test_mistakes(self, x: list[float], rates: list[float], noise: float, words: str) -> None:
        with pytest.raises(ValueError, match=re.escape(words)):
            find_knee(x, rates, noise)

    @given(
        st.lists(
            st.tuples(st.integers(1, 10_000), st.floats(1, 1e6)),
            min_size=3,
            max_size=8,
            unique_by=lambda p: p[0],
        ),
        st.floats(0, 0.3),
        st.randoms(),
    )
    def test_nothing_behind_it_is_worth_having(
        self, points: list[tuple[int, float]], noise: float, random: Random
    ) -> None:
        rates = dict(points)
        knee = find_knee(list(rates), list(rates.values()), noise)
        assert knee is not None
        assert knee.at in rates
        for x, rate in points:
            if x > knee.at:
                gain = rate / rates[int(knee.at)] - 1
                assert gain <= max(noise, (1 + LEAST_GAIN) ** math.log2(x / knee.at) - 1) + 1e-9
        random.shuffle(points)
        rates = dict(points)
        assert find_knee(list(rates), list(rates.values()), noise) == knee

    @pytest.mark.parametrize("serial_share", [0.02, 0.2, 0.5])
    def test_amdahl(self, serial_share: float) -> None:
        """A pipeline of which a share can't be done in parallel: the knee moves down as it grows."""
        x = [1, 2, 4, 8, 16, 32, 64]
        knee = find_knee(x, [100 / (serial_share + (1 - serial_share) / cores) for cores in x], 0.01)
        assert knee is not None
        assert knee.at == {0.02: 64, 0.2: 32, 0.5: 8}[serial_share]


class TestSweep:
    def test_all_settings(self) -> None:
        texts = [
            "batch_size=32,64,128",
            "parallel=1,2",
            "prefetch=4,1",
            "cycle-length=1, 8",
            "shuffle_buffer=64,4096",
        ]
        assert parse_sweep(texts) == {
            "batch_size": (32, 64, 128),
            "parallel": (1, 2),
            "prefetch": (4, 1),
            "cycle_length": (1, 8),
            "shuffle_buffer": (64, 4096),
        }
        assert parse_sweep([]) == {}

    @pytest.mark.parametrize(
        ("texts", "words"),
        [
            (["batch_size"], "--sweep must be SETTING=N,N,... such as batch_size=32,64: 'batch_size'"),
            ([""], "--sweep must be SETTING=N,N,... such as batch_size=32,64: ''"),
            (["cores=1,2"], f"--sweep knows the settings {', '.join(SETTINGS)}: 'cores'"),
            (["=1,2"], "--sweep knows the settings"),
            (["parallel=1,x"], "--sweep parallel must be whole numbers of at most nine digits: 'x'"),
            (["parallel=1,"], "--sweep parallel must be whole numbers of at most nine digits: ''"),
            (["parallel=1.5,2"], "--sweep parallel must be whole numbers of at most nine digits: '1.5'"),
            (["parallel=1,²"], "--sweep parallel must be whole numbers of at most nine digits: '²'"),
            (["parallel=1,1234567890"], "at most nine digits: '1234567890'"),
            (["parallel=0,2"], "--sweep parallel must be at least 1: 0"),
            (["parallel=2,-4"], "--sweep parallel must be at least 1: -4"),
            (["parallel=2,4,2"], "--sweep parallel names a value twice: 2"),
            (["parallel=2"], "--sweep parallel needs at least two values: 'parallel=2'"),
            (["parallel=1,2", "parallel=4,8"], "--sweep names a setting twice: parallel"),
        ],
    )
    def test_mistakes(self, texts: list[str], words: str) -> None:
        with pytest.raises(ValueError, match=re.escape(words)) as caught:
            parse_sweep(texts)
        assert "\n" not in str(caught.value)

    @given(st.dictionaries(st.sampled_from(SETTINGS), st.sets(st.integers(1, 999_999_999), min_size=2)))
    def test_what_is_written_is_read(self, sweep: dict[str, set[int]]) -> None:
        texts = [f"{name}={','.join(map(str, values))}" for name, values in sweep.items()]
        assert parse_sweep(texts) == {name: tuple(values) for name, values in sweep.items()}

    @given(st.lists(st.text(max_size=30), max_size=3))
    def test_any_text_is_read_or_refused(self, texts: list[str]) -> None:
        with suppress(ValueError):
            assert all(len(values) >= 2 for values in parse_sweep(texts).values())
