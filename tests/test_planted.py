"""The planted faults: that the suite is what it says, and a sample of it, asked through the command line.

The whole takes most of an hour: ``uv run python -m tests.planted.suite``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.planted import data, suite
from tests.planted.suite import Planted, ask, planted, wrong

ALL = {one.name: one for one in planted()}
FAULTS = [one for one in ALL.values() if one.kind is not None]
SAMPLE = (
    "faults/original_report",
    "faults/serial_map",
    "faults/repeat_before_shuffle",
    "healthy/drop_remainder_twin",
    "healthy/shuffle_then_batch",
)


def test_there_are_as_many_as_promised() -> None:
    assert len(FAULTS) >= 24
    assert len(ALL) - len(FAULTS) >= 8
    assert len({one.kind for one in FAULTS}) >= 20
    assert sum("SAME_CALLS = True" in one.path.read_text() for one in FAULTS) >= 10


@pytest.mark.parametrize("name", sorted(one.name for one in FAULTS))
def test_a_fault_has_one_line_and_a_fixed_twin(name: str) -> None:
    text = ALL[name].path.read_text()
    assert text.count("# FAULT") == 1
    assert ALL[name].line is not None
    assert "make_dataset_fixed" in text or "train_step_fixed" in text
    assert "from loaders" not in text
    assert "from tools" not in text


@pytest.mark.parametrize("name", SAMPLE)
def test_the_doctor_is_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "PLANTED_DATA" not in os.environ:
        monkeypatch.setenv("PLANTED_DATA", str(data.root()))
    for needed in ("photos", "lines", "scans"):
        data.folder(needed)
    one = ALL[name]
    answer = ask(one, verify=False)
    assert wrong(one, answer) is None, answer
    assert answer["seconds"] < suite.TIMEOUT_S


def test_what_is_wrong_is_told() -> None:
    one = Planted(
        path=Path("faults/x.py"),
        kind="serial-map",
        second_kind=None,
        line=7,
        has_step=False,
        gain=True,
        requires=None,
    )
    found = {"kind": "serial-map", "severity": "error", "line": 7, "message": "it is slow"}
    assert wrong(one, {"findings": [found]}) is None
    assert (
        wrong(one, {"findings": [{**found, "line": 8}]})
        == "wanted serial-map at line 7, got [('serial-map', 8)]"
    )
    assert wrong(one, {"findings": []}) == "wanted serial-map at line 7, got []"
    assert wrong(one, {"failed": ["it died"]}) == "failed: ['it died']"
