"""The doctor's page, of diagnoses made by hand: whole, hostile, and with parts missing.

The page is opened in a headless Chromium (``tests.browser`` says how); without one those tests are skipped.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser, browser, find_chromium
from tests.command import run
from tests.test_report import _MEASURE, _Page
from tools.doctor import coupling, page
from tools.doctor.facts import (
    Argument,
    Event,
    Facts,
    Mapped,
    OpCost,
    OwnModel,
    Place,
    Rate,
    Row,
    StepFacts,
    StepFunction,
    from_json,
)
from tools.doctor.findings import Finding
from tools.doctor.page import render_html, write_html
from tools.doctor.result import Diagnosis, ladder_of
from tools.doctor.terminal import gain_words, to_text
from tools.doctor.verdict import judge
from tools.doctor.xla_advice import XlaAdvice, advise
from tools.present.charts import COLUMNS, percent_of

HOSTILE = "</pre></style><script>alert('1 < 2 & 3')</script>\x1b[31m {{ 7*7 }} \u202e"


def _at(line: int, code: str = "") -> Place:
    return Place(file="/home/me/project/pipeline.py", line=line, code=code)


def _rate(per_s: float, cpu_s: float) -> Rate:
    return Rate(per_s=per_s, cpu_s=cpu_s, cores=1.25, first_s=0.01, bytes=2**20, elements=300, ended=False)


def _row(call: str, place: Place, inputs: list[int], rate: Rate, **more: Any) -> Row:
    return Row(
        call=call, place=place, inputs=inputs, arguments={}, records=1.0, element=["uint8[?, 3]"], rate=rate,
        **more,
    )  # fmt: skip


def _mapped(costs: list[OpCost]) -> Mapped:
    return Mapped(
        name="decode", place=_at(9), stateful=False, random=[], python=[], loops=[], decodes=[], ops=9,
        parsed_features=[], costs=costs,
    )  # fmt: skip


def _event(step: int, tokens: str, *, compiled: bool = True, seconds: float = 0.3) -> Event:
    return Event(
        function="update",
        function_place=_at(50, "@tf.function(jit_compile=True)"),
        place=_at(60, "return update(images, tokens)"),
        step=step,
        traced=True,
        compiled=compiled,
        seconds=seconds,
        compile_s=0.25 if compiled else 0.0,
        arguments=[
            Argument(name="images", kind="tensor", text="uint8[16, 8]"),
            Argument(name="tokens", kind="tensor", text=tokens, place=_at(59)),
        ],
    )


def _sample() -> Diagnosis:
    """Everything that a diagnosis may have."""
    own = OwnModel(
        node="ParallelMapV2", elements=100, processing_s=0.0123, parallelism=2.0, buffer_size=None,
        buffered=3, buffered_mib=2.5,
    )  # fmt: skip
    decode = OpCost(type="DecodePng", place=_at(9, "tf.io.decode_png(png)"), seconds=0.004, share=0.9)
    rare = OpCost(type="Cast", place=None, seconds=1e-6, share=0.001)
    parse = OpCost(type="ParseExampleV2", place=None, seconds=0.001, share=0.8)
    inner = _row("TFRecordDataset", _at(22, "TFRecordDataset(name)"), [], _rate(5000, 0.0001))
    inner_map = _row("map", _at(23), [0], _rate(900, 0.001), mapped=_mapped([parse]))
    rows = [
        _row("from_tensor_slices", _at(20, "names = from_tensor_slices(all)"), [], _rate(7000, 0.00001)),
        _row("interleave", _at(21, "data.interleave("), [0], _rate(1200, 0.001), inner=[inner, inner_map]),
        _row("map", _at(25, "data.map(decode)"), [1], _rate(150, 0.008), own=own,
             mapped=_mapped([decode, rare])),
        _row("batch", _at(26, "if i<n & j: data.batch(16)"), [2], _rate(140, 0.0082)),
        _row("prefetch", _at(27, "data.prefetch(AUTOTUNE)"), [3], _rate(138, 0.0083)),
    ]  # fmt: skip
    rows[2].arguments["num_parallel_calls"] = -1
    events = [
        _event(0, "uint8[16, 8]"),
        _event(3, "uint8[16, 7]"),
        _event(11, "uint8[16, 5]"),
        _event(20, "uint8[16, 5]", compiled=False, seconds=0.03),
    ]
    step_s = [0.004 + 0.0001 * (number % 7) for number in range(40)]
    step_s[11 - 6], step_s[20 - 6] = 0.31, 0.04
    function = StepFunction(name="update", place=_at(50), jit=True, calls=46, traces=4, not_compilable=[])
    step = StepFacts(
        loader_per_s=133.4, step_per_s=737.8, coupled_per_s=53.41, wait_share=0.21, compile_share=0.6,
        steps=40, seconds=2.0, first_step_s=0.46, compile_s=0.75, wait_s=[0.002] * 40, step_s=step_s,
        events=events, functions=[function],
    )  # fmt: skip
    facts = Facts(
        cores=2,
        rows=rows,
        real=_rate(201.7, 0.008),
        options={"threading.private_threadpool_size": 2},
        step=step,
        other_jit=StepFacts(step_per_s=562.4, functions=[replace(function, jit=False)]),
        files=[2**20, 2**20],
        memory_mib=16384.0,
    )
    findings = [
        Finding(
            kind="recompiles", severity="error", place=_at(59, "tokens = tokens[:, :longest]"),
            message="update was compiled 2 more times", fix="# keep one shape", predicted_gain=2.9,
            measured_gain=2.7, limit_after="then .map at line 25 limits it, at 250 elements a second",
        ),
        Finding(
            kind="shuffle-after-batch", severity="warning", place=_at(26), message="it moves batches",
            fix=".shuffle(1000).batch(16)", measure="variety", predicted_gain=[0.25, 0.016], sure="read",
        ),
        Finding(kind="tiny-shards", severity="note", place=Place(file="", line=0), message="many files",
                fix="write larger ones", sure="read"),
    ]  # fmt: skip
    return Diagnosis(
        asked={"dataset": "pipeline.py:make_dataset", "step": "pipeline.py:step", "fit": None,
               "args": '{"n": 1}', "verify": True, "budget_s": 120.0, "json": None, "html": "o.html"},
        facts=facts,
        verdict=judge(facts),
        findings=findings,
        xla=advise(facts),
        seconds=33.4,
    )  # fmt: skip


def _bare() -> Diagnosis:
    facts = Facts()
    return Diagnosis(asked={}, facts=facts, verdict=judge(facts), findings=[], xla=None)


def _without_step() -> Diagnosis:
    diagnosis = _sample()
    diagnosis.facts.step = diagnosis.facts.other_jit = diagnosis.xla = diagnosis.asked["step"] = None
    diagnosis.verdict = judge(diagnosis.facts)
    return diagnosis


def _cut_off() -> Diagnosis:
    diagnosis = _sample()
    facts = diagnosis.facts
    facts.unfinished = "timing .map at line 25"
    facts.real = facts.step = None
    for row in facts.rows[2:]:
        row.rate = row.own = None
    diagnosis.verdict, diagnosis.xla, diagnosis.findings = judge(facts), None, []
    return diagnosis


def _fails() -> Diagnosis:
    diagnosis = _sample()
    place = _at(61, "hash = tf.strings.as_string(x)")
    step = StepFacts(failed="no registered 'AsString' OpKernel", failed_place=place, first_step_s=0.1)
    diagnosis.facts.step = step
    diagnosis.verdict = judge(diagnosis.facts)
    diagnosis.xla = XlaAdvice(advice="fix this first, or leave XLA off", off_per_s=80.0)
    return diagnosis


def _hostile() -> Diagnosis:
    """Markup, and what a terminal would obey, wherever there is text."""

    def spoiled(value: Any) -> Any:
        if isinstance(value, str):
            return HOSTILE + value
        if isinstance(value, list):
            return [spoiled(each) for each in value]
        if isinstance(value, dict):
            return {name: spoiled(each) for name, each in value.items()}
        return value

    told = spoiled(asdict(_sample()))
    for each, severity in zip(told["findings"], ("error", "warning", "note"), strict=True):
        each["severity"] = severity
    diagnosis: Diagnosis = from_json(Diagnosis, told)
    return diagnosis


SAMPLES: dict[str, Callable[[], Diagnosis]] = {
    "whole": _sample,
    "bare": _bare,
    "without step": _without_step,
    "cut off": _cut_off,
    "fails": _fails,
    "hostile": _hostile,
}


def _said(diagnosis: Diagnosis) -> str:
    return _Page(render_html(diagnosis)).said()


def _row_of(html: str, name: str, *, at: str = "") -> str:
    """The text of the first row of a table that has ``name`` in its heading, and ``at`` behind it."""
    rows = [row.split("</tr>")[0] for row in html.split("<tr")[1:]]
    row = next(row for row in rows if f">{name}</th>" in row and at in row)
    return _Page(f"<table><tr{row}</tr></table>").said()


def test_says_what_the_terminal_says() -> None:
    diagnosis = _sample()
    said = _said(diagnosis)
    assert diagnosis.verdict.limit == "compile-bound"
    assert f"compile-bound {diagnosis.verdict.sentence}" in said
    text = " ".join(to_text(diagnosis).split())
    for finding in diagnosis.findings:
        for words in (finding.message, finding.fix, gain_words(finding)):
            assert words in said
            assert words in text
    assert "1. error recompiles at /home/me/project/pipeline.py:59 update was compiled" in said
    assert "3. note tiny-shards at an unknown line" in said
    assert "predicted: 2.90 times as fast; then .map at line 25 limits it" in said
    assert "measured: 2.70 times (measured)" in said
    assert "variety: 0.25 now, 0.016 then (read)" in said
    for words in (
        "as it is written 138, as TensorFlow runs it 201.7 elements a second",
        "XLA: fix this first: it compiles again and again",
        "update: traced 4 times, compiled 3 times (0.75 s)",
    ):
        assert words in said
        assert words in text


def test_the_order_of_the_parts() -> None:
    assert _Page(render_html(_sample())).headings == [
        *("compile-bound", "Findings", "The pipeline, call by call", "Step times", "XLA"),
        *("Traces and compiles", "What was asked"),
    ]


class TestLadder:
    def test_calls_in_order_with_what_is_inside_them(self) -> None:
        html = render_html(_sample())
        names = [row.split("</th>")[0] for row in html.split('<th scope="row" style="--depth:')[1:]]
        assert names == [
            *('0">.from_tensor_slices', '0">.interleave', '1">.TFRecordDataset', '1">.map'),
            *('2">ParseExampleV2', '0">.map', '1">DecodePng', '0">.batch', '0">.prefetch'),
        ]

    def test_figures(self) -> None:
        diagnosis = _sample()
        html = render_html(diagnosis)
        told = ladder_of(diagnosis.facts)[2]
        assert _row_of(html, ".map", at=":25") == (
            f".map pipeline.py:25 data.map(decode) gives uint8[?, 3] 150 150 {told['own_cpu_s'] * 1e6:,.0f} "
            f"{told['own_share']:.0%} 1.2 AUTOTUNE: 2 12,300 ParallelMapV2, holds 2.5 MiB "
            f"{told['per_s_if_free']:,.0f}"
        )
        assert _row_of(html, "DecodePng").startswith("DecodePng pipeline.py:9 tf.io.decode_png(png)")
        assert f'<rect class="fill" width="{percent_of(told["own_share"])}"' in html

    def test_what_was_not_measured_is_a_dash(self) -> None:
        row = _row_of(render_html(_cut_off()), ".batch")
        assert row == ".batch pipeline.py:26 if i<n & j: data.batch(16) gives uint8[?, 3] – – – – – - – –"


class TestSteps:
    def test_compiles_and_traces_are_marked(self) -> None:
        html = render_html(_sample())
        # Steps 11 and 20, the first of 40 that are drawn being 6.
        marked = dict(re.findall('<path class="([a-z]+-mark)" d="(.*?)"', html))
        assert marked == {
            "compile-mark": f"M{round(1000 * 5 / 39)} 0V1000",
            "trace-mark": f"M{round(1000 * 14 / 39)} 0V1000",
        }
        assert "the first 6 steps are not drawn: the first took 0.460 s" in _said(_sample())

    def test_a_logarithmic_axis_from_a_decade_on(self) -> None:
        diagnosis = _sample()
        step = diagnosis.facts.step
        assert step is not None
        assert "ms a step (logarithmic)" in _said(diagnosis)
        step.events, step.step_s = [], [0.01] * 20 + [0.09]
        assert "(logarithmic)" not in _said(diagnosis)
        step.step_s[3] = 0.0
        assert "(logarithmic)" not in _said(diagnosis)

    def test_fewer_first_steps_where_they_were_slow(self) -> None:
        diagnosis = _sample()
        step = diagnosis.facts.step
        assert step is not None
        step.events = [_event(0, "uint8[1]", seconds=9.0), _event(2, "uint8[2]", seconds=7.0)]
        step.events.append(_event(4, "uint8[3]", seconds=7.5))
        step.step_s, step.wait_s = [0.1, 7.6, 0.1, 0.1], [0.0] * 4
        assert "the first 3 steps are not drawn" in _said(diagnosis)

    def test_first_steps_are_as_many_as_run(self) -> None:
        assert coupling._EXPLAINED_STEPS == page.FIRST_STEPS

    def test_a_long_run_stays_small(self) -> None:
        diagnosis = _sample()
        step = diagnosis.facts.step
        assert step is not None
        step.step_s = [0.001 + (number % 7) * 1e-4 for number in range(40_000)]
        step.wait_s = [0.5 * seconds for seconds in step.step_s]
        step.events = [_event(number, f"uint8[{number}]", seconds=1e-4) for number in range(0, 40_000, 10)]
        html = render_html(diagnosis)
        assert len(html) < 300_000
        said = _Page(html).said()
        assert f"in {COLUMNS} columns" in said
        assert "3,940 more, 0.394 s in all" in said


class TestCompiles:
    def test_the_arguments_that_changed(self) -> None:
        html = render_html(_sample())
        table = html.split('<table class="compiles">')[1].split("</tbody>")[0]
        rows = [_Page(f"<table><tr{row}</table>").said() for row in table.split("<tr")[2:]]
        assert len(rows) == 4
        assert rows[0].endswith("1 traced and compiled 0.3 0.25 its first call")
        assert rows[1].endswith("4 traced and compiled 0.3 0.25 tokens : uint8[16, 8] → uint8[16, 7]")
        assert rows[3].endswith("21 traced 0.03 – none that is seen")

    def test_xla_with_its_break_even(self) -> None:
        diagnosis = _sample()
        diagnosis.xla = XlaAdvice(
            advice="use it: 1.31 times as fast, earned back after 1780 steps",
            off_per_s=562.4, jit_per_s=737.8, compile_s=0.75, break_even_steps=1780,
        )  # fmt: skip
        said = _said(diagnosis)
        for words in ("XLA off 562.4 steps/s", "jit 737.8 steps/s", "earned back 1,780 steps"):
            assert words in said
        diagnosis.xla = replace(diagnosis.xla, advice="don't", off_per_s=900.0, break_even_steps=None)
        assert "earned back never" in _said(diagnosis)


def test_what_was_asked() -> None:
    said = _said(_sample())
    assert (
        "uv run tools/diagnose.py pipeline.py:make_dataset --step pipeline.py:step --args '{\"n\": 1}' "
        "--verify --budget-s 120 --html o.html"
    ) in said
    assert "option threading.private_threadpool_size 2" in said
    assert "memory 16.0 GiB" in said


class TestMissing:
    def test_is_said_in_words(self) -> None:
        said = _said(_bare())
        for words in (
            "unknown the pipeline was not measured to its end",
            "no findings: nothing here is worth changing",
            "Not measured: no call of the pipeline was reached.",
            "No step was named: --step or --fit names one.",
            "Not told in this diagnosis.",
        ):
            assert words in said, words
        assert "None" not in said
        assert "XLA" not in said
        assert "cut off by --budget-s while timing .map at line 25" in _said(_cut_off())
        assert "Not measured: the step did not run." in _said(_cut_off())
        failed = _said(_fails())
        assert "fails the step could not run: no registered 'AsString' OpKernel" in failed
        assert "/home/me/project/pipeline.py:61 hash = tf.strings.as_string(x)" in failed
        assert "Not measured: dataset and step did not run together." in failed
        assert "no step the pipeline alone gives 201.7 elements a second" in _said(_without_step())

    def test_crashes_nothing(self) -> None:
        """Every part that may be None or empty, each alone and together with those before it."""
        together = _sample()
        for name, take in _TAKEN:
            alone = _sample()
            for diagnosis in (alone, together):
                take(diagnosis)
                assert "None" not in _said(diagnosis), name


def _step_of(diagnosis: Diagnosis) -> StepFacts:
    diagnosis.facts.step = diagnosis.facts.step or StepFacts()
    return diagnosis.facts.step


def _events(diagnosis: Diagnosis, **changes: Any) -> None:
    step = _step_of(diagnosis)
    step.events = [replace(each, **changes) for each in step.events]


def _rows(diagnosis: Diagnosis, **changes: Any) -> None:
    diagnosis.facts.rows = [replace(each, **changes) for each in diagnosis.facts.rows]


def _steps(diagnosis: Diagnosis, **changes: Any) -> None:
    diagnosis.facts.step = replace(_step_of(diagnosis), **changes)


def _set(diagnosis: Diagnosis, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(diagnosis, name, value)


def _facts(diagnosis: Diagnosis, **changes: Any) -> None:
    diagnosis.facts = replace(diagnosis.facts, **changes)


_TAKEN: list[tuple[str, Callable[[Diagnosis], None]]] = [
    ("own models", lambda d: _rows(d, own=None)),
    ("inner calls", lambda d: _rows(d, inner=[])),
    ("records", lambda d: _rows(d, records=None)),
    ("elements", lambda d: _rows(d, element=[])),
    ("code", lambda d: _rows(d, place=Place(file="", line=0))),
    ("functions", lambda d: _rows(d, mapped=None)),
    ("rates", lambda d: _rows(d, rate=None)),
    ("the real rate", lambda d: _facts(d, real=None)),
    ("options", lambda d: _facts(d, options={})),
    ("the other way", lambda d: _facts(d, other_jit=None)),
    ("places of events", lambda d: _events(d, place=None, function_place=None)),
    ("arguments", lambda d: _events(d, arguments=[])),
    ("kinds of events", lambda d: _events(d, traced=False, compiled=False)),
    ("events", lambda d: _steps(d, events=[])),
    ("waits", lambda d: _steps(d, wait_s=[])),
    ("all but one step", lambda d: _steps(d, step_s=[0.0])),
    ("functions of the step", lambda d: _steps(d, functions=[])),
    ("rates of the step", lambda d: _steps(d, step_per_s=0.0, loader_per_s=0.0)),
    ("steps", lambda d: _steps(d, step_s=[])),
    ("XLA's figures", lambda d: _set(d, xla=XlaAdvice(advice="not measured both ways"))),
    ("XLA", lambda d: _set(d, xla=None)),
    ("findings", lambda d: _set(d, findings=[])),
    ("rows", lambda d: _facts(d, rows=[])),
    ("the step", lambda d: _facts(d, step=None)),
    ("what was asked", lambda d: _set(d, asked={})),
]


class TestPage:
    @pytest.mark.parametrize("name", SAMPLES)
    def test_is_well_formed_and_needs_nothing_else(self, name: str) -> None:
        html = render_html(SAMPLES[name]())
        parsed = _Page(html)
        assert not {tag for tag, _, _ in parsed.attributes} & {"script", "iframe", "object", "form", "base"}
        for tag, attribute, value in parsed.attributes:
            assert not attribute.startswith("on"), (tag, attribute)
            if attribute in ("src", "href", "xlink:href", "action", "srcset"):
                assert value.startswith(("#", "data:,")), value
        ids = {value for _, attribute, value in parsed.attributes if attribute == "id"}
        for _, attribute, value in parsed.attributes:
            if attribute == "href" and value.startswith("#"):
                assert value[1:] in ids
            if attribute == "aria-labelledby":
                assert set(value.split()) <= ids
        style = html.split("<style>")[1].split("</style>")[0]
        assert "url(" not in style
        assert "@import" not in style
        assert "http:" not in html
        assert "https:" not in html

    @pytest.mark.parametrize("name", SAMPLES)
    def test_the_same_diagnosis_gives_the_same_text(self, name: str) -> None:
        diagnosis = SAMPLES[name]()
        before = copy.deepcopy(diagnosis)
        assert render_html(diagnosis) == render_html(before)
        assert diagnosis == before

    def test_nothing_of_a_diagnosis_is_markup(self) -> None:
        html = render_html(_hostile())
        assert "<script" not in html
        assert html.count("</style>") == 1
        assert not {"\x1b", "\u202e"} & set(html)
        assert "alert(&#39;1 &lt; 2 &amp; 3&#39;)" in html
        assert "{{ 7*7 }}" in html
        # A line of code as people write it.
        assert "<code>if i&lt;n &amp; j: data.batch(16)</code>" in render_html(_sample())

    def test_is_written_whole(self, tmp_path: Path) -> None:
        write_html(tmp_path / "o.html", _sample())
        assert (tmp_path / "o.html").read_text(encoding="utf-8") == render_html(_sample())
        assert [path.name for path in tmp_path.iterdir()] == ["o.html"]
        with pytest.raises(OSError, match="nowhere"):
            write_html(tmp_path / "nowhere" / "o.html", _sample())

    def test_needs_no_tensorflow(self) -> None:
        code = "import sys, tools.doctor.page; sys.exit('tensorflow' in sys.modules)"
        done = run("-c", code)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip("there is no Chromium (apt-get install chromium, or name one by CHROMIUM=...)")
    with browser(path) as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, make in SAMPLES.items():
        write_html(folder / f"{name}.html", make())
    return {name: folder / f"{name}.html" for name in SAMPLES}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_in_a_browser(chromium: Browser, pages: dict[str, Path], name: str, dark: bool, width: int) -> None:
    visit = chromium.visit(pages[name], width=width, dark=dark, expression=_MEASURE)
    assert visit.messages == []
    assert visit.requests == []
    assert visit.value["scroll"] <= visit.value["client"] == width
    assert visit.value["out"] == []
    assert visit.value["scripts"] == 0
    assert visit.value["ground"] == ("rgb(15, 18, 22)" if dark else "rgb(255, 255, 255)")


def test_printed_on_paper(chromium: Browser, pages: dict[str, Path]) -> None:
    # A4 less its margins, at 96 pixels an inch; printed in light colours, whatever the screen has.
    visit = chromium.visit(pages["whole"], width=720, dark=True, media="print", expression=_MEASURE)
    assert visit.value["scroll"] <= visit.value["client"]
    assert visit.value["ground"] == "rgb(255, 255, 255)"
