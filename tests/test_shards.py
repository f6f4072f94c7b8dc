"""From patterns to shards: which files are data, in which order, and what is said of the others."""

from __future__ import annotations

import builtins
import gzip
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from loaders.check import scan_shards
from loaders.shards import find_shards
from tests.data import encode_png, pixels, write_shard

PACK_THEM = "pack a folder of them with tools/make_dataset.py --from-folder"
SHARD_NAMES = [
    "a b.tfrecord",
    "a%20+b'.tfrecord",
    "a(1).tfrecord",
    "a,b.tfrecord",
    "a[1].tfrecord",
    "größe-日",
]


def fill(folder: Path, names: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        write_shard(folder / name, [name.encode()])
    return folder


def found(*patterns: object) -> list[str]:
    return [shard.path for shard in find_shards([str(pattern) for pattern in patterns])]


@pytest.mark.parametrize("name", SHARD_NAMES)
def test_a_file_is_taken_by_its_own_name(tmp_path: Path, name: str) -> None:
    folder = fill(tmp_path, SHARD_NAMES)
    shards = find_shards([str(folder / name)])
    assert [shard.path for shard in shards] == [str(folder / name)]
    assert shards[0].size == (folder / name).stat().st_size


@pytest.mark.parametrize("pattern", ["", "*", "*a*", "**"])
def test_a_folder_or_pattern_finds_every_odd_name(tmp_path: Path, pattern: str) -> None:
    folder = fill(tmp_path / "odd [folder], 日", SHARD_NAMES)
    (folder / "sub folder").mkdir()
    names = [name for name in SHARD_NAMES if pattern != "*a*" or "a" in name]
    if pattern:
        # Brackets of the folder's own name are escaped as the shell's users do it.
        assert found(str(folder).replace("[", "[[]") + f"/{pattern}") == sorted(
            str(folder / name) for name in names
        )
    else:
        assert found(folder) == sorted(str(folder / name) for name in names)
        assert found(f"{folder}/") == sorted(str(folder / name) for name in names)


def test_patterns(tmp_path: Path) -> None:
    folder = fill(tmp_path, ["train-0", "train-1", "train-2", "test-0"])
    fill(tmp_path / "deep" / "deeper", ["train-9"])
    assert found(folder / "train-?") == [str(folder / f"train-{i}") for i in range(3)]
    assert found(folder / "train-[02]") == [str(folder / f"train-{i}") for i in (0, 2)]
    assert found(folder / "**" / "train-*") == sorted(
        [*(str(folder / f"train-{i}") for i in range(3)), str(folder / "deep" / "deeper" / "train-9")]
    )


def test_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path / "data", ["train-0"])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert found("~/data/train-*") == [str(folder / "train-0")]
    assert found("~/data") == [str(folder / "train-0")]


def test_shards_are_sorted_and_each_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path, ["c", "a", "b"])
    in_order = [str(folder / name) for name in "abc"]
    assert found(folder / "c", folder / "a", folder / "*", folder) == in_order
    # The same files under another spelling are the same shards.
    monkeypatch.chdir(tmp_path)
    assert found("a", "./*", "./a") == ["./b", "./c", "a"]
    assert found("b", folder) == [str(folder / "a"), str(folder / "c"), "b"]
    assert len(found(f"{folder}//*", f"{folder}/./a", folder / "c")) == 3
    # Another name for a file may be meant: it is a shard of its own.
    (tmp_path / "d").symlink_to(tmp_path / "a")
    assert found("*") == ["a", "b", "c", "d"]


@pytest.mark.parametrize("ending", [".idx", ".json", ".txt", ".md"])
def test_files_beside_shards_are_left_out_with_a_note(
    tmp_path: Path, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path, ["data-0", "data-1"])
    (folder / f"data-0{ending}").write_text("0 16\n")
    with caplog.at_level(logging.INFO, "loaders"):
        assert found(folder / "data*") == [str(folder / "data-0"), str(folder / "data-1")]
    assert f"left out 1 files that are no shards: data-0{ending}" in caplog.text


def test_many_left_out_files_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = fill(tmp_path, ["data"])
    for number in range(10):
        (folder / f"{number}.idx").write_text("")
    with caplog.at_level(logging.INFO, "loaders"):
        assert found(folder) == [str(folder / "data")]
    assert "left out 10 files that are no shards: 0.idx, 1.idx, 2.idx and 7 more" in caplog.text


def test_nothing_but_left_out_files(tmp_path: Path) -> None:
    (tmp_path / "data-0.idx").write_text("0 16\n")
    with pytest.raises(ValueError, match=r"data\*' matches no shard, only \.idx, \.json, \.txt, \.md files"):
        found(tmp_path / "data*")


@pytest.mark.parametrize("pattern", ["nothing-*", "nothing", "[nothing", "no/folder/*"])
def test_a_pattern_that_matches_nothing_is_quoted(tmp_path: Path, pattern: str) -> None:
    fill(tmp_path, ["train-0"])
    with pytest.raises(ValueError, match="matches no file") as caught:
        found(tmp_path / "train-*", tmp_path / pattern)
    assert str(caught.value).startswith(f"--data {str(tmp_path / pattern)!r} matches no file")
    assert ("[ ] stand for one of several characters" in str(caught.value)) == ("[" in pattern)


def test_an_empty_folder_matches_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="matches no file"):
        found(tmp_path)


def test_no_pattern_at_all() -> None:
    with pytest.raises(ValueError, match="--data must name the shards"):
        find_shards([])


def test_an_empty_shard_beside_others_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = fill(tmp_path, ["a", "c"])
    (folder / "b").write_bytes(b"")
    with caplog.at_level(logging.INFO, "loaders"):
        assert found(folder / "*") == [str(folder / "a"), str(folder / "c")]
    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert warning.getMessage() == f"{folder / 'b'}: the shard is empty (0 bytes) and is left out"


def test_nothing_but_empty_shards(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=r"'.*\*': all 2 shards are empty \(0 bytes\)"):
        found(tmp_path / "*")


def test_an_unreadable_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path, ["a", "b"])
    real_open = builtins.open

    def open_(file: Any, *arguments: Any, **named: Any) -> Any:
        # Permissions do not stop root, so the refusal is played.
        if str(file) == str(folder / "b"):
            raise PermissionError(13, "Permission denied", str(file))
        return real_open(file, *arguments, **named)

    monkeypatch.setattr(builtins, "open", open_)
    with pytest.raises(ValueError, match="can't be read") as caught:
        found(folder / "*")
    assert str(caught.value) == f"{folder / 'b'}: can't be read: Permission denied"


def test_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe: is no file that can be read twice \(a pipe or a device\)"):
        found(tmp_path / "*")


def test_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(ValueError, match="link: can't be read: No such file or directory"):
        found(tmp_path / "link")
    with pytest.raises(ValueError, match="link: can't be read: No such file or directory"):
        found(tmp_path / "*")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a text\nover lines, longer than a header", "is no TFRecord file: it is a text file"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "is no TFRecord file: it is a Git LFS pointer; run `git lfs pull`",
        ),
        (gzip.compress(bytes(1000)), "is no TFRecord file: it is GZIP-compressed; decompress it first"),
        (
            encode_png(pixels(0)),
            f"is no TFRecord file: it is a PNG; {PACK_THEM}",
        ),
        (b"\xff\xd8\xff\xe0" + bytes(100), "is no TFRecord file: it is a JPEG"),
        (b"PK\x03\x04" + bytes(100), "is no TFRecord file: it is a ZIP archive"),
        (b"\x01\x02\x03" + bytes(100), "is no TFRecord file: the checksum of its first length is wrong"),
        (bytes(100), "is no TFRecord file: the checksum of its first length is wrong"),
        (b"tiny", "is no TFRecord file (4 bytes)"),
    ],
)
def test_a_file_that_is_no_tfrecord(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "train-0.tfrecord"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is no TFRecord file") as caught:
        scan_shards(find_shards([str(path)]))
    assert str(caught.value) == f"{path}: {words}"


def test_scanned_shards_give_their_indexes(tmp_path: Path) -> None:
    folder = fill(tmp_path, ["a", "bcd"])
    indexes = scan_shards(find_shards([str(folder)]))
    assert [index.tolist() for index in indexes] == [[[0, 17]], [[0, 19]]]
    assert [os.path.getsize(folder / name) for name in ("a", "bcd")] == [17, 19]
