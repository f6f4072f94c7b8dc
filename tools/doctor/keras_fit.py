"""A Keras model's fit() as a step: what it does for one batch, with what jit_compile="auto" decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def fit_step(model: Any, *, jit: bool | None = None) -> Callable[..., Any]:
    """A step that trains ``model`` on one batch as its ``fit`` does; ``jit`` None leaves XLA as Keras
    decided.

    Errors: ValueError for what is no compiled Keras model.
    """
    import keras

    if not isinstance(model, keras.Model):
        raise ValueError(f"--fit must name a function that returns a Keras model: {type(model).__name__}")
    if not getattr(model, "compiled", False):
        raise ValueError("--fit: the model must be compiled: model.compile(optimizer=..., loss=...)")
    if jit is not None:
        model.jit_compile = jit

    def train_step(*element: Any) -> Any:
        data = element if len(element) > 1 else element[0]
        if model.train_function is None:
            model._symbolic_build(data_batch=data)
            model.make_train_function()
        # fit() hands its function an iterator over elements, and reads nothing back before the epoch's end.
        return model.train_function(iter([data]))

    return train_step
