"""Spec trees for JAX, checked before tracing.

`import pytreekit as ptk` loads nothing but names; each is loaded, and JAX with it, when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import testing as testing
    from .batching.forms import SPLIT as SPLIT
    from .batching.forms import if_array as if_array
    from .batching.memory import suggest_chunk_size as suggest_chunk_size
    from .batching.vmap import vmap as vmap
    from .dryrun.compare import compare as compare
    from .dryrun.dry_run import dry_run as dry_run
    from .dryrun.result import DryRun as DryRun
    from .dryrun.suggest import suggest as suggest
    from .faults import Fault as Fault
    from .files.reading import read_shapes as read_shapes
    from .gradients.clipping import ClipInfo as ClipInfo
    from .gradients.clipping import clipped_grad as clipped_grad
    from .gradients.measure import gradient_statistics as gradient_statistics
    from .gradients.per_example import per_example_grad as per_example_grad
    from .gradients.per_example import per_example_norms as per_example_norms
    from .gradients.per_example import per_example_value_and_grad as per_example_value_and_grad
    from .parallel.data_parallel import data_parallel as data_parallel
    from .parallel.data_parallel_grad import data_parallel_grad as data_parallel_grad
    from .parallel.pmap import pmap as pmap
    from .parallel.shard_map import shard_map as shard_map
    from .sharding.check import check_shardings as check_shardings
    from .sharding.fsdp import fsdp_plan as fsdp_plan
    from .sharding.fsdp import fsdp_specs as fsdp_specs
    from .sharding.named import named_shardings as named_shardings
    from .sharding.named import spec_of as spec_of
    from .sharding.plans.sharding_plan import ShardingPlan as ShardingPlan
    from .sharding.specs import partition_plan as partition_plan
    from .sharding.specs import partition_specs as partition_specs
    from .sharding.states.optimizer_specs import optimizer_specs as optimizer_specs
    from .show.errors import SpecError as SpecError
    from .show.errors import SpecWarning as SpecWarning
    from .show.errors import raise_faults as raise_faults
    from .specs.bind import bind as bind
    from .specs.partition import axes_like as axes_like
    from .specs.partition import partition as partition
    from .specs.rule_values import by_rank as by_rank
    from .specs.rule_values import optional as optional
    from .specs.rules import Rules as Rules
    from .trees.boxes import register_box as register_box
    from .trees.combine import combine as combine
    from .trees.diff import diff as diff
    from .trees.stack import stack as stack
    from .trees.summary import summary as summary
    from .trees.unstack import unstack as unstack

    __version__: str

__all__ = [
    "SPLIT",
    "ClipInfo",
    "DryRun",
    "Fault",
    "Rules",
    "ShardingPlan",
    "SpecError",
    "SpecWarning",
    "axes_like",
    "bind",
    "by_rank",
    "check_shardings",
    "clipped_grad",
    "combine",
    "compare",
    "data_parallel",
    "data_parallel_grad",
    "diff",
    "dry_run",
    "fsdp_plan",
    "fsdp_specs",
    "gradient_statistics",
    "if_array",
    "named_shardings",
    "optimizer_specs",
    "optional",
    "partition",
    "partition_plan",
    "partition_specs",
    "per_example_grad",
    "per_example_norms",
    "per_example_value_and_grad",
    "pmap",
    "raise_faults",
    "read_shapes",
    "register_box",
    "shard_map",
    "spec_of",
    "stack",
    "suggest",
    "suggest_chunk_size",
    "summary",
    "unstack",
    "vmap",
]

_WHERE = {
    "SPLIT": "batching.forms",
    "ClipInfo": "gradients.clipping",
    "DryRun": "dryrun.result",
    "Fault": "faults",
    "Rules": "specs.rules",
    "ShardingPlan": "sharding.plans.sharding_plan",
    "SpecError": "show.errors",
    "SpecWarning": "show.errors",
    "axes_like": "specs.partition",
    "bind": "specs.bind",
    "by_rank": "specs.rule_values",
    "check_shardings": "sharding.check",
    "clipped_grad": "gradients.clipping",
    "combine": "trees.combine",
    "compare": "dryrun.compare",
    "data_parallel": "parallel.data_parallel",
    "data_parallel_grad": "parallel.data_parallel_grad",
    "diff": "trees.diff",
    "dry_run": "dryrun.dry_run",
    "fsdp_plan": "sharding.fsdp",
    "fsdp_specs": "sharding.fsdp",
    "gradient_statistics": "gradients.measure",
    "if_array": "batching.forms",
    "named_shardings": "sharding.named",
    "optimizer_specs": "sharding.states.optimizer_specs",
    "optional": "specs.rule_values",
    "partition": "specs.partition",
    "partition_plan": "sharding.specs",
    "partition_specs": "sharding.specs",
    "per_example_grad": "gradients.per_example",
    "per_example_norms": "gradients.per_example",
    "per_example_value_and_grad": "gradients.per_example",
    "pmap": "parallel.pmap",
    "raise_faults": "show.errors",
    "read_shapes": "files.reading",
    "register_box": "trees.boxes",
    "shard_map": "parallel.shard_map",
    "spec_of": "sharding.named",
    "stack": "trees.stack",
    "suggest": "dryrun.suggest",
    "suggest_chunk_size": "batching.memory",
    "summary": "trees.summary",
    "unstack": "trees.unstack",
    "vmap": "batching.vmap",
}

_MODULES = {"testing"}  # public, and loaded by their name alone


if not TYPE_CHECKING:  # a type checker would take any name at all for one of the package

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("pytreekit")
        if name in _MODULES:
            return importlib.import_module(f".{name}", __name__)
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
