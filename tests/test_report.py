"""tools/report.py: tables, Markdown and the page, of results that are whole, bare, hostile or extreme.

The page is opened in a headless Chromium (``tests.browser`` says how); without one those tests are skipped.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.browser import Browser, browser, find_chromium
from tests.command import run, sentence
from tests.sample_result import hostile, minimal, sample_result
from tools.measure.against import Against, CellChange
from tools.measure.result import read_result, write_result
from tools.present.bars import ratio_rows
from tools.present.charts import COLUMNS, Chart, heat_of_cores, timeline
from tools.present.markdown import escape, render_markdown
from tools.present.page import render_html, write_html
from tools.present.scales import decimate, for_times
from tools.present.sweep_plots import sweep_charts
from tools.present.table import print_against, print_result
from tools.present.words import cleaned, fastest_sentence, figure, pair_sentence

SAMPLES = {
    "cpu": sample_result(),
    "gpu": sample_result("gpu"),
    "bare": minimal(sample_result(rounds=3)),
    "interrupted": {**minimal(sample_result(rounds=1)), "cells": [], "complete": False},
    "hostile": hostile(),
}


def _printed(result: dict[str, Any], width: int = 80) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    print_result(result, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


class _Page(HTMLParser):
    """What a page is made of; fails on elements that are not closed in order, and on ids used twice."""

    _EMPTY = frozenset({"meta", "link", "img"})
    _SELF_CLOSED = frozenset({"rect", "line", "path", "circle"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.headings: list[str] = []
        self.text: list[str] = []
        self.svgs: list[dict[str, str]] = []
        self.feed(page)
        self.close()
        assert not self.open
        ids = [value for _, name, value in self.attributes if name == "id"]
        assert len(ids) == len(set(ids))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "svg" and "svg" not in self.open:
            self.svgs.append({name: value or "" for name, value in attrs})
        if tag not in self._EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"h2", "h3"} & set(self.open):
            self.headings.append(data)
        if "style" not in self.open:
            self.text.append(data)

    def said(self) -> str:
        return " ".join(" ".join(self.text).split())


class TestSameBytes:
    @pytest.mark.parametrize("name", SAMPLES)
    def test_rendered_twice(self, name: str) -> None:
        result = SAMPLES[name]
        assert render_html([result]) == render_html([copy.deepcopy(result)])
        assert render_markdown([result]) == render_markdown([copy.deepcopy(result)])
        assert _printed(result) == _printed(copy.deepcopy(result))

    def test_in_two_processes(self, tmp_path: Path) -> None:
        write_result(tmp_path / "r.json", SAMPLES["gpu"])
        pages = []
        for seed in ("1", "2"):
            files = ("--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
            done = run("tools/report.py", tmp_path / "r.json", *files, environment={"PYTHONHASHSEED": seed})
            assert done.returncode == 0, done.stderr
            pages.append(((tmp_path / "r.html").read_bytes(), (tmp_path / "r.md").read_bytes()))
        assert pages[0] == pages[1]

    @pytest.mark.parametrize("name", ["cpu", "bare"])
    def test_a_result_in_memory_and_its_file(self, tmp_path: Path, name: str) -> None:
        write_result(tmp_path / "r.json", SAMPLES[name])
        assert render_html([SAMPLES[name]]) == render_html([read_result(tmp_path / "r.json")])


class TestPage:
    def test_the_order_of_the_parts(self) -> None:
        assert _Page(render_html([SAMPLES["gpu"]])).headings == [
            *("input-bound", "Images a second", "Cells", "Equal or not", "Step times", "Where the time goes"),
            "Prediction beside measurement",
            *("Cores and GPU", "Sweep", "Proof of equality", "What it was made on, and how"),
        ]

    @pytest.mark.parametrize("name", SAMPLES)
    def test_is_well_formed_and_needs_nothing_else(self, name: str) -> None:
        html = render_html([SAMPLES[name]])
        page = _Page(html)
        tags = {tag for tag, _, _ in page.attributes}
        assert not tags & {"script", "iframe", "object", "embed", "form", "base"}
        for tag, attribute, value in page.attributes:
            assert not attribute.startswith("on"), (tag, attribute)
            if attribute in ("src", "href", "xlink:href", "action", "srcset"):
                assert value.startswith(("#", "data:image/png;base64,", "data:,")), value
        style = html.split("<style>")[1].split("</style>")[0]
        assert "url(" not in style
        assert "@import" not in style
        assert "default-src 'none'" in html

    def test_nothing_from_a_result_is_markup(self) -> None:
        html = render_html([SAMPLES["hostile"]])
        assert "<script" not in html
        assert "\x1b" not in html
        assert "{{ 7*7 }}" in html
        assert html.count("</style>") == 1
        html.encode("utf-8")

    def test_pictures_of_svgs_are_described(self) -> None:
        page = _Page(render_html([SAMPLES["gpu"]]))
        ids = {value for _, name, value in page.attributes if name == "id"}
        plots = [svg for svg in page.svgs if svg.get("role") == "img"]
        # A bar, a timeline, a ledger, cores, each core and GPU for each of 11 cells, and more.
        assert len(plots) > 6 * 11
        for svg in plots:
            assert set(svg["aria-labelledby"].split()) <= ids

    def test_what_is_missing_is_said_in_words(self) -> None:
        said = _Page(render_html([SAMPLES["bare"]])).said()
        for words in (
            "No verdict: that takes a loader with the step",
            "No intervals: 3 rounds are too few",
            "Not compared: that takes two cells",
            "Pattern: not named in this result.",
            "Not measured: this result has no ledger.",
            "Not predicted: that takes",
            "Not measured: nothing was sampled.",
            "GPU: not measured: no GPU.",
            "Not swept: --sweep batch_size=32,64,128",
            "No pictures in this result.",
            "not in this result",
        ):
            assert words in said, words
        assert "None" not in said
        assert "Not measured: no cell was finished." in _Page(render_html([SAMPLES["interrupted"]])).said()
        assert "This comparison was cut short" in _Page(render_html([SAMPLES["interrupted"]])).said()

    def test_loaders_that_differ_are_a_warning_at_the_top(self) -> None:
        result = copy.deepcopy(SAMPLES["cpu"])
        result["proof"]["difference"] = "image[0, 0]: 1 from tfdata, 2 from dali"
        html = render_html([result])
        warning = '<p class="warning">The loaders do not give the same batches: image[0, 0]: 1 from tfdata'
        assert html.index(warning) < html.index("Images a second</h3>")

    def test_a_gpu_that_was_not_read_is_no_missing_gpu(self) -> None:
        result = minimal(sample_result("gpu", rounds=1))
        assert (
            "GPU: not measured, though there is one: Example GPU 80GB." in _Page(render_html([result])).said()
        )

    def test_a_picture_that_is_none_is_not_embedded(self) -> None:
        result = copy.deepcopy(SAMPLES["cpu"])
        result["proof"]["pictures"][0]["png"] = 'x" onerror="alert(1)'
        html = render_html([result])
        assert "onerror" not in html
        assert "This picture can&#39;t be shown" in html

    def test_several_results_one_after_another(self) -> None:
        page = _Page(render_html([SAMPLES["cpu"], SAMPLES["gpu"], SAMPLES["bare"]]))
        assert page.headings.count("Proof of equality") == 3

    def test_a_long_run_stays_small(self) -> None:
        result = copy.deepcopy(SAMPLES["gpu"])
        for cell in result["cells"]:
            each = cell["rounds"][0]
            each["step_s"] = [0.001 + (number % 7) * 1e-4 for number in range(40_000)]
            each["wait_s"] = [0.5 * seconds for seconds in each["step_s"]]
            each["windows"] = [{**each["windows"][0], "steps": 10_000} for _ in range(4)]
            each["warm_up_windows"] = 2
            each["compiles"] = [{"name": "x", "seconds": 0.1, "step": step} for step in range(0, 40_000, 10)]
            samples = each["samples"]
            for name, series in samples.items():
                if isinstance(series, list) and name != "energy_of":
                    samples[name] = [value for value in series for _ in range(40)]
            samples["gpu"] = {k: v and [x for x in v for _ in range(40)] for k, v in samples["gpu"].items()}
            samples["cores_busy"] = [row * 12 for row in samples["cores_busy"]]
        assert len(render_html([result])) < 2_000_000

    def test_is_written_whole(self, tmp_path: Path) -> None:
        write_html(tmp_path / "r.html", [SAMPLES["cpu"]])
        assert (tmp_path / "r.html").read_text() == render_html([SAMPLES["cpu"]])
        assert len(list(tmp_path.iterdir())) == 1


_POSITIVE = st.floats(1e-9, 1e15)
_FIGURE = st.one_of(st.just(0.0), st.floats(5e-324, 1e15))


class TestExtremes:
    """Figures that no run gives, and a file may hold: something is drawn, and nothing fails."""

    @settings(max_examples=40)
    @given(
        st.fixed_dictionaries(
            {
                "rates": st.lists(_POSITIVE, min_size=3, max_size=3).map(sorted),
                "step_s": st.lists(_FIGURE, min_size=1, max_size=5),
                "ledger": st.lists(_FIGURE, min_size=5, max_size=5),
                "wall_s": _POSITIVE,
                "at_s": st.lists(st.floats(-1e15, 1e15), max_size=4),
                "busy": st.lists(st.floats(0, 1), max_size=3),
                "setting": st.lists(_FIGURE, min_size=2, max_size=2),
            }
        )
    )
    def test_any_valid_figures(
        self, tmp_path_factory: pytest.TempPathFactory, figures: dict[str, Any]
    ) -> None:
        result = sample_result("gpu", rounds=1)
        low, middle, high = figures["rates"]
        step_s, at_s = figures["step_s"], figures["at_s"]
        result["cells"] = result["cells"][:3]
        for cell in result["cells"]:
            cell |= {"images_per_s": middle, "images_per_s_low": low, "images_per_s_high": high}
            cell["images_per_s_rounds"] = [high]
            parts = ("wait_s", "copy_s", "compute_s", "compile_s", "host_s")
            cell["ledger"] = dict(zip(parts, figures["ledger"], strict=True)) | {"wall_s": figures["wall_s"]}
            each = cell["rounds"][0]
            each |= {"step_s": step_s, "wait_s": step_s, "warm_up_windows": 0, "compiles": []}
            each["windows"] = [{**each["windows"][0], "steps": len(step_s)}]
            series = ("process_cores", "other_cores", "rss_mib", "read_mib", "energy_j")
            each["samples"] |= {
                "at_s": at_s,
                "cores_busy": [figures["busy"] for _ in at_s],
                **{name: [abs(value) for value in at_s] for name in series},
                "gpu": {"utilisation": [0.5 for _ in at_s]},
            }
        names = [cell["name"] for cell in result["cells"]]
        ratio = {"value": middle, "low": low, "high": high, "pairs": 8, "equal": False}
        result["comparisons"] = [{"a": names[0], "b": names[1], **ratio}]
        for point, value in zip(result["sweep"]["points"], figures["setting"] * 10, strict=True):
            point |= {"settings": {"batch_size": value}, "images_per_s": middle}
            point["images_per_s_rounds"] = figures["rates"]
        path = tmp_path_factory.getbasetemp() / "extreme.json"
        write_result(path, result)
        read = read_result(path)
        _Page(render_html([read]))
        render_markdown([read])
        _printed(read)


class TestPlots:
    @given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400), st.integers(1, 50))
    def test_decimating_keeps_every_columns_extremes(self, values: list[float], columns: int) -> None:
        points = decimate(values, columns)
        assert len(points) <= max(2 * columns, 1)
        assert [index for index, _ in points] == sorted({index for index, _ in points})
        assert all(values[index] == value for index, value in points)
        drawn = [value for _, value in points]
        assert (min(drawn), max(drawn)) == (min(values), max(values))

    def test_a_single_spike_in_a_long_run_is_drawn(self) -> None:
        cell = copy.deepcopy(SAMPLES["cpu"]["cells"][2])
        each = cell["rounds"][0]
        each["step_s"] = [0.01] * 50_000
        each["step_s"][31_415] = 0.05
        each["wait_s"] = [0.0] * 50_000
        each["windows"] = [{**each["windows"][0], "steps": 50_000}]
        each["warm_up_windows"] = 0
        line = next(path for path in timeline(cell).paths if path.css == "step-line")
        heights = [int(point.split()[1]) for point in re.split("[ML]", line.d)[1:]]
        assert len(heights) <= 2 * COLUMNS
        assert heights.count(min(heights)) == 1
        assert min(heights) < 50 < max(heights)

    def test_a_timeline_shades_the_warm_up_and_marks_compiles(self) -> None:
        cell = next(cell for cell in SAMPLES["cpu"]["cells"] if cell["name"] == "dali, xla auto")
        chart = timeline(cell)
        each = cell["rounds"][0]
        warm = sum(window["steps"] for window in each["windows"][: each["warm_up_windows"]])
        share = float(chart.bands[0].width.rstrip("%")) / 100
        assert share == pytest.approx(warm / (len(each["step_s"]) - 1), abs=0.001)
        late = [compiled for compiled in each["compiles"] if compiled["step"] >= 0]
        marks = next(path for path in chart.paths if path.css == "compile-mark")
        assert marks.d.count("M") == len(late) > 0
        assert "compiles at step 6" in chart.description

    def test_a_scale_becomes_logarithmic_where_one_step_would_flatten_all(self) -> None:
        assert not for_times([1.0, 1.1, 1.2, 9.0]).log
        assert for_times([1.0, 1.1, 1.2, 90.0]).log

    def test_the_knees_have_rings(self) -> None:
        drawn: list[tuple[Chart, list[str]]] = sweep_charts(SAMPLES["cpu"]["sweep"])
        assert [chart.x_label for chart, _ in drawn] == ["batch_size", "parallel"]
        for chart, names in drawn:
            assert names == ["tfdata", "dali"]
            assert sum("knee" in dot.css for dot in chart.dots) == 2

    def test_many_cores_are_drawn_as_means(self) -> None:
        cell = copy.deepcopy(SAMPLES["cpu"]["cells"][0])
        samples = cell["rounds"][0]["samples"]
        samples["cores_busy"] = [row * 12 for row in samples["cores_busy"]]
        picture = heat_of_cores(cell)
        assert picture is not None
        assert picture.rows == 32
        assert picture.description.startswith("192 cores, ")

    def test_ratios_stand_with_the_faster_cell_first(self) -> None:
        pair = {"a": "x", "b": "y", "value": 0.5, "low": 0.4, "high": 0.8, "pairs": 8, "equal": False}
        rows, ticks = ratio_rows([pair])
        assert (rows[0].a, rows[0].b) == ("y", "x")
        assert rows[0].text == "2.000 (1.250 to 2.500)"
        assert rows[0].sentence == "y is 2.0 times as fast"
        assert ticks[0].text == "1"


class TestWords:
    def test_pairs(self) -> None:
        pair = {"a": "x", "b": "y", "value": 1.05, "low": 1.02, "high": 1.08, "pairs": 9, "equal": False}
        assert pair_sentence(pair) == "x is 5.0 % faster"
        assert pair_sentence({**pair, "equal": True}) == "equal, as far as this run can tell"
        few = {**pair, "low": None, "high": None, "equal": None, "pairs": 1}
        assert pair_sentence(few) == "not ranked: 1 round is too few for an interval"

    def test_the_fastest_and_its_equals(self) -> None:
        result = copy.deepcopy(SAMPLES["cpu"])
        first = "Fastest with the step: dali, xla jit"
        assert fastest_sentence(result) == f"{first}, and no other is equal to it."
        for pair in result["comparisons"]:
            if {pair["a"], pair["b"]} == {"dali, xla jit", "dali, xla off"}:
                pair["equal"] = True
        equal = "Equal to it, as far as this run can tell: dali, xla off."
        assert fastest_sentence(result) == f"{first}. {equal}"

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0, "0"), (0.1234, "0.123"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234")],
    )
    def test_figures(self, value: float, text: str) -> None:
        assert figure(value) == text

    def test_cleaned(self) -> None:
        assert cleaned({"a\x1b": ["\ud800", "é\n", 1, None]}) == {"a\ufffd": ["\ufffd", "é\n", 1, None]}


class TestMarkdown:
    def test_the_verdict_comes_first(self) -> None:
        lines = render_markdown([SAMPLES["cpu"]]).splitlines()
        assert lines[0] == "## input-bound"
        assert lines[2].startswith("**input-bound: the loader is the limit (together ")

    @pytest.mark.parametrize("name", SAMPLES)
    def test_every_row_of_a_table_has_its_cells(self, name: str) -> None:
        columns = None
        for line in render_markdown([SAMPLES[name]]).splitlines():
            if not line.startswith("|"):
                columns = None
                continue
            cells = len(re.findall(r"(?<!\\)\|", line))
            columns = columns or cells
            assert cells == columns, line

    def test_nothing_from_a_result_is_markup(self) -> None:
        text = render_markdown([SAMPLES["hostile"]])
        # What is left without escaped characters has no HTML, no link and no code in it.
        assert not re.search(r"[<>`\[\]]", re.sub(r"\\.", "", text))
        text.encode("utf-8")

    @pytest.mark.parametrize(
        ("text", "escaped"),
        [("a|b", r"a\|b"), ("# x", r"\# x"), ("1. x", r"1\. x"), ("1.5", "1.5"), ("a\n\nb", "a b")],
    )
    def test_escape(self, text: str, escaped: str) -> None:
        assert escape(text) == escaped


class TestTable:
    @pytest.mark.parametrize("name", ["cpu", "gpu", "bare", "interrupted"])
    def test_fits_80_characters_with_every_column(self, name: str) -> None:
        text = _printed(SAMPLES[name])
        assert max(map(len, text.splitlines())) <= 80
        assert "…" not in text
        if name != "interrupted":
            assert "p99 ms" in text
        if name in ("cpu", "gpu"):
            assert "predicted" in text
            assert "tfdata/off: periodic spikes: every 24 steps" in text

    def test_the_verdict_is_the_last_that_is_read(self) -> None:
        text = " ".join(_printed(SAMPLES["cpu"]).split())
        assert text.endswith(f"Verdict: {SAMPLES['cpu']['verdict']}")

    def test_a_terminal_obeys_nothing_from_a_result(self) -> None:
        text = _printed(SAMPLES["hostile"])
        assert "\x1b" not in text
        assert "[bold]" in text

    def test_against_an_earlier_result(self) -> None:
        change = CellChange(
            cell="x", ratio=0.9, low=None, high=None, verdict="slower", sentence="x: slower [bold]\x1b"
        )
        against = Against(cells=(change,), only_old=(), only_new=(), sentence="of 1 cell 1 slower")
        console = Console(file=StringIO(), width=80, color_system=None)
        print_against(against, console)
        assert isinstance(console.file, StringIO)
        assert console.file.getvalue() == (
            "x: slower [bold]\ufffd\nAgainst the earlier result: of 1 cell 1 slower\n"
        )


class TestCommandLine:
    def test_tables_pages_and_markdown_of_several_results(self, tmp_path: Path) -> None:
        paths = [tmp_path / "a.json", tmp_path / "b.json"]
        write_result(paths[0], SAMPLES["cpu"])
        write_result(paths[1], SAMPLES["bare"])
        done = run("tools/report.py", *paths)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Verdict: ") == 2
        files = ("--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
        done = run("tools/report.py", *paths, *files)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        results = [read_result(path) for path in paths]
        assert (tmp_path / "r.html").read_text() == render_html(results)
        assert (tmp_path / "r.md").read_text() == render_markdown(results)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((), "name at least one result file"),
            (("nothing.json",), "nothing.json: there is no such file"),
            (("r.json", "--html", "no/where.html"), "--html no/where.html: there is no folder no"),
        ],
    )
    def test_a_mistake_is_one_sentence(self, arguments: tuple[str, ...], words: str) -> None:
        assert words in sentence(run("tools/report.py", *arguments))


def _palettes() -> dict[str, dict[str, str]]:
    """The colours of each theme in the style sheet."""
    style = (Path(__file__).parents[1] / "tools/present/templates/style.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colours = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), colours, strict=True))


def _contrast(one: str, other: str) -> float:
    """Contrast of two colours (Web Content Accessibility Guidelines 2.2, "contrast ratio")."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_colours_can_be_told_apart(theme: str) -> None:
    colours = _palettes()[theme]
    for text in ("text", "muted", "good", "bad", "train"):
        for ground in ("page", "panel"):
            assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for part in ("wait", "copy", "compute", "compile", "host", "good"):
        assert _contrast(colours["on-part"], colours[part]) >= 4.5, part
    for line in ("train", "loader", "ceiling", "mark"):
        for ground in ("page", "band"):
            assert _contrast(colours[line], colours[ground]) >= 3, (line, ground)


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
    several = {**{name: [result] for name, result in SAMPLES.items()}, "several": list(SAMPLES.values())}
    for name, results in several.items():
        write_html(folder / f"{name}.html", results)
    return {name: folder / f"{name}.html" for name in several}


_MEASURE = """(() => {
  const root = document.documentElement, out = [];
  for (const each of document.querySelectorAll("body *")) {
    if (each.closest("svg svg") || each.closest(".scroll > *")) continue;
    const box = each.getBoundingClientRect();
    const outside = box.width && (box.right > root.clientWidth + 1 || box.left < -1);
    if (outside) out.push(each.outerHTML.slice(0, 80));
  }
  return {
    scroll: root.scrollWidth, client: root.clientWidth, out: out.slice(0, 3),
    ground: getComputedStyle(document.body).backgroundColor, scripts: document.scripts.length,
    pictures: [...document.images].every(each => each.complete && each.naturalWidth > 0),
  };
})()"""


@pytest.mark.parametrize("name", [*SAMPLES, "several"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_in_a_browser(chromium: Browser, pages: dict[str, Path], name: str, dark: bool, width: int) -> None:
    visit = chromium.visit(pages[name], width=width, dark=dark, expression=_MEASURE)
    assert visit.messages == []
    assert visit.requests == []
    assert visit.value["scroll"] <= visit.value["client"] == width
    assert visit.value["out"] == []
    assert visit.value["scripts"] == 0
    assert visit.value["pictures"]
    assert visit.value["ground"] == ("rgb(15, 18, 22)" if dark else "rgb(255, 255, 255)")


def test_the_browser_sees_what_it_is_asked_to_look_for(chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(
        "<div style='width:500px'>wide</div><script>console.log('said')</script>"
        "<img src='http://127.0.0.1:9/x.png'>"
    )
    visit = chromium.visit(tmp_path / "bad.html", width=400, expression=_MEASURE)
    assert visit.value["scroll"] > visit.value["client"] == 400
    assert "wide" in visit.value["out"][0]
    assert any("said" in message for message in visit.messages)
    assert visit.requests == ["http://127.0.0.1:9/x.png"]


def test_printed_on_paper(chromium: Browser, pages: dict[str, Path]) -> None:
    # A4 less its margins, at 96 pixels an inch; printed in light colours, whatever the screen has.
    visit = chromium.visit(pages["gpu"], width=720, dark=True, media="print", expression=_MEASURE)
    assert visit.value["scroll"] <= visit.value["client"]
    assert visit.value["ground"] == "rgb(255, 255, 255)"


def test_without_scripts_it_says_the_same(chromium: Browser, pages: dict[str, Path]) -> None:
    visits = [
        chromium.visit(pages["gpu"], width=1400, script=script, expression="document.body.innerText")
        for script in (True, False)
    ]
    assert visits[0].value == visits[1].value
    assert json.dumps(SAMPLES["gpu"]["metadata"]["processor"]).strip('"') in visits[0].value
