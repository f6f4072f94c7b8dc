"""Shows results of tools/compare.py: uv run tools/report.py RESULT.json... [--html FILE]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from loaders.atomic import check_can_write, write_beside
from loaders.cli import run_cli
from loaders.config import optional

DESCRIPTION = (
    "Shows results of tools/compare.py, one after another: as tables on the terminal, or as one HTML page "
    "that needs nothing else, or as Markdown."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportConfig:
    """What is shown, and where."""

    results: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RESULT.json...")]
    """Result files."""
    html: Annotated[str | None, optional("none", "FILE")] = None
    """Write one self-contained page here."""
    markdown: Annotated[str | None, optional("none", "FILE")] = None
    """Write Markdown here."""

    def __post_init__(self) -> None:
        if not self.results:
            raise ValueError("RESULT.json: name at least one result file")


def main(config: ReportConfig) -> int:
    from rich.console import Console

    from tools.measure.result import read_result
    from tools.present.markdown import render_markdown
    from tools.present.page import write_html
    from tools.present.table import print_result

    check_can_write("--html", config.html)
    check_can_write("--markdown", config.markdown)
    results = [read_result(path) for path in config.results]
    if config.html:
        write_html(config.html, results)
    if config.markdown:
        with write_beside(config.markdown) as file:
            file.write(render_markdown(results).encode("utf-8"))
    if not config.html and not config.markdown:
        console = Console()
        for number, result in enumerate(results):
            if number:
                console.rule()
            print_result(result, console)
    return 0


if __name__ == "__main__":
    run_cli(main, ReportConfig, prog="report.py", description=DESCRIPTION)
