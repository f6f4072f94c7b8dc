"""The doctor's parts: lines of calls, what functions are made of, what changes are worth, what is a fault."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from loaders.cli import RunFailed
from tools.doctor import capacity, launch, rules_files, rules_memory, rules_order, rules_step, rules_threads
from tools.doctor.chain import Call, build
from tools.doctor.drain import drain, without_optimisations
from tools.doctor.facts import Facts, Loop, Mapped, Place, Rate, Row, StepFacts, from_json
from tools.doctor.findings import Finding, find
from tools.doctor.fixes import Change, applied
from tools.doctor.functions import is_random, is_stateful, ops_of, time_ops
from tools.doctor.ladder import feature_sizes, mapped_of
from tools.doctor.outlook import Outlook
from tools.doctor.run import RULES
from tools.doctor.verdict import judge
from tools.doctor.watch import Watch
from tools.doctor.xla_advice import advise

HERE = str(Path(__file__))


def line_of(text: str) -> int:
    """The one line of this file that ends with the comment ``# text``."""
    lines = [
        n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith(f"# {text}")
    ]
    assert len(lines) == 1, (text, lines)
    return lines[0]


def calls_of(make_dataset: Callable[[], Any]) -> list[tuple[str, int]]:
    return [(call.call, call.site.line) for call in build(make_dataset)[1]]


class TestChain:
    def test_each_call_of_a_chain_has_its_own_line(self) -> None:
        def make() -> Any:
            return (
                tf.data.Dataset.range(64)  # chain range
                .map(lambda n: n * 2, num_parallel_calls=2)  # chain map
                .shuffle(8)  # chain shuffle
                .batch(4, drop_remainder=True)  # chain batch
            )

        assert calls_of(make) == [
            (name, line_of(f"chain {name}")) for name in ("range", "map", "shuffle", "batch")
        ]
        calls = build(make)[1]
        assert [call.records for call in calls] == [1, 1, 1, 4]
        assert calls[1].parallel == 2
        assert calls[2].arguments["buffer_size"] == 8
        assert calls[3].arguments["drop_remainder"] is True
        assert all(call.site.file == HERE for call in calls)

    def test_what_one_call_makes_of_several_datasets_is_one_call(self, tmp_path: Path) -> None:
        names = [str(tmp_path / name) for name in "ab"]
        for name in names:
            tf.io.TFRecordWriter(name).close()

        def make() -> Any:
            files = tf.data.Dataset.list_files(str(tmp_path / "*"))
            records = tf.data.TFRecordDataset(files, num_parallel_reads=2)
            return records.interleave(
                lambda _: tf.data.Dataset.range(3), num_parallel_calls=2, cycle_length=3
            )

        calls = build(make)[1]
        assert [call.call for call in calls] == ["list_files", "TFRecordDataset", "interleave"]
        assert calls[1].arguments["num_parallel_reads"] == 2
        assert (calls[2].arguments["cycle_length"], calls[2].parallel) == (3, 2)

    def test_calls_made_in_a_loop_stay_apart(self) -> None:
        def make() -> Any:
            dataset = tf.data.Dataset.range(8)
            for factor in (2, 3, 5):
                dataset = dataset.map(lambda n, factor=factor: n * factor)  # in a loop
            return dataset

        assert calls_of(make)[1:] == [("map", line_of("in a loop"))] * 3

    def test_branches_come_before_the_call_that_joins_them(self) -> None:
        def make() -> Any:
            left = tf.data.Dataset.range(8).batch(2)
            right = tf.data.Dataset.from_generator(lambda: iter([1.0]), output_signature=tf.TensorSpec([]))
            return tf.data.Dataset.zip((left, right))

        calls = build(make)[1]
        assert [call.call for call in calls] == ["range", "batch", "from_generator", "zip"]
        assert [each.call for each in calls[-1].inputs] == ["batch", "from_generator"]

    def test_a_list_is_no_dataset(self) -> None:
        with pytest.raises(
            ValueError, match=r"the pipeline must be a tf\.data\.Dataset: a list was returned"
        ):
            build(lambda: [1])


def map_call(function: Callable[..., Any]) -> Call:
    return build(lambda: tf.data.Dataset.from_tensor_slices([b"a", b"b"]).map(function))[1][-1]


class TestFunctions:
    def test_a_random_function_is_stateful(self) -> None:
        mapped = mapped_of(map_call(lambda _: tf.random.uniform([])))  # draws
        assert mapped is not None
        assert mapped.stateful
        assert [place.line for place in mapped.random] == [line_of("draws")]

    def test_a_stateless_random_function_is_random_only(self) -> None:
        ops = ops_of(map_call(lambda _: tf.random.stateless_uniform([], [1, 2])).function)
        assert not is_stateful(ops)
        assert any(is_random(op) for op in ops)

    def test_python_is_seen(self) -> None:
        mapped = mapped_of(map_call(lambda s: tf.numpy_function(lambda b: np.int64(len(b)), [s], tf.int64)))
        assert mapped is not None
        assert len(mapped.python) == 1

    def test_a_loop_and_what_stands_in_it(self) -> None:
        def decode(name: Any) -> Any:
            return tf.map_fn(
                tf.io.decode_png, tf.repeat(name, 3), fn_output_signature=tf.uint8, parallel_iterations=1
            )

        mapped = mapped_of(map_call(decode))
        assert mapped is not None
        assert [loop.parallel_iterations for loop in mapped.loops] == [1]
        assert len(mapped.decodes) == 1
        assert not mapped.stateful

    def test_the_dearest_op_is_found_with_its_line(self) -> None:
        matrix = tf.random.stateless_uniform([300, 300], [1, 2])

        def work(name: Any) -> Any:
            small = tf.strings.length(name)
            return tf.reduce_sum(tf.linalg.matmul(matrix, matrix)) + tf.cast(small, tf.float32)  # dear

        call = map_call(work)
        element = next(iter(call.inputs[0].dataset))
        first = time_ops(call.function, (element,), seconds=0.2)[0]
        assert (first.type, first.site and first.site.line) == ("MatMul", line_of("dear"))
        assert first.share > 0.5


class TestDrain:
    def test_every_element_is_made_and_counted(self) -> None:
        made = tf.Variable(0, dtype=tf.int64)

        def count(n: Any) -> Any:
            made.assign_add(1)
            return n

        dataset = without_optimisations(tf.data.Dataset.range(1000).map(count).batch(10))
        drained = drain(dataset, seconds=0.2, chunk=7)
        assert drained.elements == 100
        assert drained.ended
        assert drained.bytes_per_element == 80
        assert int(made) >= 1000
        assert drained.per_s > 0

    def test_an_empty_dataset_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="it gives no element"):
            drain(tf.data.Dataset.range(0), seconds=0.1, chunk=5)

    def test_an_endless_one_is_cut_off(self) -> None:
        assert not drain(tf.data.Dataset.range(9).repeat(), seconds=0.1, chunk=5).ended


def change(kind: str, call: str, text: str, **more: Any) -> Change:
    return Change(kind=kind, call=call, file=HERE, line=line_of(text), **more)


class TestFixes:
    @staticmethod
    def make() -> Any:
        dataset = tf.data.Dataset.range(12)
        dataset = dataset.map(lambda n: n + 1)  # fix map
        dataset = dataset.batch(4)  # fix batch
        return dataset.shuffle(2)  # fix shuffle

    def fixed(self, *changes: Change) -> list[Any]:
        """The datasets behind the fixed pipeline, sources first."""
        with applied(changes):
            datasets = [self.make()]
        while datasets[0]._inputs():
            datasets.insert(0, datasets[0]._inputs()[0])
        return datasets

    @staticmethod
    def names(datasets: list[Any]) -> list[str]:
        return [type(each).__name__.strip("_").removesuffix("Dataset") for each in datasets]

    def test_arguments_are_given(self) -> None:
        datasets = self.fixed(change("argument", "map", "fix map", name="num_parallel_calls", value=-1))
        assert self.names(datasets) == ["Range", "ParallelMap", "Batch", "Shuffle"]
        datasets = self.fixed(change("argument", "batch", "fix batch", name="batch_size", value=3))
        assert int(datasets[2]._batch_size) == 3

    def test_records_are_shuffled_and_then_batched(self) -> None:
        datasets = self.fixed(
            change("drop", "shuffle", "fix shuffle"),
            change("before", "batch", "fix batch", name="shuffle", value=12),
        )
        assert self.names(datasets) == ["Range", "Map", "Shuffle", "Batch"]
        assert int(datasets[2]._buffer_size) == 12

    def test_a_call_is_added(self) -> None:
        datasets = self.fixed(change("insert", "shuffle", "fix shuffle", name="prefetch", value=2))
        assert self.names(datasets) == ["Range", "Map", "Batch", "Shuffle", "Prefetch"]

    def test_a_map_is_moved_behind_the_batch(self) -> None:
        move = change("behind", "map", "fix map", name="batch", value=[HERE, line_of("fix batch")])
        datasets = self.fixed(move)
        assert self.names(datasets) == ["Range", "Batch", "Map", "Shuffle"]
        assert [each.tolist() for each in datasets[2].as_numpy_iterator()] == [
            [1, 2, 3, 4],
            [5, 6, 7, 8],
            [9, 10, 11, 12],
        ]

    def test_an_option_is_set(self) -> None:
        with applied([change("option", "shuffle", "fix shuffle", name="deterministic", value=False)]):
            assert self.make().options().deterministic is False

    def test_afterwards_all_is_as_before(self) -> None:
        self.fixed(change("drop", "shuffle", "fix shuffle"))
        assert self.names(self.fixed()) == ["Range", "Map", "Batch", "Shuffle"]


class TestWatch:
    def test_a_shape_that_changes_is_traced_to_the_line_that_cut_it(self) -> None:
        with Watch() as watch:

            @tf.function
            def inner(tokens: Any) -> Any:
                return tf.reduce_sum(tokens)

            watch.note_origins()
            for longest in (3, 2):
                tokens = tf.ones([4, 8])
                tokens = tokens[:, :longest]  # trims
                inner(tokens)  # calls
        assert [event.traced for event in watch.events] == [True, True]
        argument = watch.events[1].arguments[0]
        assert (argument.name, argument.text) == ("tokens", "float32[4, 2]")
        assert argument.made_by is not None
        assert argument.made_by.line == line_of("trims")
        assert watch.events[1].call_site is not None
        assert watch.events[1].call_site.line == line_of("calls")

    def test_a_python_number_is_told_from_a_tensor(self) -> None:
        with Watch() as watch:
            add = tf.function(lambda n, x: x + n)
            for number in range(3):
                add(tf.constant(number), 1)
                add(number, 1)
        texts = [event.arguments[0].text for event in watch.events]
        assert texts == ["int32[]", "int 0", "int 1", "int 2"]

    def test_reads_by_the_host_are_counted_by_line(self) -> None:
        with Watch() as watch:
            for _ in range(5):
                float(tf.constant(1.0))  # reads
        assert {site.line: read.count for site, read in watch.reads.items()} == {line_of("reads"): 5}

    def test_jit_is_switched_for_the_users_functions_only(self) -> None:
        with Watch(jit=True) as watch:
            tf.function(lambda x: x + 1)(tf.constant(1))
        assert [seen.jit for seen in watch.functions.values()] == [True]

    def test_a_profiler_left_on_is_named(self, tmp_path: Path) -> None:
        with Watch() as watch:
            tf.profiler.experimental.start(str(tmp_path))  # starts
            assert watch.profiler_runs
            tf.profiler.experimental.stop()
        assert not watch.profiler_runs
        assert watch.profiler_site is not None
        assert watch.profiler_site.line == line_of("starts")


# What follows needs no TensorFlow: facts are made by hand.


def row(call: str, inputs: list[int], per_s: float, cpu_s: float, **more: Any) -> Row:
    """A row at line 10 x its number; ``per_s`` and ``cpu_s`` of the chain up to there."""
    cores = min(2.0, per_s * cpu_s)
    rate = Rate(per_s=per_s, cpu_s=cpu_s, cores=cores, first_s=0.0, bytes=more.pop("bytes", 100.0),
                elements=more.pop("elements", 1000), ended=more.pop("ended", False))  # fmt: skip
    line = 10 * (1 + max(inputs, default=-1))
    told = {"arguments": {}, "records": 1.0, "element": ["float32[3]"], **more}
    return Row(
        call=call, place=Place(file="user.py", line=line, code=f".{call}()"), inputs=inputs, rate=rate, **told
    )


def mapped(**more: Any) -> Mapped:
    told: dict[str, Any] = {
        "name": "f", "place": None, "stateful": False, "random": [], "python": [], "loops": [], "decodes": [],
        "ops": 100, "parsed_features": [], **more,
    }  # fmt: skip
    return Mapped(**told)


def pipeline(function: Mapped, **arguments: Any) -> Facts:
    """Reading at 10 us a record, and a function of 1 ms; batches of 10. Two cores, both of them busy where
    the map is parallel."""
    cores = 2 if arguments else 1
    rows = [
        row("TFRecordDataset", [], 100_000, 10e-6),
        row("map", [0], cores / 1010e-6, 1010e-6, mapped=function, arguments=arguments),
        row(
            "batch",
            [1],
            cores / 10.2e-3,
            10.2e-3,
            records=10.0,
            arguments={"batch_size": 10, "drop_remainder": True},
        ),
        row("prefetch", [2], cores / 10.2e-3, 10.2e-3, records=10.0),
    ]
    return Facts(cores=2, rows=rows, real=rows[-1].rate, memory_mib=16_000)


def findings(facts: Facts) -> list[Finding]:
    return [each for each in find(facts, RULES) if each.severity != "note"]


class TestCapacity:
    def test_own_costs_are_what_a_call_adds(self) -> None:
        stages = capacity.stages_of(pipeline(mapped(stateful=True)))
        assert [stage.cpu_s for stage in stages] == pytest.approx([100e-6, 10e-3, 100e-6, 0])
        assert [stage.threads for stage in stages] == [None, None, None, 1]

    def test_one_thread_runs_what_nothing_separates(self) -> None:
        outlook = Outlook(pipeline(mapped(stateful=True)))
        assert outlook.modelled_per_s == pytest.approx(1 / 10.2e-3)
        assert outlook.limit == 1

    def test_a_parallel_map_is_limited_by_the_cores(self) -> None:
        facts = pipeline(mapped(), num_parallel_calls=-1)
        assert capacity.predict(capacity.stages_of(facts), 2.0) == (pytest.approx(2 / 10.2e-3), -1)

    def test_tensorflow_parallelises_a_stateless_map_unless_it_is_told_not_to(self) -> None:
        facts = pipeline(mapped())
        assert capacity.threads_of(facts.rows[1], facts) == 2
        facts.options["experimental_optimization.apply_default_optimizations"] = False
        assert capacity.threads_of(facts.rows[1], facts) is None

    def test_what_stands_above_a_full_cache_costs_nothing(self) -> None:
        facts = pipeline(mapped(stateful=True))
        facts.rows.append(row("cache", [3], 10_000, 0.1e-3, records=10.0))
        assert [stage.cpu_s for stage in capacity.stages_of(facts)] == pytest.approx([0, 0, 0, 0, 0.1e-3])

    def test_dataset_and_step_share_the_cores(self) -> None:
        together = capacity.coupled(100, 100, overlap=True, loader_cpu_s=0.01, step_cpu_s=0.02, cores=2)
        assert together == pytest.approx(2 / 0.03)
        assert capacity.coupled(
            100, 50, overlap=False, loader_cpu_s=0, step_cpu_s=0, cores=2
        ) == pytest.approx(100 / 3)


class TestRules:
    def test_a_serial_stateful_map_is_a_fault_and_its_parallel_twin_is_not(self) -> None:
        serial = findings(pipeline(mapped(stateful=True)))
        assert [(each.kind, each.place.line) for each in serial] == [("serial-map", 10)]
        assert serial[0].predicted_gain == pytest.approx(2.0, rel=0.02)
        assert findings(pipeline(mapped(stateful=True), num_parallel_calls=-1)) == []
        assert findings(pipeline(mapped())) == []

    def test_python_in_a_map(self) -> None:
        place = Place(file="user.py", line=3)
        assert [each.kind for each in findings(pipeline(mapped(python=[place]), num_parallel_calls=4))] == [
            "py-function"
        ]

    def test_a_loop_of_one_iteration_counts_only_where_the_map_can_t_run_beside_itself(self) -> None:
        loop = Loop(place=Place(file="user.py", line=3), parallel_iterations=1)
        assert findings(pipeline(mapped(loops=[loop]), num_parallel_calls=-1)) == []
        facts = pipeline(mapped(loops=[loop]))
        assert facts.rows[1].rate is not None
        facts.rows[1].rate = dataclasses.replace(facts.rows[1].rate, elements=1, ended=True)
        assert [(each.kind, each.place.line) for each in findings(facts)] == [("serial-map-fn", 3)]

    def test_a_small_pool(self) -> None:
        facts = pipeline(mapped())
        facts.rows[1].arguments = {"num_parallel_calls": -1}
        facts.options = {"threading.private_threadpool_size": 1}
        facts.rows[-1].options = dict(facts.options)
        assert [each.kind for each in findings(facts)] == ["private-threadpool"]

    def test_shuffling_batches(self) -> None:
        facts = pipeline(mapped(), num_parallel_calls=-1)
        facts.rows.append(row("shuffle", [3], 98, 10.2e-3, records=10.0, arguments={"buffer_size": 6}))
        assert [(each.kind, each.place.line) for each in findings(facts)] == [("shuffle-after-batch", 40)]
        facts.rows.insert(0, row("shuffle", [], 1e6, 1e-6, arguments={"buffer_size": 1000}))
        for number, each in enumerate(facts.rows[1:], 1):
            each.inputs = [number - 1]
        assert findings(facts) == []

    def test_epochs_that_mix(self) -> None:
        def shuffled(buffer: int) -> list[str]:
            rows = [
                row("range", [], 1e6, 1e-6, cardinality=200),
                row("repeat", [0], 1e6, 1e-6, arguments={"count": -1}, cardinality=-1),
                row("shuffle", [1], 1e6, 1e-6, arguments={"buffer_size": buffer}),
            ]
            return [each.kind for each in findings(Facts(cores=2, rows=rows, memory_mib=16_000))]

        assert shuffled(200) == ["repeat-before-shuffle"]
        assert shuffled(10) == []

    def test_a_cache_of_random_variants(self) -> None:
        facts = pipeline(mapped(random=[Place(file="user.py", line=3)]), num_parallel_calls=-1)
        facts.rows.append(row("cache", [3], 1e5, 1e-5, records=10.0, ended=True))
        assert [each.kind for each in findings(facts)] == ["cache-after-random"]

    def test_a_buffer_that_holds_gigabytes(self) -> None:
        def held(buffer: int) -> list[str]:
            rows = [
                row("range", [], 1e6, 1e-6, bytes=100e3, cardinality=10**6),
                row("shuffle", [0], 1e6, 1e-6, bytes=100e3, arguments={"buffer_size": buffer}),
            ]
            return [each.kind for each in findings(Facts(cores=2, rows=rows, memory_mib=16_000))]

        assert held(100_000) == ["shuffle-buffer-too-large"]
        assert held(1_000) == []

    def test_every_rule_is_asked(self) -> None:
        modules = (rules_step, rules_threads, rules_files, rules_memory, rules_order)
        assert set(RULES) == {rule for module in modules for rule in module.RULES}
        for module in modules:
            rules = {
                name
                for name, each in vars(module).items()
                if callable(each) and each.__module__ == module.__name__ and not name.startswith("_")
            }
            assert rules - {rule.__name__ for rule in module.RULES} <= {"Again", "causes"}


class TestVerdict:
    @pytest.mark.parametrize(
        ("loader", "step", "compiling", "limit"),
        [
            (50.0, 200.0, 0.0, "input-bound"),
            (500.0, 100.0, 0.0, "compute-bound"),
            (100.0, 105.0, 0.0, "balanced"),
            (500.0, 100.0, 0.4, "compile-bound"),
        ],
    )
    def test_limits(self, loader: float, step: float, compiling: float, limit: str) -> None:
        facts = pipeline(mapped())
        facts.step = StepFacts(
            loader_per_s=loader,
            step_per_s=step,
            coupled_per_s=min(loader, step),
            compile_share=compiling,
            step_cores=1.0,
        )
        assert judge(facts).limit == limit

    def test_steps_that_earn_compiling_back(self) -> None:
        from tools.doctor.facts import StepFunction

        facts = pipeline(mapped())
        off = StepFunction(name="f", place=None, jit=False, calls=9, traces=1, not_compilable=[])
        facts.step = StepFacts(step_per_s=50, functions=[off])
        facts.other_jit = StepFacts(step_per_s=100, compile_s=2.0, functions=[off])
        told = advise(facts)
        assert told is not None
        assert told.break_even_steps == 200
        assert told.advice.startswith("use it: 2.00 times as fast")


def test_facts_come_back_from_json_as_they_were() -> None:
    facts = pipeline(mapped(loops=[Loop(place=Place(file="a", line=1), parallel_iterations=2)]))
    facts.rows[1].inner = [row("map", [], 5.0, 0.1)]
    facts.step = StepFacts(step_per_s=3.0)
    assert from_json(Facts, json.loads(json.dumps(dataclasses.asdict(facts)))) == facts


def test_sizes_of_features() -> None:
    feature = {"image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes(1000)]))}
    sizes = feature_sizes(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    assert list(sizes) == ["image"]
    assert 1000 < sizes["image"] < 1020
    assert feature_sizes(b"\xff\xff\xff") == {}


def test_a_process_that_dies_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "dies.py"
    path.write_text("import os\ndef make_dataset():\n    os.abort()\n")
    job = {
        "kind": "dataset",
        "dataset": f"{path}:make_dataset",
        "arguments": {},
        "seconds": 0.1,
        "compile_log": False,
    }
    with pytest.raises(
        RunFailed, match="the measuring process was ended by signal 6 while making the dataset"
    ):
        launch.measure(job, timeout_s=60, tell=lambda _: None)
