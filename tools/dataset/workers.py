"""A function applied by several processes: results in order, memory bounded, gone at Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TypeVar

from loaders.cli import RunFailed

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Task], Result], tasks: Sequence[Task], *, workers: int
) -> Generator[Result]:
    """``function`` of each task, in the tasks' order; with one worker, in this process.

    No more than three results a worker wait to be taken. Closing the iterator, or an
    error while it waits, ends the workers.

    Errors: what ``function`` raises; RunFailed when a worker dies.
    """
    if workers <= 1:
        yield from map(function, tasks)
        return
    # Not by fork: a parent that runs threads (TensorFlow's, say) could deadlock its children.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
    pending: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            if len(pending) == 3 * workers:
                yield pending.popleft().result()
            with _interrupts_held():
                pending.append(executor.submit(function, task))
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise RunFailed("a process that renders was killed (memory?): try fewer --workers") from None
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let processes that start meanwhile inherit a blocked Ctrl-C: ending them is for the parent.

    One that comes meanwhile reaches the parent when the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # On its own start it would unblock the signal in the middle of the block.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """End this process when its parent is gone, however that ended (kill -9)."""
    threading.Thread(target=_wait_for_parents_end, daemon=True).start()


def _wait_for_parents_end() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
