"""tools/diagnose.py through its command line: pipelines that fail, hang or end, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import run, sentence

HEAD = "import time\nimport tensorflow as tf\n\n\n"


def module(tmp_path: Path, body: str, name: str = "pipeline.py") -> Path:
    path = tmp_path / name
    path.write_text(HEAD + body)
    return path


def diagnose(path: Path, *flags: str, budget_s: float = 60) -> Any:
    return run("tools/diagnose.py", f"{path}:make_dataset", "--budget-s", str(budget_s), *flags)


class TestMistakes:
    @pytest.mark.parametrize(
        ("flags", "words"),
        [
            ([], "name the pipeline, as path/to/file.py:make_dataset or module:make_dataset"),
            (
                ["pipeline.py"],
                r"the pipeline must be path/to/file.py:function or module:function: 'pipeline.py'",
            ),
            (["a.py:f", "--step", "g"], "--step must be path/to/file.py:function or module:function: 'g'"),
            (["a.py:f", "--step", "a.py:g", "--fit", "a.py:h"], "--step and --fit are two ways to train"),
            (["a.py:f", "--budget-s", "3"], "--budget-s must be at least 20: 3"),
            (["a.py:f", "--args", "[1]"], r"--args must be a JSON object: '\[1\]'"),
            (["a.py:f", "--args", "{"], "--args must be a JSON object: '{'"),
            (["a.py:f", "--profile", "x"], "--profile reads a profile and runs nothing"),
            (["a.py:f", "--json", "/nowhere/x.json"], "--json"),
        ],
    )
    def test_wrong_flags_are_one_sentence(self, flags: list[str], words: str) -> None:
        import re

        assert re.search(words, sentence(run("tools/diagnose.py", *flags)))

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        assert "there is no file" in sentence(diagnose(tmp_path / "absent.py"))

    def test_a_module_that_fails_to_import(self, tmp_path: Path) -> None:
        path = module(tmp_path, "raise RuntimeError('no GPU today')\n")
        assert "importing it failed: RuntimeError: no GPU today" in sentence(diagnose(path))

    def test_a_function_that_returns_no_dataset(self, tmp_path: Path) -> None:
        path = module(tmp_path, "def make_dataset():\n    return [1, 2]\n")
        assert "the pipeline must be a tf.data.Dataset: a list was returned" in sentence(diagnose(path))

    def test_a_dataset_without_an_element(self, tmp_path: Path) -> None:
        path = module(
            tmp_path, "def make_dataset():\n    return tf.data.Dataset.range(9).filter(lambda n: n > 9)\n"
        )
        assert "the dataset gives no element" in sentence(diagnose(path))

    def test_an_element_that_raises_is_named_with_its_call(self, tmp_path: Path) -> None:
        path = module(
            tmp_path,
            "def check(n):\n"
            "    few = tf.debugging.assert_less(n, tf.constant(499, tf.int64), message='too far')\n"
            "    with tf.control_dependencies([few]):\n"
            "        return tf.identity(n)\n\n\n"
            "def make_dataset():\n"
            "    numbers = tf.data.Dataset.range(2000)\n"
            "    checked = numbers.map(check)\n"
            "    return checked.batch(4)\n",
        )
        words = sentence(diagnose(path), 1)
        assert "element 500 of .map at pipeline.py:13 raised InvalidArgumentError" in words
        assert "too far" in words

    def test_what_hangs_is_ended_with_what_is_known(self, tmp_path: Path) -> None:
        path = module(
            tmp_path,
            "def wait(n):\n    time.sleep(600)\n    return n\n\n\n"
            "def make_dataset():\n"
            "    numbers = tf.data.Dataset.range(64)\n"
            "    return numbers.map(lambda n: tf.numpy_function(wait, [n], tf.int64))\n",
        )
        out = tmp_path / "result.json"
        done = diagnose(path, "--json", str(out), budget_s=20)
        assert done.returncode == 1, done.stderr
        assert "cut off by --budget-s while timing .map at pipeline.py:12" in done.stdout
        ladder = json.loads(out.read_text())["ladder"]
        assert [row["call"] for row in ladder] == ["range", "map"]
        assert ladder[0]["per_s"] > 0
        assert ladder[1]["per_s"] is None

    def test_a_step_that_raises_is_named(self, tmp_path: Path) -> None:
        path = module(
            tmp_path,
            "def make_dataset():\n    return tf.data.Dataset.range(64).batch(4)\n\n\n"
            "def train_step(numbers):\n    raise KeyError('loss')\n",
        )
        words = sentence(diagnose(path, "--step", f"{path}:train_step"), 1)
        assert "KeyError at pipeline.py:10: 'loss'" in words


def test_an_endless_generator_is_measured(tmp_path: Path) -> None:
    path = module(
        tmp_path,
        "def numbers():\n    n = 0\n    while True:\n        yield n\n        n += 1\n\n\n"
        "def make_dataset(size=2):\n"
        "    spec = tf.TensorSpec([], tf.int64)\n"
        "    return (\n"
        "        tf.data.Dataset.from_generator(numbers, output_signature=spec)\n"
        "        .batch(size)\n"
        "    )\n",
    )
    out = tmp_path / "result.json"
    done = diagnose(path, "--json", str(out), "--args", '{"size": 8}')
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].strip().startswith("this takes about ")
    told = json.loads(out.read_text())
    assert [(row["call"], row["line"]) for row in told["ladder"]] == [("from_generator", 15), ("batch", 16)]
    assert told["ladder"][1]["element"] == ["int64[?]"]
    assert told["verdict"]["limit"] == "no step"
