"""From a config to a loader."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from dataclasses import replace

from loaders.base import Loader, Source, element_names
from loaders.check import Rules, check_shards, scan_shards
from loaders.config import LoaderConfig
from loaders.contract import check_contract
from loaders.guess import resolve_schema
from loaders.order import Plan
from loaders.reference import call_reference, is_reference
from loaders.shards import find_shards

log = logging.getLogger(__name__)

BACKENDS = {"tfdata": "loaders.tfdata", "dali": "loaders.dali"}
"""Name to the module whose ``build(config, source)`` gives the loader; imported only when asked for."""
_DALI_PACKAGES = ("nvidia", "nvidia.dali", "nvidia.dali_tf_plugin")
"""From the outside in, because a package can't be looked for inside of one that isn't there."""
_CACHED_FROM = "tfdata"
"""The backend that decodes for ``cached``."""


def make_loader(config: LoaderConfig) -> Loader:
    """The loader that ``config`` describes; every record was checked when it returns.

    Errors: ValueError, in one sentence, for data or options that can't be used;
    OSError for files that can't be read or written.
    """
    if is_reference(config.loader):
        return _users_loader(config)
    config = replace(config, loader=choose_backend(config))
    source = open_source(config)
    return _cached(config, source) if config.loader == "cached" else _build(config, source)


def _build(config: LoaderConfig, source: Source) -> Loader:
    loader: Loader = importlib.import_module(BACKENDS[config.loader]).build(config, source)
    return loader


def _cached(config: LoaderConfig, source: Source) -> Loader:
    from loaders.cached import CachedLoader

    inner = replace(
        config,
        loader=_CACHED_FROM,
        form="train",
        with_ids="image_id" in element_names(config),
        shuffle="none",
        deterministic=True,
    )
    return CachedLoader(config, source, _build(inner, source), element_names(inner))


def _users_loader(config: LoaderConfig) -> Loader:
    """The loader that the user's own function makes, held to the contract."""
    loader: Loader = call_reference(config.loader, config, flag="--loader")
    check_contract(loader, config)
    return loader


def choose_backend(config: LoaderConfig) -> str:
    """The backend's name; for ``auto`` it says in one line which was chosen and why."""
    if config.loader != "auto":
        return config.loader
    if config.device != "gpu":
        choice, why = "tfdata", "the step runs on the CPU"
    elif not dali_is_installed():
        choice, why = "tfdata", "DALI is not installed"
    else:
        choice, why = "dali", "DALI is installed and the step runs on a GPU"
    log.info("loader auto: %s, because %s", choice, why)
    return choice


def dali_is_installed() -> bool:
    """Whether DALI and its TensorFlow plugin are there; whether they load, only importing them tells."""
    return all(importlib.util.find_spec(package) is not None for package in _DALI_PACKAGES)


def open_source(config: LoaderConfig) -> Source:
    """Find, describe and check the shards. Errors: ValueError, OSError."""
    shards = find_shards(config.data)
    schema = resolve_schema(config, shards)
    rules = Rules.of(config, schema)
    indexes = scan_shards(shards) if config.trust_data else check_shards(shards, rules)
    plan = Plan(
        counts=tuple(len(index) for index in indexes), shard_id=config.shard_id, num_shards=config.num_shards
    )
    if "image_id" in element_names(config) and schema.id_feature is None:
        raise ValueError(
            "the records' id is asked for, but they have none that could be guessed: --id-feature"
        )
    _check_enough(config, plan)
    return Source(schema=schema, rules=rules, shards=tuple(shards), indexes=tuple(indexes), plan=plan)


def _check_enough(config: LoaderConfig, plan: Plan) -> None:
    share = "" if plan.num_shards == 1 else f" of worker {plan.shard_id} of {plan.num_shards}"
    if plan.records == 0:
        raise ValueError(f"there are no records for the share{share}: {sum(plan.counts)} in all")
    if config.form == "train" and plan.records < config.batch_size:
        raise ValueError(
            f"the {plan.records} records{share} are fewer than one batch of {config.batch_size}, and "
            f"training drops the remainder, so no step could be made: use a smaller --batch-size"
        )
