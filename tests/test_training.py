"""python -m training, end to end and through its command line; and the parts that figures come from."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loaders.writer import encode_example
from tests.command import run, sentence, train
from tests.data import Data, encode_png, feature, pixels, write_shard
from training import loop
from training.config import TrainingConfig
from training.native_log import NativeLog
from training.timing import WARM_UP_STEPS, StepTimes

RECORDS = 157


@pytest.fixture(scope="module", params=["tfdata", pytest.param("dali", marks=pytest.mark.dali)])
def trained(request: pytest.FixtureRequest, shards: Data, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of one backend over two shuffled epochs, with everything that it can write."""
    folder = tmp_path_factory.mktemp("trained")
    done = train(
        *("--loader", request.param, "--data", shards.pattern, "--eval-data", shards.pattern),
        *("--batch-size", "16", "--epochs", "2", "--log-every", "5", "--augment", "light"),
        *("--json", folder / "run.json", "--log-ids", folder / "ids.csv"),
        *("--logdir", folder / "board", "--profile-steps", "6:9"),
    )
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(
        backend=request.param,
        folder=folder,
        done=done,
        summary=json.loads((folder / "run.json").read_bytes()),
    )


@pytest.mark.timeout(600)
class TestRun:
    def test_summary_has_a_figure_for_every_step(self, trained: Any) -> None:
        summary = trained.summary
        steps = RECORDS * 2 // 16
        assert (summary["loader"], summary["xla"], summary["steps"]) == (trained.backend, "off", steps)
        assert len(summary["loss"]) == len(summary["step_s"]) == len(summary["wait_s"]) == steps
        assert all(0 <= wait <= step for wait, step in zip(summary["wait_s"], summary["step_s"], strict=True))
        assert summary["images_per_s"] > 0
        assert 0 <= summary["wait_share"] <= 1
        assert 0 <= summary["token_accuracy"] <= 1
        assert 0 <= summary["line_accuracy"] <= 1
        assert summary["compile_s"] == 0

    def test_log_ids_has_every_record_but_the_dropped_remainder(self, trained: Any, shards: Data) -> None:
        with (trained.folder / "ids.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [int(row["step"]) for row in rows] == [
            step for step in range(RECORDS * 2 // 16) for _ in range(16)
        ]
        first = Counter(row["image_id"] for row in rows if row["epoch"] == "0")
        second = Counter(row["image_id"] for row in rows if row["epoch"] == "1")
        assert first == Counter(shards.ids)
        assert max(second.values()) == 1
        assert sum(second.values()) == RECORDS - RECORDS * 2 % 16
        assert set(second) <= set(shards.ids)

    def test_shuffled(self, trained: Any, shards: Data) -> None:
        with (trained.folder / "ids.csv").open(newline="") as file:
            ids = [row["image_id"] for row in csv.DictReader(file) if row["epoch"] == "0"]
        assert ids != list(shards.ids)

    def test_progress_lines_tell_step_loss_rate_and_waiting(self, trained: Any) -> None:
        lines = [line for line in trained.done.stderr.splitlines() if line.startswith("step ")]
        assert len(lines) == 4, trained.done.stderr
        assert all("loss" in line and "img/s" in line and "waiting for data" in line for line in lines)

    def test_board_and_profile(self, trained: Any) -> None:
        assert list((trained.folder / "board").glob("events.out.*"))
        (profile,) = (trained.folder / "board").rglob("*.xplane.pb")
        content = profile.read_bytes()
        assert b"wait_for_data" in content
        assert b"train" in content
        assert len(content) < 50e6

    def test_nothing_of_tensorflows_own_chatter_is_shown(self, trained: Any) -> None:
        assert "rebuild TensorFlow" not in trained.done.stderr
        assert "InitializeLog" not in trained.done.stderr


@pytest.mark.dali
def test_losses_of_both_loaders_are_equal(shards: Data, tmp_path: Path) -> None:
    losses = []
    for loader in ("tfdata", "dali"):
        done = train(
            *("--loader", loader, "--data", shards.pattern, "--batch-size", "16", "--steps", "20"),
            *("--xla", "off", "--seed", "1", "--deterministic", "--shuffle", "none"),
            *("--json", tmp_path / f"{loader}.json"),
        )
        assert done.returncode == 0, done.stderr
        losses.append(json.loads((tmp_path / f"{loader}.json").read_bytes())["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=1e-5)
    assert losses[0][-1] < losses[0][0]


@pytest.mark.parametrize(("xla", "precision"), [("jit", "mixed_float16"), ("auto", "mixed_bfloat16")])
def test_xla_compiles_and_says_so(shards: Data, tmp_path: Path, xla: str, precision: str) -> None:
    done = train(
        *("--loader", "tfdata", "--data", shards.pattern, "--batch-size", "16", "--steps", "12"),
        *("--xla", xla, "--precision", precision, "--augment", "light", "--json", tmp_path / "run.json"),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run.json").read_bytes())
    assert summary["compile_s"] > 0
    assert np.isfinite(summary["loss"]).all()
    if xla == "jit":
        # One shape, one compile: whatever the number of steps.
        assert len(summary["compiles"]) == 1
        assert "xla jit: 1 compiles" in done.stdout
    else:
        assert (
            f"xla auto compiled {len({each['name'] for each in summary['compiles']})} clusters" in done.stdout
        )


def test_help_does_not_import_tensorflow() -> None:
    code = (
        "import sys, runpy\n"
        "sys.argv = ['training', '--help']\n"
        "try: runpy.run_module('training', run_name='__main__')\n"
        "except SystemExit as exit_: status = exit_.code\n"
        "slow = {'tensorflow', 'keras', 'matplotlib', 'nvidia'} & set(sys.modules)\n"
        "sys.exit(f'{status} {slow}' if status or slow else 0)"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert "--profile-steps" in done.stdout


MISTAKES = {
    "no data": ((), "--data must name the shards"),
    "no match": (("--data", "nothing-*"), "--data 'nothing-*' matches no file"),
    "unknown flag": (("--dataa", "x"), "Unrecognized options: --dataa"),
    "unknown value": (("--xla", "fast"), "'fast'"),
    "unknown loader": (("--loader", "torch"), "--loader must be one of auto, tfdata, dali, cached, "),
    "no number": (("--batch-size", "many"), "--batch-size"),
    "below": (("--batch-size", "0"), "--batch-size must be at least 1: 0"),
    "profile without a folder": (("--profile-steps", "1:2"), "needs --logdir"),
    "profile backwards": (("--profile-steps", "3:2", "--logdir", "x"), "A:B with A below B: '3:2'"),
    "scale": (("--scale",), "--scale needs --image-dtype"),
    "evaluation without data": (("--eval-every", "5"), "need --eval-data"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name: str) -> None:
    arguments, words = MISTAKES[name]
    assert words in sentence(train(*arguments))


def test_fewer_records_than_a_batch(shards: Data) -> None:
    done = train("--loader", "tfdata", "--data", shards.pattern, "--batch-size", "158")
    assert "the 157 records are fewer than one batch of 158" in sentence(done)


def test_no_gpu_is_said(shards: Data) -> None:
    done = run(
        *("-m", "training", "--device", "gpu", "--data", shards.pattern),
        environment={"CUDA_VISIBLE_DEVICES": ""},
    )
    assert "--device gpu: TensorFlow sees no GPU" in sentence(done)


def test_output_that_cannot_be_written_is_said_before_training(shards: Data, tmp_path: Path) -> None:
    done = train("--data", shards.pattern, "--json", tmp_path / "nowhere" / "run.json")
    assert "there is no folder" in sentence(done)
    assert "step " not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_named(shards: Data) -> None:
    done = train("--data", shards.pattern, "--batch-size", "16", "--steps", "2", "--log-ids", "/dev/full")
    assert sentence(done, 1) == "/dev/full: the disk is full"


def test_ids_on_a_disk_that_fills_up_end_with_a_whole_step(tmp_path: Path) -> None:
    class Filling:
        """Takes a few bytes of the second step, and no more."""

        name = "ids.csv"

        def __init__(self) -> None:
            self.content = b""

        def tell(self) -> int:
            return len(self.content)

        def truncate(self, size: int) -> None:
            self.content = self.content[:size]

        def write(self, data: Any) -> int:
            room = 25 - len(self.content)
            if room <= 0:
                raise OSError(28, "No space left on device")
            self.content += bytes(data[:room])
            return min(room, len(data))

    file = Filling()
    loader: Any = SimpleNamespace(source=SimpleNamespace(plan=SimpleNamespace(epoch_of=lambda position: 0)))
    ids: Any = SimpleNamespace(numpy=lambda: np.frombuffer(b"a\0b\0", np.uint8).reshape(2, 2))
    loop._write_ids(file, ids, 0, loader, 2)
    loop._write_ids(file, ids, 1, loader, 2)
    with pytest.raises(OSError, match="No space left on device") as caught:
        loop._write_ids(file, ids, 2, loader, 2)
    assert caught.value.filename == "ids.csv"
    assert file.content == b"0,0,a\n0,0,b\n0,1,a\n0,1,b\n"


def test_a_single_label_under_other_names_trains(tmp_path: Path, backend: str) -> None:
    records = []
    for number in range(40):
        features = {
            "image/encoded": feature(encode_png(pixels(number, 24, 40))),
            "image/class/label": feature([number % 5]),
            "image/height": feature([24]),
        }
        records.append(encode_example(features))
    write_shard(tmp_path / "some-00000-of-00001", records)
    done = train(
        *("--loader", backend, "--data", tmp_path / "some-*", "--batch-size", "8", "--epochs", "2"),
        *("--eval-data", tmp_path / "some-*", "--json", tmp_path / "run.json"),
    )
    assert done.returncode == 0, done.stderr
    assert "--target-feature image/class/label --max-len 1 --height 24 --width 40" in done.stderr
    summary = json.loads((tmp_path / "run.json").read_bytes())
    assert summary["steps"] == 10
    # One code a record: a line is right exactly when its token is.
    assert summary["token_accuracy"] == summary["line_accuracy"]


class TestStepTimes:
    def test_rates_leave_the_warm_up_out(self) -> None:
        times = StepTimes(batch_size=10)
        for step in range(10):
            times.add(
                wait_s=0.25 if step >= WARM_UP_STEPS else 9.0, step_s=0.5 if step >= WARM_UP_STEPS else 10.0
            )
        assert times.images_per_s == pytest.approx(20)
        assert times.wait_share == pytest.approx(0.5)

    def test_few_steps_are_all_counted(self) -> None:
        times = StepTimes(batch_size=4)
        times.add(wait_s=1.0, step_s=2.0)
        assert times.images_per_s == pytest.approx(2)
        assert StepTimes(batch_size=4).images_per_s == 0


class TestEvaluate:
    def _run(self, max_len: int, tokens: Any, guesses: Any, valid: Any, records: int | None = None) -> Any:
        """Evaluate with a stand-in for the model that answers ``guesses``."""
        import tensorflow as tf

        from loaders.spec import Schema
        from training.loop import evaluate
        from training.step import Trainer

        config = TrainingConfig(batch_size=len(tokens))
        trainer = Trainer(config, Schema(max_len=max_len, height=8, width=8, num_classes=5))
        trainer.model = lambda image, training: tf.one_hot(tf.constant(guesses), 5)
        trainer.evaluate = trainer._evaluate
        element = (tf.zeros([len(tokens), 8, 8, 3]), tf.constant(tokens, tf.uint8), tf.constant(valid))
        loader = SimpleNamespace(dataset=lambda: [element])
        return evaluate(trainer, loader, records)  # type: ignore[arg-type]

    def test_padding_is_not_counted(self) -> None:
        tokens = [[1, 2, 0], [3, 0, 0], [4, 4, 4]]
        guesses = [[1, 2, 1], [3, 0, 0], [0, 0, 0]]
        result = self._run(3, tokens, guesses, [True, True, False])
        # Codes that are no padding: 1, 2 and 3, all right; the first line names one too many.
        assert result["token_accuracy"] == 1.0
        assert result["line_accuracy"] == 0.5
        assert result["records"] == 2

    def test_class_0_is_a_class_where_there_is_one_label(self) -> None:
        result = self._run(1, [[0], [1], [0]], [[0], [0], [0]], [True, True, True])
        assert result["token_accuracy"] == result["line_accuracy"] == pytest.approx(2 / 3)

    def test_first_records_only(self) -> None:
        result = self._run(1, [[0], [1], [0]], [[0], [1], [1]], [True, True, True], records=2)
        assert result == {"token_accuracy": 1.0, "line_accuracy": 1.0, "records": 2}


def test_native_log_counts_compiles_and_passes_on_the_rest(capfd: pytest.CaptureFixture[str]) -> None:
    import os

    with NativeLog() as log:
        os.write(
            2, b"I0000 00:00:1.5 7 device_compilation_profiler.cc:113] Compiled __inference_step_9 2 times, "
        )
        os.write(2, b"compile time: 70805 us, cumulative: 90805 us (0 us / 70.8 ms)\n")
        os.write(2, b"I0000 00:00:1.5 7 other.cc:1] chatter\nW0000 00:00:1.5 7 other.cc:1] a warning\n")
        print("from Python", file=sys.stderr)
        log.settle()
        assert [(each.name, each.seconds) for each in log.compiles] == [("__inference_step_9", 0.070805)]
    said = capfd.readouterr().err
    assert "a warning" in said
    assert "from Python" in said
    assert "chatter" not in said
    assert "Compiled" not in said
