"""The one place that decides what is skipped, and the fixtures that the tests share.

``gpu`` tests need a GPU that TensorFlow sees, ``dali`` tests NVIDIA DALI and its
TensorFlow plugin. With REQUIRE_GPU=1 in the environment both fail where they would be
skipped: for a machine that must have both.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections import Counter
from functools import cache

import hypothesis
import pytest

from tests.data import Data, make_data

# Set before anything looks for them, and for every child process.
_CACHE = tempfile.mkdtemp(prefix="feedline-tests-")
os.environ["XDG_CACHE_HOME"] = _CACHE
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

# Machines differ in speed, and a first call may import TensorFlow.
hypothesis.settings.register_profile("feedline", deadline=None, max_examples=100, print_blob=True)
hypothesis.settings.load_profile("feedline")


def pytest_unconfigure() -> None:
    shutil.rmtree(_CACHE, ignore_errors=True)


@cache
def why_no_dali() -> str | None:
    """Why the dali backend can't run here; None when it can."""
    for package in ("nvidia", "nvidia.dali", "nvidia.dali_tf_plugin"):
        if importlib.util.find_spec(package) is None:
            return f"DALI is not installed (no package {package})"
    try:
        # Imports TensorFlow as well, so it is asked only when a dali test is about to run.
        import nvidia.dali.plugin.tf  # noqa: F401
    except Exception as error:
        return f"DALI's TensorFlow plugin can't be loaded: {str(error).splitlines()[0]}"
    return None


@cache
def why_no_gpu() -> str | None:
    """Why gpu tests can't run here; None when they can."""
    import tensorflow as tf

    return None if tf.config.list_physical_devices("GPU") else "TensorFlow sees no GPU"


_MARKERS = {"dali": why_no_dali, "gpu": why_no_gpu}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, why_not in _MARKERS.items():
        if item.get_closest_marker(marker) is None:
            continue
        reason = why_not()
        if reason is not None and os.environ.get("REQUIRE_GPU") == "1":
            pytest.fail(f"REQUIRE_GPU=1, but {reason}", pytrace=False)
        if reason is not None:
            pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for marker, why_not in _MARKERS.items():
        skipped: Counter[str] = Counter()
        for report in terminalreporter.stats.get("skipped", []):
            # A test may be skipped for another marker, or a file for a reason of its own.
            if marker in getattr(report, "keywords", ()) and report.longrepr[2] == f"Skipped: {why_not()}":
                skipped[str(why_not())] += 1
        for reason, count in skipped.items():
            terminalreporter.write_line(f"{count} {marker.upper()} tests skipped: {reason}")


@pytest.fixture(params=["tfdata", pytest.param("dali", marks=pytest.mark.dali)])
def backend(request: pytest.FixtureRequest) -> str:
    """The name of each backend."""
    return str(request.param)


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """157 records in three unequal shards, to read only (indexes are written beside them)."""
    return make_data(tmp_path_factory.mktemp("shards"))
