"""Where the time of each step went, on the host's clock."""

from __future__ import annotations

from dataclasses import dataclass, field

WARM_UP_STEPS = 3
"""Steps at the beginning that a rate leaves out: tracing, first compiles, empty buffers."""


@dataclass(kw_only=True, slots=True)
class StepTimes:
    """Host times of every step of a run, in seconds.

    A step begins when the one before ended; it waits for its batch, then runs. On a GPU
    the host only queues the work, so that single steps look shorter than they are until
    the queue is full; a window that begins and ends synchronised is exact.
    """

    batch_size: int
    wait_s: list[float] = field(default_factory=list)
    """Waiting for the batch."""
    step_s: list[float] = field(default_factory=list)
    """The whole step, the wait included."""

    def add(self, *, wait_s: float, step_s: float) -> None:
        self.wait_s.append(wait_s)
        self.step_s.append(step_s)

    @property
    def warm_up(self) -> int:
        """Steps left out of the rates: none where there are hardly more."""
        return WARM_UP_STEPS if len(self.step_s) > 2 * WARM_UP_STEPS else 0

    @property
    def images_per_s(self) -> float:
        """Images a second after the warm-up; 0 before the first step."""
        return self.rate_since(self.warm_up)

    @property
    def wait_share(self) -> float:
        """Share of the time after the warm-up in which the step waited for data."""
        return self.wait_share_since(self.warm_up)

    def rate_since(self, step: int) -> float:
        """Images a second from ``step`` on."""
        seconds = sum(self.step_s[step:])
        return len(self.step_s[step:]) * self.batch_size / seconds if seconds > 0 else 0.0

    def wait_share_since(self, step: int) -> float:
        """Waiting share from ``step`` on."""
        seconds = sum(self.step_s[step:])
        return sum(self.wait_s[step:]) / seconds if seconds > 0 else 0.0
