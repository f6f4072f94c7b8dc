"""tools/measure/page_cache.py: what of a file lies in memory, and getting it out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.measure import page_cache
from tools.measure.page_cache import COLD_SHARE, evict, page_cache_share, windows

MIB = 2**20


def write(path: Path, size: int) -> str:
    with path.open("wb") as file:
        file.write(os.urandom(size))
        file.flush()
        # What is not on the disk yet can't be dropped.
        os.fsync(file.fileno())
    return str(path)


class TestShare:
    def test_what_was_just_written_is_cached(self, tmp_path: Path) -> None:
        share = page_cache_share([write(tmp_path / "a", 3 * MIB + 5)])
        assert share == (1.0 if sys.platform == "linux" else None)

    def test_files_count_by_their_size(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        large, small = write(tmp_path / "large", 3 * MIB), write(tmp_path / "small", MIB)

        def resident(descriptor: int, offset: int, length: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
            return np.full(4, os.fstat(descriptor).st_size == MIB)

        monkeypatch.setattr(page_cache, "_resident", resident)
        monkeypatch.setattr(page_cache.sys, "platform", "linux")
        assert page_cache_share([large, small]) == pytest.approx(1 / 4)

    def test_of_many_files_some_are_looked_at(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []

        def size_and_share(path: str) -> tuple[int, float]:
            seen.append(path)
            return 1, 0.5

        monkeypatch.setattr(page_cache, "_size_and_share", size_and_share)
        monkeypatch.setattr(page_cache.sys, "platform", "linux")
        assert page_cache_share([str(number) for number in range(100_000)]) == 0.5
        assert len(seen) == len(set(seen)) == 256
        assert int(seen[-1]) > 99_000

    def test_what_cannot_be_told_is_none(self, tmp_path: Path) -> None:
        assert page_cache_share([]) is None
        assert page_cache_share([str(tmp_path / "absent")]) is None
        assert page_cache_share([str(tmp_path)]) is None
        (tmp_path / "empty").touch()
        assert page_cache_share([str(tmp_path / "empty")]) is None

    def test_an_empty_file_beside_others_does_not_count(self, tmp_path: Path) -> None:
        (tmp_path / "empty").touch()
        full = write(tmp_path / "full", MIB)
        assert page_cache_share([str(tmp_path / "empty"), full]) == page_cache_share([full])

    def test_a_file_that_others_own_is_not_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path / "a", MIB)
        monkeypatch.setattr(page_cache.os, "geteuid", lambda: os.getuid() + 1, raising=False)
        monkeypatch.setattr(page_cache.os, "access", lambda *_: False)
        assert page_cache_share([path]) is None

    def test_other_systems_do_not_tell(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "a", MIB)
        monkeypatch.setattr(page_cache.sys, "platform", "darwin")
        assert page_cache_share([path]) is None

    def test_a_file_that_was_cut_short_does_no_harm(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path / "a", MIB)
        monkeypatch.setattr(page_cache, "windows", lambda size: [(0, 2 * size)])
        assert page_cache_share([path]) is None


class TestEvict:
    def test_says_whether_the_files_are_out(self, tmp_path: Path) -> None:
        paths = [write(tmp_path / name, 2 * MIB) for name in "ab"]
        evicted = evict(paths)
        # A file system in memory keeps its pages, and then it says so.
        share = page_cache_share(paths)
        assert evicted == (share is not None and share <= COLD_SHARE)

    def test_pages_that_stay_are_no_success(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "a", MIB)
        monkeypatch.setattr(page_cache.os, "posix_fadvise", lambda *_: None, raising=False)
        assert not evict([path])

    def test_other_systems_cannot(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(page_cache.os, "posix_fadvise", raising=False)
        assert not evict([write(tmp_path / "a", MIB)])

    def test_an_absent_file_is_no_success(self, tmp_path: Path) -> None:
        assert not evict([str(tmp_path / "absent")])


@given(st.integers(0, 2**45))
def test_windows_lie_in_the_file_and_are_bounded(size: int) -> None:
    parts = windows(size)
    assert sum(length for _, length in parts) == min(size, 64 * MIB)
    assert all(
        offset % os.sysconf("SC_PAGESIZE") == 0 and offset + length <= size for offset, length in parts
    )
    assert parts == sorted(set(parts))
