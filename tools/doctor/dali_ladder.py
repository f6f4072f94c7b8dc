"""The operators of a DALI pipeline, each measured by a pipeline that ends with it."""

from __future__ import annotations

import sys
import time
from typing import Any

from tools.doctor import facts
from tools.doctor.sites import Site, site_of, user_frame

_WARM_UP_RUNS = 3


class OperatorSites:
    """While open, notes which line of the user's made each DALI operator; nothing where DALI is not there."""

    def __init__(self) -> None:
        self.sites: dict[int, Site] = {}
        self._kept: list[Any] = []
        self._class: Any = None

    def __enter__(self) -> OperatorSites:
        try:
            from nvidia.dali import ops
        except ImportError:
            return self
        self._class = vars(ops)["_OperatorInstance"]
        self._init = init = self._class.__init__

        def noting(operator: Any, *arguments: Any, **named: Any) -> None:
            outer = user_frame(sys._getframe(1))
            if outer is not None:
                self.sites[id(operator)] = site_of(outer[0])
                self._kept.append(operator)
            init(operator, *arguments, **named)

        self._class.__init__ = noting
        return self

    def __exit__(self, *_: object) -> None:
        if self._class is not None:
            self._class.__init__ = self._init


def pipeline_of(dataset: Any) -> Any:
    """The DALI pipeline behind a DALIDataset; None for another dataset."""
    while dataset is not None:
        pipeline = getattr(dataset, "_pipeline_instance", None)
        if pipeline is not None:
            return pipeline
        # DALI wraps the dataset that runs the pipeline once or twice.
        inner = (getattr(dataset, name, None) for name in ("_wrapped", "_dataset", "_input_dataset"))
        dataset = next((each for each in inner if each is not None), None)
    return None


def measure_operators(
    dataset: Any, sites: dict[int, Site], *, threads: int, seconds: float
) -> list[facts.Row]:
    """A row for each operator, sources first: batches a second of the pipeline that ends with it.

    Errors: whatever DALI raises.
    """
    from nvidia.dali import Pipeline

    pipeline = pipeline_of(dataset)
    if pipeline is None:
        return []
    rows = []
    for operator in _operators(pipeline._graph_outputs or pipeline._graph_out or ()):
        prefix = Pipeline(
            pipeline.max_batch_size,
            threads,
            pipeline.device_id,
            seed=1,
        )
        prefix.set_outputs(*operator.outputs[:1])
        prefix.build()
        for _ in range(_WARM_UP_RUNS):
            prefix.run()
        runs, began, cpu = 0, time.perf_counter(), time.process_time()
        while (took := time.perf_counter() - began) < seconds:
            prefix.run()
            runs += 1
        site = sites.get(id(operator)) or Site(file="", line=0)
        rows.append(
            facts.Row(
                call=operator._op.schema_name.replace("__", "."),
                place=facts.Place(file=site.file, line=site.line, code=site.code),
                inputs=[],
                arguments={"device": operator._op.device},
                records=float(pipeline.max_batch_size),
                element=[],
                rate=facts.Rate(
                    per_s=runs / took,
                    cpu_s=(time.process_time() - cpu) / max(1, runs),
                    cores=(time.process_time() - cpu) / took,
                    first_s=0.0,
                    bytes=0.0,
                    elements=runs,
                    ended=False,
                ),
            )
        )
    return rows


def _operators(outputs: Any) -> list[Any]:
    """The operators behind ``outputs``, each behind those that it reads."""
    order: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, list | tuple):
            for each in node:
                visit(each)
            return
        operator = getattr(node, "source", None)
        if operator is None or any(operator is each for each in order):
            return
        visit(list(operator.inputs or []))
        order.append(operator)

    visit(list(outputs))
    return order
