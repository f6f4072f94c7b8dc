"""Watches what a step makes TensorFlow do: traces, XLA compiles, reads by the host, a profiler that runs.

Only entry points are wrapped, in this process and while the watch is open; what the user's code computes
stays the same.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tools.doctor.sites import Site, site_of, site_of_function, user_frame


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One argument of a tf.function, as far as it decides whether the function is traced again."""

    name: str
    kind: str
    """'tensor' or 'python'."""
    text: str
    """Shape and dtype of a tensor; type and value of a Python object."""
    made_by: Site | None = None
    """The user's line that computed the tensor, where that is known."""


@dataclass(kw_only=True, slots=True)
class Event:
    """A call of a user's tf.function in which it was traced or XLA compiled."""

    function: str
    function_site: Site | None
    call_site: Site | None
    step: int
    traced: bool
    compiled: bool
    seconds: float
    """Of the whole call."""
    compile_s: float = 0.0
    arguments: list[Argument] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class HostRead:
    """Reads of tensors' values by one line of the user's."""

    site: Site
    count: int = 0
    seconds: float = 0.0
    """For which the line waited."""


@dataclass(kw_only=True, slots=True)
class FunctionSeen:
    """A tf.function of the user's that was called."""

    name: str
    site: Site | None
    jit: bool | None
    function: Any
    calls: int = 0
    outermost_calls: int = 0


class Watch:
    """While open, notes what the step's functions do. ``jit``: None leaves ``jit_compile`` as the user set
    it,
    True or False overrides it for the user's functions that are made meanwhile."""

    def __init__(
        self, *, jit: bool | None = None, compiled: Callable[[], tuple[int, float]] = lambda: (0, 0.0)
    ):
        """``compiled``: XLA's compiles so far, their number and seconds."""
        self._jit = jit
        self._compiled = compiled
        self._depth = 0
        self._undo: list[tuple[Any, str, Any]] = []
        self._origin: dict[int, tuple[Any, Site]] | None = None
        self.step = 0
        self.events: list[Event] = []
        self.reads: dict[Site, HostRead] = {}
        self.functions: dict[int, FunctionSeen] = {}
        self.profiler_site: Site | None = None
        self.profiler_runs = False

    def __enter__(self) -> Watch:
        from tensorflow.python.eager.polymorphic_function import polymorphic_function
        from tensorflow.python.framework import ops
        from tensorflow.python.profiler import profiler_v2

        functions = polymorphic_function.Function
        self._wrap(functions, "__init__", self._making)
        self._wrap(functions, "__call__", self._calling)
        self._wrap(ops._EagerTensorBase, "_numpy", self._reading)
        self._wrap(profiler_v2, "start", self._starting)
        self._wrap(profiler_v2, "stop", self._stopping)
        import tensorflow as tf

        # The public names are copies of the module's functions.
        for name in ("start", "stop"):
            self._undo.append((tf.profiler.experimental, name, getattr(tf.profiler.experimental, name)))
            setattr(tf.profiler.experimental, name, getattr(profiler_v2, name))
        return self

    def __exit__(self, *_: object) -> None:
        self.forget_origins()
        for place, name, was in reversed(self._undo):
            setattr(place, name, was)

    def note_origins(self) -> None:
        """From here on, keep for each tensor that is computed eagerly which line of the user's did it."""
        from tensorflow.python.framework import op_callbacks

        self._origin = {}
        op_callbacks.add_op_callback(self._computed)

    def forget_origins(self) -> None:
        if self._origin is None:
            return
        from tensorflow.python.framework import op_callbacks

        op_callbacks.remove_op_callback(self._computed)
        self._origin = None

    def _wrap(self, place: Any, name: str, wrapper: Callable[..., Any]) -> None:
        inner = getattr(place, name)
        self._undo.append((place, name, inner))

        def wrapped(*arguments: Any, **named: Any) -> Any:
            return wrapper(inner, *arguments, **named)

        setattr(place, name, wrapped)

    def _making(self, init: Any, function: Any, python_function: Any, *arguments: Any, **named: Any) -> None:
        if self._jit is not None and site_of_function(python_function) is not None:
            named["jit_compile"] = self._jit or None
        init(function, python_function, *arguments, **named)

    def _calling(self, call: Any, function: Any, *arguments: Any, **named: Any) -> Any:
        import tensorflow as tf

        if self._depth or not tf.executing_eagerly():
            return call(function, *arguments, **named)
        seen = self._seen(function)
        traces = function.experimental_get_tracing_count()
        count, compile_s = self._compiled()
        began = time.perf_counter()
        self._depth += 1
        try:
            return call(function, *arguments, **named)
        finally:
            self._depth -= 1
            took = time.perf_counter() - began
            seen.calls += 1
            traced = function.experimental_get_tracing_count() != traces
            # XLA's log comes through a pipe: a call that compiled took longer than reading it does.
            if traced or took > 0.05:
                time.sleep(0.02)
            now, now_s = self._compiled()
            if traced or now != count:
                outer = user_frame(sys._getframe(1))
                self.events.append(
                    Event(
                        function=seen.name,
                        function_site=seen.site,
                        call_site=site_of(outer[0]) if outer else None,
                        step=self.step,
                        traced=traced,
                        compiled=now != count,
                        seconds=took,
                        compile_s=now_s - compile_s,
                        arguments=self._describe(function, arguments, named),
                    )
                )

    def _seen(self, function: Any) -> FunctionSeen:
        if id(function) not in self.functions:
            python_function = function.python_function
            self.functions[id(function)] = FunctionSeen(
                name=getattr(python_function, "__name__", "function"),
                site=site_of_function(python_function),
                jit=function._jit_compile,
                function=function,
            )
        return self.functions[id(function)]

    def _describe(self, function: Any, arguments: Any, named: Any) -> list[Argument]:
        import inspect

        import tensorflow as tf

        try:
            bound = inspect.signature(function.python_function).bind_partial(*arguments, **named).arguments
        except (TypeError, ValueError):
            bound = {f"argument {number}": each for number, each in enumerate(arguments)} | named
        described = []
        for name, value in bound.items():
            try:
                parts = tf.nest.flatten(value)
            except (TypeError, ValueError):
                parts = [value]
            for number, part in enumerate(parts):
                called = name if len(parts) == 1 else f"{name}[{number}]"
                described.append(self._argument(called, part))
        return described

    def _argument(self, name: str, value: Any) -> Argument:
        import tensorflow as tf

        if isinstance(value, tf.Tensor):
            origin = (self._origin or {}).get(id(value))
            shape = ", ".join("?" if each is None else str(each) for each in value.shape.as_list() or [])
            return Argument(
                name=name,
                kind="tensor",
                text=f"{value.dtype.name}[{shape}]",
                made_by=origin[1] if origin else None,
            )
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return Argument(name=name, kind="tensor", text=f"{value.dtype}{list(value.shape)}")
        text = repr(value) if isinstance(value, int | float | str | bool | None) else f"object {id(value):#x}"
        return Argument(name=name, kind="python", text=f"{type(value).__name__} {text[:80]}")

    def _computed(self, *told: Any, graph: Any = None, op_name: Any = None) -> None:
        _, _, _, outputs, *_ = told
        if self._origin is None or graph is not None or not outputs:
            return
        outer = user_frame(sys._getframe(1))
        if outer is None:
            return
        site = site_of(outer[0])
        if len(self._origin) > 20000:
            self._origin.clear()
        for tensor in outputs:
            self._origin[id(tensor)] = (tensor, site)

    def _reading(self, numpy: Any, tensor: Any) -> Any:
        caller = sys._getframe(2)
        began = time.perf_counter()
        value = numpy(tensor)
        took = time.perf_counter() - began
        outer = user_frame(caller)
        if outer is not None:
            site = site_of(outer[0])
            read = self.reads.setdefault(site, HostRead(site=site))
            read.count += 1
            read.seconds += took
        return value

    def _starting(self, start: Any, *arguments: Any, **named: Any) -> Any:
        outer = user_frame(sys._getframe(2))
        result = start(*arguments, **named)
        if outer is not None:
            self.profiler_site, self.profiler_runs = site_of(outer[0]), True
        return result

    def _stopping(self, stop: Any, *arguments: Any, **named: Any) -> Any:
        self.profiler_runs = False
        return stop(*arguments, **named)
