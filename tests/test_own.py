"""Loaders and models of one's own: how they are found, what they are held to, and the docs' examples."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loaders.config import LoaderConfig
from loaders.contract import check_contract
from loaders.factory import make_loader
from loaders.reference import load_reference, short_name
from tests.command import ROOT, sentence, train
from tests.data import Data, collect, open_loader
from tests.data import config as data_config

LOADER = "docs/examples/per_record_loader.py:make_loader"
MODEL = "docs/examples/tiny_model.py:make_model"


class TestReference:
    def test_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(
            "import helper_of_mine\ndef make(x):\n    return helper_of_mine.K * x\n"
        )
        (tmp_path / "helper_of_mine.py").write_text("K = 3\n")
        assert load_reference(f"{tmp_path}/mine.py:make", flag="--loader")(2) == 6
        assert "mine" not in sys.modules

    def test_a_file_named_like_one_of_ours(self, tmp_path: Path) -> None:
        (tmp_path / "tools.py").write_text("def make():\n    return 'theirs'\n")
        assert load_reference(f"{tmp_path}/tools.py:make", flag="--loader")() == "theirs"
        import tools

        assert Path(str(tools.__file__)).parent == ROOT / "tools"

    def test_a_module(self) -> None:
        assert load_reference("json:dumps", flag="--loader")([1]) == "[1]"

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("nowhere.py:make", "there is no file nowhere.py"),
            ("json:make", "json has no 'make'"),
            ("no_such_module_here:make", "importing it failed: ModuleNotFoundError"),
            ("tools.measure:make", "'tools' is a package of feedline too"),
            (":make", "must be path/to/file.py:function or module:function"),
            ("json:", "must be path/to/file.py:function or module:function"),
        ],
    )
    def test_mistakes(self, text: str, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            load_reference(text, flag="--loader")

    @pytest.mark.parametrize("body", ["raise RuntimeError('boom')", "import sys; sys.exit(3)", "def"])
    def test_a_file_that_fails(self, tmp_path: Path, body: str) -> None:
        (tmp_path / "bad.py").write_text(body)
        with pytest.raises(
            ValueError, match=r"importing it failed: (RuntimeError: boom|SystemExit|SyntaxError)"
        ):
            load_reference(f"{tmp_path}/bad.py:make", flag="--model")

    def test_short_name(self) -> None:
        assert short_name("a/b/mine.py:make") == "mine.py:make"
        assert short_name("tfdata") == "tfdata"


class TestContract:
    def _loader(self, config: LoaderConfig, shards: Data, **changes: Any) -> Any:
        good = open_loader(shards.pattern, "tfdata")
        return SimpleNamespace(
            **{
                "name": "x", "decode": "y", "source": good.source, "element_spec": good.element_spec,
                "dataset": good.dataset, **changes,
            }
        )  # fmt: skip

    def test_every_loader_of_the_project_keeps_it(self, shards: Data, backend: str) -> None:
        for form in ("train", "eval", "predict"):
            config = data_config(shards.pattern, backend, form=form)
            check_contract(make_loader(config), config)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"element_spec": ()}, "element_spec must be image uint8"),
            ({"source": None}, "source.schema must be"),
            ({"dataset": list}, "gives no batch"),
            ({"dataset": lambda: [(1,)]}, r"must be 2 tensors \(image, tokens\): 1"),
            (
                {"dataset": lambda: [(np.zeros((16, 32, 96, 3), np.uint8), np.zeros((15, 4), np.uint8))]},
                r"tokens must be uint8\[16, 4\]: uint8\[15, 4\]",
            ),
            (
                {"dataset": lambda: [(np.zeros((16, 32, 96, 3), np.float32), np.zeros((16, 4), np.uint8))]},
                r"image must be uint8\[16, 32, 96, 3\]: float32",
            ),
        ],
    )
    def test_what_it_refuses(self, shards: Data, change: dict[str, Any], words: str) -> None:
        config = data_config(shards.pattern, "tfdata")
        with pytest.raises(ValueError, match=words):
            check_contract(self._loader(config, shards, **change), config)

    def test_a_missing_attribute(self, shards: Data) -> None:
        loader = self._loader(data_config(shards.pattern, "tfdata"), shards)
        del loader.decode
        with pytest.raises(ValueError, match="must have 'decode'"):
            check_contract(loader, data_config(shards.pattern, "tfdata"))


OWN = """
import tensorflow as tf
from docs.examples.per_record_loader import PerRecordLoader
from loaders.factory import open_source

class Short(PerRecordLoader):
    def dataset(self, start_step=0):
        return super().dataset().take(4)

class Raising(PerRecordLoader):
    def dataset(self, start_step=0):
        def boom(step, batch):
            if step == 4:
                raise RuntimeError("boom in the middle")
            return 0
        def check(step, batch):
            with tf.control_dependencies([tf.py_function(lambda s: boom(int(s), 0), [step], tf.int64)]):
                return tuple(map(tf.identity, batch))
        return super().dataset().enumerate().map(check)

def short(config): return Short(config, open_source(config))
def raising(config): return Raising(config, open_source(config))
def no_arguments(): pass
def refuses(config): raise ValueError("not today")
"""


class TestOwnCodeThatFails:
    @pytest.fixture
    def own(self, tmp_path: Path) -> str:
        (tmp_path / "own.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{OWN}")
        return f"{tmp_path}/own.py"

    def _train(self, own: str, shards: Data, function: str, flag: str = "--loader") -> Any:
        arguments = ("--data", shards.pattern, "--batch-size", "16", "--steps", "9")
        return train(flag, f"{own}:{function}", *arguments)

    def test_the_function_raises(self, own: str, shards: Data) -> None:
        assert "--loader" in (words := sentence(self._train(own, shards, "no_arguments")))
        assert "own.py:no_arguments: it raised TypeError: no_arguments() takes 0" in words
        assert "own.py:refuses: not today" in sentence(self._train(own, shards, "refuses"))
        assert "it raised TypeError" in sentence(self._train(own, shards, "no_arguments", "--model"))

    def test_the_dataset_ends(self, own: str, shards: Data) -> None:
        assert "ended after 4 of 9 steps" in sentence(self._train(own, shards, "short"), 1)

    def test_the_dataset_raises(self, own: str, shards: Data) -> None:
        done = self._train(own, shards, "raising")
        # TensorFlow shows where the user's function raised; feedline ends with its one sentence.
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1
        assert "own.py:raising" in last
        assert "boom in the middle" in last


class TestExamples:
    def test_the_loader_gives_what_tfdata_gives(self, shards: Data) -> None:
        changes = {"deterministic": True, "shuffle": "none", "with_ids": True}
        theirs = collect(open_loader(shards.pattern, str(ROOT / LOADER), **changes).dataset(), 12)
        ours = collect(open_loader(shards.pattern, "tfdata", **changes).dataset(), 12)
        for left, right in zip(theirs, ours, strict=True):
            np.testing.assert_array_equal(left, right)

    def test_both_train(self, shards: Data, tmp_path: Path) -> None:
        done = train(
            *("--loader", LOADER, "--model", MODEL, "--data", shards.pattern, "--batch-size", "16"),
            *("--steps", "10", "--xla", "jit", "--json", tmp_path / "run.json"),
        )
        assert done.returncode == 0, done.stderr
        summary = json.loads((tmp_path / "run.json").read_bytes())
        assert summary["loader"] == "per record"
        assert len(summary["compiles"]) == 1

    def test_what_the_example_cannot_do_it_says(self, shards: Data) -> None:
        done = train(
            "--loader", LOADER, "--data", shards.pattern, "--image-dtype", "float32", "--batch-size", "16"
        )
        assert "gives uint8 training batches" in sentence(done)

    def test_evaluating_goes_by_the_same_reference(self, shards: Data) -> None:
        """The loader's own name, "per record", is no loader that could be asked for."""
        arguments = ("--data", shards.pattern, "--eval-data", shards.pattern, "--batch-size", "16")
        words = sentence(train("--loader", LOADER, *arguments))
        assert words.startswith(f"--loader {LOADER}: the per-record example gives uint8 training batches")

    def test_a_model_of_another_shape(self, shards: Data, tmp_path: Path) -> None:
        (tmp_path / "m.py").write_text(
            "import keras\ndef make(schema):\n"
            "    image = keras.Input((schema.height, schema.width, 3))\n"
            "    return keras.Sequential([image, keras.layers.Flatten()])\n"
        )
        done = train("--model", f"{tmp_path}/m.py:make", "--data", shards.pattern, "--batch-size", "16")
        assert "output_shape must be (None, 4, 11)" in sentence(done)
