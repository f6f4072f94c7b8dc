"""How far a comparison is, on stderr: a bar on a terminal, else a line for each cell."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tools.measure.rounds import Progress as Done


class ProgressLines:
    """A context: ``say`` prints a sentence, ``tell`` shows a cell that is done and the time left."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        if self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)

    def __enter__(self) -> ProgressLines:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, sentence: str) -> None:
        if self._bar:
            self._console.print(sentence, highlight=False, markup=False)
        else:
            print(sentence, file=sys.stderr, flush=True)

    def tell(self, done: Done) -> None:
        notes = f" ({'; '.join(done.notes)})" if done.notes else ""
        self.say(f"[{done.done}/{done.total}] {done.cell}: {done.images_per_s:.0f} img/s{notes}")
        if self._bar:
            if not self._bar.tasks:
                self._bar.add_task("", total=done.total)
            left = f"round {done.round} of {done.rounds}, {_minutes(done.left_s)} left"
            self._bar.update(self._bar.tasks[0].id, completed=done.done, description=left)
        elif done.done % max(1, done.total // done.rounds) == 0 and done.done < done.total:
            self.say(f"round {done.round} of {done.rounds} is done, {_minutes(done.left_s)} left")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
