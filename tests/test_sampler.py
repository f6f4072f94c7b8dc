"""What is sampled while a cell runs: tools/measure/sampler.py and the readings behind it.

Live processes are held against what they say of themselves, never against a fixed time:
how much of a core they got is the machine's affair.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tools.measure import nvidia, process_tree
from tools.measure.energy import EnergyReading, ProcessorEnergy, joules_between, sources
from tools.measure.metadata import collect
from tools.measure.nvidia import GpuReading, NvidiaGpus
from tools.measure.process_tree import ProcessReading, ProcessTree, cpu_s_between, read_bytes_between
from tools.measure.readings import Reading, busy_and_total, sample
from tools.measure.sampler import COST_LIMIT, Sampler, is_disturbed, pause_s, usage

MIB = 2**20

# Prints (moment, CPU time) pairs while it keeps one core busy, as far as it gets one.
BUSY = """
import time
while True:
    print(time.perf_counter(), time.process_time(), flush=True)
    until = time.perf_counter() + 0.1
    while time.perf_counter() < until: pass
"""
IDLE = "import time; time.sleep(600)"
# The same for work that is done by children which end one after another.
BY_CHILDREN = """
import os, subprocess, sys, time
work = "import time\\nuntil = time.perf_counter() + 0.15\\nwhile time.perf_counter() < until: pass"
while True:
    times = os.times()
    print(time.perf_counter(), sum(times[:4]), flush=True)
    subprocess.run([sys.executable, "-S", "-c", work])
"""


@contextmanager
def child(code: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def stamps(process: subprocess.Popen[str], seconds: float) -> list[tuple[float, float]]:
    """What a child said of itself, for so many of its seconds."""
    assert process.stdout
    said: list[tuple[float, float]] = []
    while not said or said[-1][0] - said[0][0] < seconds:
        moment, cpu_s = process.stdout.readline().split()
        said.append((float(moment), float(cpu_s)))
    return said


def sampled(sampler: Sampler, count: int = 2) -> bool:
    """Whether so many samples are there within a minute: where sampling is dear they are seconds apart."""
    until = time.perf_counter() + 60
    while len(sampler.samples()["at_s"]) < count and time.perf_counter() < until:
        time.sleep(0.05)
    return len(sampler.samples()["at_s"]) >= count


def observe(code: str, seconds: float) -> tuple[float, dict[str, Any]]:
    """The cores that a child says it took, and its `usage` over the same time by its own stamps."""
    with child(code) as process, Sampler(process.pid, interval_s=0.1) as sampler:
        stamps(process, 0.5)
        said = stamps(process, seconds)
        # Whole intervals lie behind the window too.
        enough = len(sampler.samples()["at_s"]) + 2
        while len(sampler.samples()["at_s"]) < enough:
            stamps(process, 0.1)
    (from_at, from_s), (to_at, to_s) = said[0], said[-1]
    samples = sampler.samples()
    began = samples["began_monotonic"]
    return (to_s - from_s) / (to_at - from_at), usage(samples, from_at - began, to_at - began, 1000)


class TestLive:
    def test_a_busy_child_is_seen_as_it_sees_itself(self) -> None:
        took, seen = observe(BUSY, 1.5)
        assert seen["process_cores"] == pytest.approx(took, abs=0.15)
        assert sum(seen["cores_busy"]) > 0.8 * took - 0.1
        assert 0 < seen["rss_mib"] < 1000

    def test_time_of_children_that_end_between_samples_is_not_lost(self) -> None:
        took, seen = observe(BY_CHILDREN, 2.0)
        assert seen["process_cores"] == pytest.approx(took, abs=0.25)

    def test_others_are_told_from_the_child_and_disturb_it(self) -> None:
        others = math.ceil(0.3 * (psutil.cpu_count() or 1))
        with child(IDLE) as quiet:
            noisy = [
                subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(others)
            ]
            try:
                with Sampler(quiet.pid) as sampler:
                    before = [psutil.Process(each.pid).cpu_times().user for each in noisy]
                    began = time.perf_counter()
                    time.sleep(1.5)
                    assert sampled(sampler)
                    seconds = time.perf_counter() - began
                    after = [psutil.Process(each.pid).cpu_times().user for each in noisy]
            finally:
                for each in noisy:
                    each.kill()
                    each.wait()
        took = (sum(after) - sum(before)) / seconds
        samples = sampler.samples()
        seen = usage(samples, 0, 10, 0)
        assert seen["process_cores"] < 0.1
        assert seen["other_cores"] > 0.7 * took
        assert is_disturbed(samples, 0, 10)

    def test_what_this_process_does_is_nobody_elses(self) -> None:
        """Held against what the machine did in all: busy = child + others + this process."""
        with child(IDLE) as quiet, Sampler(quiet.pid) as sampler:
            began, own_s = time.perf_counter(), time.process_time()
            while time.perf_counter() - began < 1.2 or len(sampler.samples()["at_s"]) < 2:
                pass
            own_cores = (time.process_time() - own_s) / (time.perf_counter() - began)
        seen = usage(sampler.samples(), 0, 10, 0)
        rest = sum(seen["cores_busy"]) - own_cores
        assert seen["other_cores"] == pytest.approx(max(0.0, rest), abs=0.25)

    def test_what_sampling_costs_is_counted_and_small(self) -> None:
        """That it keeps below COST_LIMIT is held in TestPause; here a stop can come just behind a sample."""
        with child(IDLE) as process, Sampler(process.pid) as sampler:
            time.sleep(1.5)
            assert sampled(sampler)
        assert 0 < sampler.cost_share < 5 * COST_LIMIT

    def test_samples_are_json_and_of_one_length(self) -> None:
        with (
            child(IDLE) as process,
            Sampler(process.pid, began_monotonic=time.perf_counter() - 100) as sampler,
        ):
            assert sampled(sampler)
        samples = json.loads(json.dumps(sampler.samples()))
        assert samples["at_s"] == sorted(samples["at_s"])
        assert 100 <= samples["first_from_s"] < samples["at_s"][0] < 200
        for name in ("cores_busy", "process_cores", "other_cores", "rss_mib"):
            assert len(samples[name]) == len(samples["at_s"])
        assert all(0 <= share <= 1 for cores in samples["cores_busy"] for share in cores)

    def test_sampling_ends_with_the_process(self) -> None:
        with child("pass") as process, Sampler(process.pid, interval_s=0.1) as sampler:
            # Ended, but nobody has waited for it.
            while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)
            time.sleep(0.3)
            lengths = [len(sampler.samples()["at_s"])]
            time.sleep(0.3)
            lengths.append(len(sampler.samples()["at_s"]))
        assert lengths[0] == lengths[1]

    def test_a_process_that_is_gone_gives_no_samples_and_no_error(self) -> None:
        with child(IDLE) as process:
            pass
        with Sampler(process.pid) as sampler:
            time.sleep(0.1)
        samples = sampler.samples()
        assert samples["at_s"] == []
        assert sampler.cost_share == 0
        assert set(usage(samples, 0, 1, 10).values()) == {None}
        assert not is_disturbed(samples, 0, 1)

    def test_an_interval_below_the_clocks_tick_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"interval_s must be at least 0\.05: 0\.01"):
            Sampler(os.getpid(), interval_s=0.01)


class TestTree:
    def test_descendants_are_found_and_their_end_does_no_harm(self) -> None:
        code = (
            "import subprocess, sys\n"
            "p = subprocess.Popen([sys.executable, '-S', '-c', 'input()'], stdin=subprocess.PIPE)\n"
            "print('ready', flush=True)\np.wait()\n"
        )
        with child(code) as process:
            assert process.stdout
            process.stdout.readline()
            tree = ProcessTree(process.pid)
            tree.search()
            assert len(tree.read()) == 2
            grandchild = psutil.Process(process.pid).children()[0]
            grandchild.kill()
            process.wait()
            with pytest.raises(psutil.NoSuchProcess):
                tree.read()

    def test_what_outlives_its_parent_still_belongs_to_the_tree(self) -> None:
        inner = (
            "import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', "
            "'import time; time.sleep(600)'], stdout=subprocess.DEVNULL); input()"
        )
        code = (
            "import subprocess, sys, time\n"
            f"p = subprocess.Popen([sys.executable, '-S', '-c', {inner!r}], stdin=subprocess.PIPE)\n"
            "time.sleep(600)\n"
        )
        with child(code) as process:
            root = psutil.Process(process.pid)
            while len(family := root.children(recursive=True)) < 2:
                time.sleep(0.02)
            tree = ProcessTree(process.pid)
            tree.search()
            parent, orphan = family
            try:
                parent.kill()
                while parent.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.01)
                tree._search_after = 0.0
                tree.search()
                assert orphan in tree.read()
            finally:
                orphan.kill()

    def test_a_dear_search_is_not_repeated_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        searches: list[float] = []
        cpu_s = iter([0.0, 0.008, 0.010, 0.018])
        clock = SimpleNamespace(now=100.0)
        monkeypatch.setattr(process_tree.time, "thread_time", lambda: next(cpu_s))
        monkeypatch.setattr(process_tree.time, "perf_counter", lambda: clock.now)
        tree = ProcessTree(os.getpid())
        monkeypatch.setattr(
            tree, "_root", SimpleNamespace(children=lambda recursive: searches.append(clock.now) or [])
        )
        for clock.now in (100.0, 100.5, 101.9, 102.1, 102.2):
            tree.search()
        assert searches == [100.0, 102.1]


def process(
    own_s: float, with_ended_s: float | None = None, rss: int = 0, read: int | None = 0
) -> ProcessReading:
    return ProcessReading(
        own_s=own_s,
        with_ended_s=own_s if with_ended_s is None else with_ended_s,
        rss_bytes=rss,
        read_bytes=read,
    )


class TestDifferences:
    def test_cpu_time_of_a_tree(self) -> None:
        before = {"root": process(1.0), "worker": process(2.0)}
        now = {"root": process(1.5), "worker": process(2.25), "new": process(0.125)}
        assert cpu_s_between(before, now) == pytest.approx(0.5 + 0.25 + 0.125)

    def test_who_ended_is_in_the_time_of_who_waited_for_it(self) -> None:
        before = {"root": process(1.0), "worker": process(2.0)}
        now = {"root": process(1.5, with_ended_s=1.5 + 2.75)}
        assert cpu_s_between(before, now) == pytest.approx(0.5 + 0.75)

    def test_who_ended_unnoticed_takes_nothing_away(self) -> None:
        before = {"root": process(1.0), "worker": process(50.0)}
        assert cpu_s_between(before, {"root": process(1.5)}) == pytest.approx(0.5)
        assert cpu_s_between(before, {}) == 0

    def test_bytes_read_from_disks(self) -> None:
        before = {"root": process(0, read=1000), "worker": process(0, read=5000)}
        now = {"root": process(0, read=1500), "worker": process(0, read=5001)}
        assert read_bytes_between(before, now) == 501
        assert read_bytes_between(before, {"root": process(0, read=1500)}) == 0
        assert read_bytes_between(before, {**now, "foreign": process(0, read=None)}) is None


def reading(at: float, **changes: Any) -> Reading:
    fields = {
        "cores": ((0.0, 0.0), (0.0, 0.0)),
        "processes": {},
        "own_s": 0.0,
        "energy": EnergyReading(gpu=None, processor_j=None),
    }
    return Reading(at=at, **{**fields, **changes})


class TestSample:
    def test_each_figure(self) -> None:
        before = reading(
            100.0,
            cores=((10.0, 100.0), (20.0, 100.0)),
            processes={"root": process(5.0, rss=1, read=0)},
            own_s=1.0,
            energy=EnergyReading(gpu=None, processor_j=10.0),
        )
        now = reading(
            102.0,
            cores=((12.0, 102.0), (21.0, 102.0)),
            processes={
                "root": process(6.0, rss=3 * MIB, read=MIB),
                "worker": process(0.5, rss=MIB, read=MIB // 2),
            },
            own_s=1.25,
            energy=EnergyReading(gpu=None, processor_j=70.0),
        )
        assert sample(before, now, 90.0, ["processor"]) == {
            "at_s": 12.0,
            "cores_busy": [1.0, 0.5],
            "process_cores": 0.75,
            "other_cores": 1.5 - 0.75 - 0.125,
            "rss_mib": 4.0,
            "read_mib": 1.5,
            "gpu": dict.fromkeys(nvidia.GPU_SERIES),
            "energy_j": 60.0,
        }

    def test_others_are_never_less_than_nothing(self) -> None:
        before = reading(0.0, processes={"root": process(0.0)})
        now = reading(1.0, cores=((0.9, 1.0), (0.0, 1.0)), processes={"root": process(1.0)})
        assert sample(before, now)["other_cores"] == 0

    def test_cores_that_do_not_count_tell_nothing(self) -> None:
        row = sample(reading(0.0), reading(1.0))
        assert row["cores_busy"] is None
        assert row["other_cores"] is None


class TestCounters:
    def test_stolen_time_is_busy_and_a_guests_counts_once(self) -> None:
        linux = namedtuple("linux", "user nice system idle iowait irq softirq steal guest guest_nice")
        seen = busy_and_total(linux(10.0, 1.0, 2.0, 50.0, 5.0, 0.5, 0.25, 4.0, 3.0, 0.5))
        assert seen == (17.75, 72.75)

    def test_systems_with_fewer_counters(self) -> None:
        macos = namedtuple("macos", "user nice system idle")
        assert busy_and_total(macos(3.0, 0.0, 1.0, 6.0)) == (4.0, 10.0)

    def test_only_linux_tells_what_came_from_a_disk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(psutil, "LINUX", False)
        assert [each.read_bytes for each in ProcessTree(os.getpid()).read().values()] == [None]


def samples_of(**changes: Any) -> dict[str, Any]:
    """Three intervals: [1, 2], [2, 4] and [4, 5]."""
    return {
        "first_from_s": 1.0,
        "at_s": [2.0, 4.0, 5.0],
        "cores_busy": [[1.0, 0.0], [0.5, 0.25], [0.0, 1.0]],
        "process_cores": [1.0, 2.0, 4.0],
        "other_cores": [0.0, 0.5, 1.0],
        "rss_mib": [100.0, 200.0, 400.0],
        "read_mib": [3.0, 8.0, 1.0],
        "gpu": None,
        "energy_j": [10.0, 40.0, 30.0],
        **changes,
    }


class TestUsage:
    def test_means_over_the_whole_time(self) -> None:
        assert usage(samples_of(), 1.0, 5.0, 500) == {
            "cores_busy": [0.5, 0.375],
            "process_cores": (1 + 2 * 2 + 4) / 4,
            "other_cores": 0.5,
            "rss_mib": 225.0,
            "read_mib_per_s": 3.0,
            "gpu": None,
            "joules_per_1000_images": 160.0,
        }

    def test_an_interval_counts_as_far_as_it_lies_in_the_window(self) -> None:
        seen = usage(samples_of(), 3.0, 4.25, 1000)
        assert seen["process_cores"] == pytest.approx((2.0 * 1 + 4.0 * 0.25) / 1.25)
        assert seen["read_mib_per_s"] == pytest.approx((4.0 * 1 + 1.0 * 0.25) / 1.25)
        assert seen["joules_per_1000_images"] == pytest.approx(20.0 * 1 + 30.0 * 0.25)

    def test_energy_is_that_of_the_whole_window_where_its_end_was_not_sampled(self) -> None:
        assert usage(samples_of(), 4.0, 6.0, 1000)["joules_per_1000_images"] == pytest.approx(60.0)

    def test_gpus(self) -> None:
        gpu = {
            "utilisation": [0.0, 0.5, 1.0],
            "memory_mib": [1.0, 1.0, 1.0],
            "power_w": None,
            "pcie_mib_per_s": [4.0, 0.0, 0.0],
        }
        assert usage(samples_of(gpu=gpu), 1.0, 5.0, 1)["gpu"] == {
            "utilisation": 0.5,
            "memory_mib": 1.0,
            "power_w": None,
            "pcie_mib_per_s": 1.0,
        }

    def test_what_was_not_measured_is_none(self) -> None:
        seen = usage(samples_of(read_mib=None, energy_j=None, cores_busy=None), 1.0, 5.0, 10)
        for name in ("read_mib_per_s", "joules_per_1000_images", "cores_busy"):
            assert seen[name] is None
        assert set(usage(samples_of(), 7.0, 8.0, 10).values()) == {None}
        assert usage(samples_of(), 1.0, 5.0, 0)["joules_per_1000_images"] is None


class TestDisturbed:
    @pytest.mark.parametrize(("other", "disturbed"), [(0.19, False), (0.2, False), (0.21, True)])
    def test_a_tenth_of_all_cores(self, other: float, disturbed: bool) -> None:
        assert is_disturbed(samples_of(other_cores=[other] * 3), 1.0, 5.0) is disturbed

    def test_only_the_window_counts(self) -> None:
        samples = samples_of(other_cores=[2.0, 0.0, 2.0])
        assert not is_disturbed(samples, 2.0, 4.0)
        assert is_disturbed(samples, 1.0, 4.0)

    def test_what_was_not_sampled_disturbs_nobody(self) -> None:
        assert not is_disturbed(samples_of(), 7.0, 8.0)
        assert not is_disturbed(samples_of(other_cores=None), 1.0, 5.0)


class TestPause:
    @pytest.mark.parametrize("cost_s", [0.0001, 0.002, 0.004, 0.03])
    def test_the_share_stays_below_the_limit(self, cost_s: float) -> None:
        now = spent_s = 0.0
        for _ in range(50):
            spent_s += cost_s
            read_at, now = now, now + cost_s
            now += pause_s(
                interval_s=0.25,
                since_reading_s=now - read_at,
                spent_s=spent_s,
                next_s=cost_s,
                elapsed_s=now,
            )
            assert now - read_at >= 0.25
            assert spent_s / now < COST_LIMIT
        assert (now / 50 == pytest.approx(0.25)) is (cost_s < 0.002)

    def test_cheap_samples_come_at_the_interval(self) -> None:
        pause = pause_s(interval_s=0.25, since_reading_s=0.05, spent_s=0.002, next_s=0.001, elapsed_s=1.0)
        assert pause == pytest.approx(0.2)
        assert pause_s(interval_s=0.25, since_reading_s=0.4, spent_s=0, next_s=0, elapsed_s=1.0) == 0


class FakeNvml:
    """Two GPUs behind NVML's functions, in its units. ``broken`` names functions that fail."""

    NVML_PCIE_UTIL_TX_BYTES = 0
    NVML_PCIE_UTIL_RX_BYTES = 1

    class NVMLError(Exception):
        pass

    def __init__(self, *broken: str, gpus: int = 2, pcie: Callable[[], object] = lambda: None) -> None:
        self._broken = broken
        self._gpus = gpus
        self._pcie = pcie
        self.opened = 0
        self.energy_mj = 1000

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "_broken"):

            def fail(*_: object) -> None:
                raise FakeNvml.NVMLError("Not Supported")

            return fail
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None:
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        return self._gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, gpu: int) -> str:
        return ("GPU A", "GPU B")[gpu]

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> Any:
        return SimpleNamespace(gpu=(30, 75)[gpu], memory=99)

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> Any:
        return SimpleNamespace(total=80 * 2**30, used=(512, 1024)[gpu] * MIB)

    def nvmlDeviceGetPowerUsage(self, gpu: int) -> int:
        return (100_000, 250_500)[gpu]

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: int) -> int:
        return self.energy_mj * (gpu + 1)

    def nvmlDeviceGetPcieThroughput(self, gpu: int, counter: int) -> int:
        self._pcie()
        return ((1024, 2048), (0, 512))[gpu][counter]


def install(monkeypatch: pytest.MonkeyPatch, nvml: object) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]


class TestNvidia:
    def test_their_names_are_in_the_metadata(self, monkeypatch: pytest.MonkeyPatch) -> None:
        nvml = FakeNvml()
        install(monkeypatch, nvml)
        assert collect()["gpus"] == ["GPU A", "GPU B"]
        install(monkeypatch, FakeNvml("nvmlDeviceGetName"))
        assert collect()["gpus"] == ["?", "?"]
        assert nvml.opened == 0

    def test_all_gpus_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        nvml = FakeNvml()
        install(monkeypatch, nvml)
        gpus = NvidiaGpus.open()
        assert gpus
        assert gpus.read() == GpuReading(
            utilisation=0.75, memory_mib=1536.0, power_w=350.5, pcie_mib_per_s=3.5, energy_j=3.0
        )
        gpus.close()
        assert nvml.opened == 0

    @pytest.mark.parametrize(
        ("function", "series"),
        [
            ("nvmlDeviceGetUtilizationRates", "utilisation"),
            ("nvmlDeviceGetMemoryInfo", "memory_mib"),
            ("nvmlDeviceGetPowerUsage", "power_w"),
            ("nvmlDeviceGetPcieThroughput", "pcie_mib_per_s"),
            ("nvmlDeviceGetTotalEnergyConsumption", "energy_j"),
        ],
    )
    def test_what_fails_is_none_and_the_rest_is_told(
        self, monkeypatch: pytest.MonkeyPatch, function: str, series: str
    ) -> None:
        install(monkeypatch, FakeNvml(function))
        gpus = NvidiaGpus.open()
        assert gpus
        seen = gpus.read()
        assert {name for name in GpuReading.__slots__ if getattr(seen, name) is None} == {series}

    @pytest.mark.parametrize(
        "broken", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlShutdown"]
    )
    def test_a_driver_that_fails_is_no_gpu(self, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
        nvml = FakeNvml(broken, gpus=0 if broken == "nvmlShutdown" else 2)
        install(monkeypatch, nvml)
        assert NvidiaGpus.open() is None
        assert nvml.opened == (1 if broken == "nvmlShutdown" else 0)

    def test_no_library_and_no_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch, None)
        assert NvidiaGpus.open() is None
        nvml = FakeNvml(gpus=0)
        install(monkeypatch, nvml)
        assert NvidiaGpus.open() is None
        assert nvml.opened == 0

    def test_pcie_is_left_out_where_reading_it_would_disturb(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cpu_s = [0.0]
        monkeypatch.setattr(nvidia.time, "thread_time", lambda: cpu_s[0])

        def spin() -> None:
            cpu_s[0] += 0.02

        install(monkeypatch, FakeNvml(pcie=spin))
        gpus = NvidiaGpus.open()
        assert gpus
        assert gpus.read().pcie_mib_per_s is None
        assert gpus.read().power_w == 350.5

    def test_samples_of_gpus(self, monkeypatch: pytest.MonkeyPatch) -> None:
        nvml = FakeNvml("nvmlDeviceGetMemoryInfo")
        install(monkeypatch, nvml)
        with child(IDLE) as quiet, Sampler(quiet.pid, powercap=Path("absent")) as sampler:
            assert sampled(sampler)
        samples = sampler.samples()
        count = len(samples["at_s"])
        assert samples["gpu"] == {
            "utilisation": [0.75] * count,
            "memory_mib": None,
            "power_w": [350.5] * count,
            "pcie_mib_per_s": [3.5] * count,
        }
        assert samples["energy_j"] == [0.0] * count
        assert samples["energy_of"] == ["gpu"]
        assert nvml.opened == 0


def zone(powercap: Path, folder: str, name: str, energy_uj: int | None, range_uj: int = 1_000_000) -> Path:
    path = powercap / folder
    path.mkdir(parents=True)
    (path / "name").write_text(f"{name}\n")
    (path / "max_energy_range_uj").write_text(f"{range_uj}\n")
    if energy_uj is not None:
        (path / "energy_uj").write_text(f"{energy_uj}\n")
    return path / "energy_uj"


class TestProcessorEnergy:
    def test_packages_are_summed_and_nothing_is_counted_twice(self, tmp_path: Path) -> None:
        first = zone(tmp_path, "intel-rapl:0", "package-0", 100)
        second = zone(tmp_path, "intel-rapl:1", "package-1", 200)
        parts = [
            zone(tmp_path, "intel-rapl:0:0", "core", 0),
            zone(tmp_path, "intel-rapl:0:1", "package-part", 0),
            zone(tmp_path, "intel-rapl:2", "psys", 0),
            zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0),
        ]
        energy = ProcessorEnergy.open(tmp_path)
        assert energy
        assert energy.read_j() == 0
        first.write_text("500100")
        second.write_text("250200")
        for part in parts:
            part.write_text("999999")
        assert energy.read_j() == pytest.approx(0.75)

    def test_a_counter_that_starts_again_goes_on(self, tmp_path: Path) -> None:
        counter = zone(tmp_path, "intel-rapl:0", "package-0", 900_000)
        energy = ProcessorEnergy.open(tmp_path)
        assert energy
        for now_uj, spent_j in ((950_000, 0.05), (100_000, 0.2), (100_000, 0.2), (50_000, 1.15)):
            counter.write_text(str(now_uj))
            assert energy.read_j() == pytest.approx(spent_j)

    def test_what_may_not_be_read_is_none(self, tmp_path: Path) -> None:
        assert ProcessorEnergy.open(tmp_path / "absent") is None
        zone(tmp_path, "intel-rapl:0", "package-0", 100)
        zone(tmp_path, "intel-rapl:1", "package-1", None)
        assert ProcessorEnergy.open(tmp_path) is None

    @pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("no number")])
    def test_a_counter_that_fails_later(self, tmp_path: Path, spoil: Callable[[Path], object]) -> None:
        counter = zone(tmp_path, "intel-rapl:0", "package-0", 100)
        energy = ProcessorEnergy.open(tmp_path)
        assert energy
        spoil(counter)
        assert energy.read_j() is None

    def test_samples_of_processors(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch, None)
        zone(tmp_path, "intel-rapl:0", "package-0", 100)
        with child(IDLE) as quiet, Sampler(quiet.pid, powercap=tmp_path) as sampler:
            assert sampled(sampler)
        samples = sampler.samples()
        assert samples["energy_j"] == [0.0] * len(samples["at_s"])
        assert samples["energy_of"] == ["processor"]
        assert samples["gpu"] is None


def energy_reading(
    *, power_w: float | None = None, energy_j: float | None = None, processor_j: float | None = None
) -> EnergyReading:
    gpu = GpuReading(
        utilisation=None, memory_mib=None, power_w=power_w, pcie_mib_per_s=None, energy_j=energy_j
    )
    return EnergyReading(gpu=gpu, processor_j=processor_j)


class TestJoules:
    @pytest.mark.parametrize(
        ("before", "now", "joules"),
        [
            ({"energy_j": 5.0, "power_w": 1.0}, {"energy_j": 8.5, "power_w": 1.0}, 3.5),
            ({"power_w": 100.0}, {"power_w": 200.0}, 300.0),
            ({"processor_j": 1.0}, {"processor_j": 2.0}, 1.0),
            ({"power_w": 100.0, "processor_j": 1.0}, {"power_w": 100.0, "processor_j": 2.0}, 201.0),
            ({"power_w": 100.0, "processor_j": 1.0}, {"power_w": 100.0}, None),
            ({"power_w": 100.0}, {}, None),
            ({}, {}, None),
        ],
    )
    def test_of_all_that_tell(
        self, before: Mapping[str, float], now: Mapping[str, float], joules: float | None
    ) -> None:
        """In two seconds: a counter goes before power, and a part is no sum."""
        began = energy_reading(**before)
        assert joules_between(began, energy_reading(**now), 2.0, sources(began)) == joules

    def test_no_gpu(self) -> None:
        nothing = EnergyReading(gpu=None, processor_j=None)
        assert sources(nothing) == []
        assert joules_between(nothing, nothing, 1.0, ["gpu"]) is None
