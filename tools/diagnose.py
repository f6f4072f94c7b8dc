"""Diagnoses a tf.data pipeline and its step: uv run tools/diagnose.py path/to/file.py:make_dataset."""

from __future__ import annotations

import sys

from loaders.atomic import check_can_write
from loaders.cli import run_cli
from tools.doctor.config import DoctorConfig

DESCRIPTION = (
    "Says what each call of a tf.data pipeline costs, whether XLA compiles its step again and again, and "
    "what "
    "each fix is worth. The pipeline is anybody's: a function that returns a tf.data.Dataset."
)


def main(config: DoctorConfig) -> int:
    from rich.console import Console

    from tools.doctor.run import run
    from tools.doctor.terminal import show

    for flag, path in (("--json", config.json), ("--html", config.html)):
        if path is not None:
            check_can_write(flag, path)
    if config.profile is not None:
        return _tell_profile(config.profile, config.json)
    diagnosis = run(config, tell=lambda doing: print(f"  {doing}", file=sys.stderr))
    if config.json is not None:
        diagnosis.write_json(config.json)
    if config.html is not None:
        from tools.doctor.page import write_html

        write_html(config.html, diagnosis)
    show(diagnosis, Console())
    return 1 if diagnosis.facts.unfinished else 0


def _tell_profile(folder: str, json_path: str | None) -> int:
    import json

    from rich.console import Console

    from loaders.atomic import write_beside
    from tools.doctor.tf_profile import read_profile
    from tools.doctor.tf_profile_table import show_profile

    report = read_profile(folder)
    if json_path is not None:
        with write_beside(json_path) as file:
            file.write(json.dumps(report.to_json(), indent=1).encode())
    show_profile(report, Console())
    return 0


if __name__ == "__main__":
    run_cli(main, DoctorConfig, prog="diagnose.py", description=DESCRIPTION)
