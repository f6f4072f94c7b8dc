"""What the doctor reads out of TensorFlow's profiles: one that was really made, and some with known times."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from tools.doctor.tf_profile import LIMITS, ProfileReport, read_profile
from tools.doctor.tf_profile_table import show_profile

MS = 10**9
"""In picoseconds."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> ProfileReport:
    """12 steps of 8 decoded PNGs, whose height takes 3 values: the step is compiled for each."""
    import numpy as np
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("profile")
    random = np.random.default_rng(0)
    pngs = [tf.io.encode_png(random.integers(0, 255, (96, 96, 3), dtype=np.uint8)).numpy() for _ in range(8)]

    def decode(png: Any) -> Any:
        image = tf.ensure_shape(tf.io.decode_png(png, channels=3), (96, 96, 3))
        return tf.cast(image, tf.float32)

    @tf.function(jit_compile=True)
    def step(image_BHWC: Any) -> Any:
        return tf.reduce_mean(tf.square(image_BHWC))

    dataset = tf.data.Dataset.from_tensor_slices(pngs).repeat()
    batches = iter(dataset.map(decode, num_parallel_calls=2).batch(8).prefetch(1))
    next(batches)
    tf.profiler.experimental.start(str(folder), tf.profiler.experimental.ProfilerOptions(host_tracer_level=2))
    for number in range(12):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            step(next(batches)[:, : 96 - number % 3])
    tf.profiler.experimental.stop()
    return read_profile(folder)


class TestRealProfile:
    def test_the_map_and_its_decoding(self, real: ProfileReport) -> None:
        (mapped,) = (op for op in real.tfdata_ops if "Map" in op.name)
        assert "ParallelMap" in mapped.dataset
        assert mapped is real.tfdata_ops[0]
        assert 8 <= mapped.calls <= 16
        (decoded,) = (op for op in real.ops if op.type == "DecodePng")
        assert 60 <= decoded.calls <= 130
        # Calls that began before the profile are nobody's.
        assert 0 < decoded.seconds <= 2 * mapped.work_s
        assert mapped.work_s < 2.5 * os.cpu_count() * real.seconds  # type: ignore[operator]

    def test_the_source_is_asked_by_the_map(self, real: ProfileReport) -> None:
        (repeated,) = (op for op in real.tfdata_ops if op.name == "ForeverRepeat")
        assert repeated.path.endswith("MapAndBatch::ForeverRepeat")
        # TensorFlow numbers the datasets of the whole process.
        assert re.fullmatch(r"RepeatDataset:\d+", repeated.dataset or "")
        assert 0 < repeated.self_s <= repeated.total_s < real.seconds

    def test_every_shape_is_compiled_once(self, real: ProfileReport) -> None:
        (compiled,) = real.compiles
        assert (compiled.name, compiled.calls, compiled.traces, compiled.count) == ("step", 12, 3, 3)
        assert 0 < compiled.seconds < real.seconds
        assert 0 < compiled.trace_s < real.seconds
        assert real.compile_s == pytest.approx(compiled.seconds)

    def test_waiting_and_steps(self, real: ProfileReport) -> None:
        assert real.waiting_s is not None
        assert 0 < real.waiting_s < real.seconds
        (steps,) = real.steps
        assert (steps.name, steps.count) == ("train", 12)
        assert steps.count * steps.mean_s <= real.seconds
        assert steps.longest_s >= steps.mean_s
        assert 0 < real.busy_threads < 16

    def test_shown_and_as_json(self, real: ProfileReport) -> None:
        text = _text(real)
        assert text.startswith(f"waiting for input {real.waiting_s / real.seconds:.1%}, compiling ")  # type: ignore[operator]
        for words in (real.run, "12 steps marked train", "DecodePng", "MapAndBatch", "tools/diagnose.py"):
            assert words in text
        read = json.loads(json.dumps(real.to_json(), allow_nan=False))
        assert read["verdict"] == real.verdict
        assert read["limits"] == LIMITS
        assert read["tfdata_ops"][0]["name"] == real.tfdata_ops[0].name


class Profile:
    """An XSpace by hand: ``thread`` takes (name, begin, milliseconds, stats)."""

    def __init__(self) -> None:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2

        self.space = xplane_pb2.XSpace()
        self.plane = self.space.planes.add(name="/host:CPU")

    def watched(self, milliseconds: int) -> Profile:
        plane = self.space.planes.add(name="Task Environment")
        for number, (name, value) in enumerate(
            (("profile_start_time", 10**18), ("profile_stop_time", 10**18 + milliseconds * 10**6)), 1
        ):
            plane.stat_metadata[number].name = name
            plane.stats.add(metadata_id=number, uint64_value=value)
        return self

    def thread(self, name: str, *events: tuple[Any, ...], plane: Any = None) -> Profile:
        plane = self.plane if plane is None else plane
        line = plane.lines.add(id=len(plane.lines), name=name, timestamp_ns=1_000_000)
        for title, begin, length, *stats in events:
            number = self._number(plane.event_metadata, title)
            event = line.events.add(
                metadata_id=number, offset_ps=round(begin * MS), duration_ps=round(length * MS)
            )
            for key, value in (stats[0] if stats else {}).items():
                kind = "int64_value" if isinstance(value, int) else "str_value"
                event.stats.add(metadata_id=self._number(plane.stat_metadata, key), **{kind: value})
        return self

    def _number(self, metadata: Any, name: str) -> int:
        for number, each in metadata.items():
            if each.name == name:
                return int(number)
        number = len(metadata) + 1
        metadata[number].id = number
        metadata[number].name = name
        return number

    def write(self, folder: Path, run: str = "2026_01_02_03_04_05", host: str = "h") -> Path:
        path = folder / "plugins" / "profile" / run / f"{host}.xplane.pb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.space.SerializeToString())
        return path


def _text(report: ProfileReport) -> str:
    console = Console(file=io.StringIO(), width=140, force_terminal=False)
    show_profile(report, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def _ops(report: ProfileReport) -> dict[str, tuple[Any, ...]]:
    return {op.name: (op.calls, op.total_s, op.self_s, op.work_s) for op in report.tfdata_ops}


class TestKnownTimes:
    def test_self_time_is_without_the_ops_inside(self, tmp_path: Path) -> None:
        Profile().watched(100).thread(
            "python",
            ("IteratorGetNextOp::DoCompute", 0, 40),
            ("Iterator::Root", 1, 38),
            ("Iterator::Root::Batch", 2, 36, {"name": "BatchDatasetV2:2"}),
            ("Iterator::Root::Batch::Map", 3, 10, {"name": "MapDataset:1"}),
            ("Iterator::Root::Batch::Map[0]::TensorSlice", 4, 3),
            ("Iterator::Root::Batch::Map", 20, 15),
            ("Iterator::Root::Batch::Map[1]::TensorSlice", 21, 5),
        ).write(tmp_path)
        report = read_profile(tmp_path)
        assert _ops(report) == {
            "Map": (2, 0.025, 0.017, 0.017),
            "Batch": (1, 0.036, 0.011, 0.011),
            "TensorSlice": (2, 0.008, 0.008, 0.008),
        }
        assert [op.dataset for op in report.tfdata_ops] == ["MapDataset:1", "BatchDatasetV2:2", ""]
        assert report.tfdata_ops[0].path == "Batch::Map"
        assert (report.run, report.hosts) == ("2026_01_02_03_04_05", ("h",))
        assert (report.seconds, report.waiting_s) == (0.1, 0.04)
        assert report.verdict == "waiting for input 40.0%, compiling 0.0%, tracing 0.0% of 0.1 s"

    def test_a_parallel_map_costs_what_its_functions_cost(self, tmp_path: Path) -> None:
        Profile().watched(100).thread(
            "python", ("Iterator::Root", 0, 50), ("Iterator::Root::ParallelMapV2", 0, 50)
        ).thread(
            "tf_data_iterator_resource/1",
            ("ParallelMapProduce", 0, 9),
            ("Iterator::Root::ParallelMapV2::TFRecord", 1, 6),
            ("InstantiatedCapturedFunction::RunAsync", 8, 0.5, {"id": 7}),
        ).thread(
            "tf_data_private_threadpool/2",
            ("ExecutorState::Process", 10, 30, {"id": 7}),
            ("decode:DecodePng", 11, 20),
            ("ExecutorState::Process", 50, 4, {"id": 8}),
            ("other:Cast", 50, 4),
        ).write(tmp_path)
        report = read_profile(tmp_path)
        # 30 ms of its function and 3 of its own thread; waiting for them is no work.
        assert _ops(report) == {
            "ParallelMapV2": (1, 0.05, 0.05, 0.033),
            "TFRecord": (1, 0.006, 0.006, 0.006),
        }
        assert report.tfdata_ops[1].thread == "tf_data_iterator_resource"
        assert [(op.type, op.name, op.seconds) for op in report.ops] == [
            ("DecodePng", "decode", 0.02), ("Cast", "other", 0.004),
        ]  # fmt: skip
        # Without a get-next the outermost iterator tells the waiting; busy are 30 + 4 and the read of 6 ms.
        assert report.waiting_s == 0.05
        assert report.busy_threads == pytest.approx(0.4)

    def test_ops_are_without_ops_inside_and_calls_are_none(self, tmp_path: Path) -> None:
        Profile().watched(100).thread(
            "tf_Compute/1",
            ("__inference_step_9:__inference_step_9", 0, 60),
            ("outer:MapDefun", 0, 50),
            ("map/while/body/_7/map/while/inner:MatMul", 10, 20),
            ("fusion.3", 35, 10, {"hlo_op": "fusion.3", "hlo_module": "m"}),
            ("MakeIterator::TensorSliceDataset", 70, 5),
            ("EagerLocalExecute: Cast", 70, 5),
            ("get:IteratorGetNext", 80, 10),
        ).write(tmp_path)
        report = read_profile(tmp_path)
        assert {(op.type, op.name): op.seconds for op in report.ops} == {
            ("MapDefun", "outer"): 0.02,
            ("MatMul", "map/while/inner"): 0.02,
            ("XLA:fusion", "fusion.3"): 0.01,
        }
        assert report.waiting_s == 0.01
        assert report.busy_threads == pytest.approx(0.5)

    def test_compiling_lasts_from_the_op_to_the_run(self, tmp_path: Path) -> None:
        module = {"name": "a_inference_my_step_74__XlaMustCompile_true_config_proto_1_executor_type_2_.2"}
        Profile().watched(1000).thread(
            "python",
            ("my_step", 0, 400, {"tf_function_call": "notTraced-xla"}),
            ("tf.function-graph_building", 10, 50),
            ("__inference_my_step_74:__inference_my_step_74", 100, 300),
            ("HLO passes through layout assignment", 110, 20),
            ("CpuCompiler::RunBackend", 140, 200, module),
            ("CpuCompiler::CompileCpuExecutable", 141, 190, module),
            ("CpuExecutable::ExecuteAsyncOnStream", 350, 40),
            ("my_step", 400, 50, {"tf_function_call": "notTraced-xla"}),
            ("__inference_my_step_74:__inference_my_step_74", 400, 50),
            ("CpuExecutable::ExecuteAsyncOnStream", 401, 40),
            ("cluster_0_1/xla_compile:_XlaCompile", 500, 100),
            ("HLO Transforms:cluster_0__XlaCompiledKernel_true.2", 510, 80),
        ).thread("tf_xla-cpu-codegen/3", ("FusionCompiler::Compile", 150, 100)).write(tmp_path)
        report = read_profile(tmp_path)
        found = [(c.name, c.calls, c.count, c.seconds, c.traces, c.trace_s) for c in report.compiles]
        assert found == [("my_step", 2, 1, 0.25, 1, 0.05), ("cluster_0", 0, 1, 0.09, 0, 0)]
        assert (report.compile_s, report.trace_s, report.waiting_s) == (0.34, 0.05, None)
        words = "waiting for input: no iterator in the profile, compiling 34.0%, tracing 5.0% of 1 s"
        assert report.verdict == words

    def test_a_compile_outside_of_any_op(self, tmp_path: Path) -> None:
        Profile().watched(100).thread(
            "worker",
            ("HLO Transforms:cluster_7__XlaCompiledKernel_true", 0, 10),
            ("GpuCompiler::RunBackend", 10, 30, {"module": "cluster_7__XlaCompiledKernel_true"}),
            ("HLO passes through layout assignment", 50, 5),
            ("HLO passes after layout assignment", 55, 5),
            ("CpuCompiler::RunBackend", 60, 10, {"name": "a_inference_f_9__"}),
            ("CpuCompiler::RunBackend", 80, 10, {"name": "a_inference_f_9__"}),
        ).write(tmp_path)
        found = [(each.name, each.count, each.seconds) for each in read_profile(tmp_path).compiles]
        assert found == [("cluster_7", 1, 0.04), ("f", 2, 0.03)]

    def test_a_device(self, tmp_path: Path) -> None:
        profile = Profile().watched(100).thread("python", ("train", 0, 90, {"step_num": 3}))
        device = profile.space.planes.add(name="/device:GPU:0")
        kernel = ("loop_fusion", 10, 30, {"hlo_op": "loop_fusion.1"})
        profile.thread("Stream #1", kernel, ("gemm", 50, 5, {"tf_op": "dense/MatMul:MatMul"}), plane=device)
        profile.thread("Stream #2", ("MemcpyH2D", 35, 10), plane=device)
        profile.thread("Steps", ("3", 0, 100), plane=device)
        profile.write(tmp_path)
        report = read_profile(tmp_path)
        assert report.device_busy_s == 0.04
        assert [(op.where, op.type, op.name) for op in report.ops] == [
            ("GPU:0", "XLA:loop_fusion", "loop_fusion.1"),
            ("GPU:0", "kernel", "MemcpyH2D"),
            ("GPU:0", "MatMul", "dense/MatMul"),
        ]
        assert "the device 40.0% of the time" in _text(report)
        assert report.steps[0].mean_s == 0.09

    def test_without_the_profilers_times_the_events_tell_them(self, tmp_path: Path) -> None:
        Profile().thread("python", ("a:Cast", 5, 10), ("b:Cast", 100, 5)).write(tmp_path)
        assert read_profile(tmp_path).seconds == 0.1


class TestFiles:
    def test_the_newest_run_with_all_its_hosts(self, tmp_path: Path) -> None:
        train = tmp_path / "train"
        for milliseconds, run, host in (
            (10, "2026_01_02_03_04_05", "a"),
            (20, "2026_01_02_03_04_05", "b"),
            (40, "2025_12_31_23_59_59", "a"),
        ):
            profile = Profile().watched(100)
            profile.thread("python", ("IteratorGetNextOp::DoCompute", 0, milliseconds), ("x:Cast", 50, 10))
            path = profile.write(train, run, host)
        os.utime(path, (2**31, 2**31))
        report = read_profile(tmp_path)
        assert (report.run, report.hosts) == ("2026_01_02_03_04_05", ("a", "b"))
        # Ops are summed, the waiting is that of the host that waits most.
        assert (report.waiting_s, report.ops[0].calls, report.seconds) == (0.02, 2, 0.1)
        assert report.busy_threads == pytest.approx(0.1)

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"there is no folder .*nowhere to look for a profile in$"):
            read_profile(tmp_path / "nowhere")

    def test_no_profile(self, tmp_path: Path) -> None:
        (tmp_path / "events.out.tfevents.1.vm").write_bytes(b"x")
        with pytest.raises(
            ValueError, match=r"has no profile: no plugins/profile/RUN/HOST\.xplane\.pb in or"
        ):
            read_profile(tmp_path)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", r"h\.xplane\.pb is empty: the job ended before its profile was written$"),
            (b"\x89PNG\r\n\x1a\n" + bytes(64), r"h\.xplane\.pb can't be parsed: it is damaged, or no Tens"),
            (b"\x22\x02vm", r"h\.xplane\.pb holds no events: it is no TensorFlow profile, or nothing ran"),
        ],
    )
    def test_no_profile_in_the_file(self, content: bytes, words: str, tmp_path: Path) -> None:
        Profile().write(tmp_path).write_bytes(content)
        with pytest.raises(ValueError, match=words):
            read_profile(tmp_path)

    def test_cut_off(self, tmp_path: Path) -> None:
        path = Profile().watched(9).thread("python", ("a:Cast", 0, 5)).write(tmp_path)
        path.write_bytes(path.read_bytes()[:-3])
        with pytest.raises(ValueError, match=r"h\.xplane\.pb can't be parsed"):
            read_profile(tmp_path)

    def test_too_long_for_protobuf(self, tmp_path: Path) -> None:
        path = Profile().write(tmp_path)
        with path.open("r+b") as file:
            file.truncate(2**31)
        with pytest.raises(ValueError, match=r"can't be parsed: 2147483648 bytes, and a profile has at most"):
            read_profile(tmp_path)

    def test_names_from_the_file_reach_no_terminal_as_commands(self, tmp_path: Path) -> None:
        profile = Profile().watched(9).thread("python", ("[red]a\x1b]0;x\x07:Cast", 0, 5))
        profile.space.errors.append("lost\x1b[2J [bold]events")
        profile.write(tmp_path)
        text = _text(read_profile(tmp_path))
        assert "[red]a?]0;x?" in text
        assert "lost?[2J [bold]events" in text
        assert "\x1b" not in text

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_damaged_bytes_are_read_or_refused(self, data: st.DataObject, tmp_path: Path) -> None:
        path = (
            Profile()
            .watched(100)
            .thread(
                "python",
                ("IteratorGetNextOp::DoCompute", 0, 40),
                ("Iterator::Root::Batch", 2, 36, {"name": "BatchDatasetV2:2"}),
                ("f", 50, 40, {"tf_function_call": "x"}),
                ("__inference_f_1:__inference_f_1", 51, 30),
                ("CpuCompiler::RunBackend", 52, 10, {"name": "a_inference_f_1__X.2"}),
                ("ExecutorState::Process", 90, 4, {"id": 7}),
            )
            .write(tmp_path)
        )
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            report = read_profile(tmp_path)
        except ValueError as refused:
            if str(path) not in str(refused):
                raise
            return
        _text(report)
        json.dumps(report.to_json(), allow_nan=False)
