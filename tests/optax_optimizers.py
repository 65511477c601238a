"""Every optimizer of optax and optax.contrib, found by looking at the two modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import optax
import optax.contrib

ARGUMENTS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "inner": optax.adam(1e-3),
    "optimizer": optax.adam(1e-3),
    "base_optimizer": optax.adam(1e-3),
    "fast_optimizer": optax.adam(1e-3),
    "adv_optimizer": optax.sgd(0.1),
    "tx": optax.adam(1e-3),
    "inner_factory": optax.adam,
    "transforms": {"first": optax.adam(1e-3), "second": optax.sgd(0.1, 0.9)},
    "param_labels": lambda params: by_rank(params, "first", "second"),
    "mask": lambda params: by_rank(params, True, False),
    "freeze_mask": lambda params: by_rank(params, True, False),
    "should_transform_fn": lambda step: step % 2 == 0,
    "step_size_fn": lambda step: 0.1,
    "f": lambda updates, params: updates,
    "measure": lambda updates: jnp.zeros(()),
    "measure_name": "norm",
    "sync_period": 5,
    "slow_step_size": 0.5,
    "max_consecutive_errors": 3,
    "max_backtracking_steps": 3,
    "max_linesearch_steps": 3,
    "clipping": 0.1,
    "threshold": 1.0,
    "max_delta": 1.0,
    "max_norm": 1.0,
    "l2_norm_clip": 1.0,
    "noise_multiplier": 1.0,
    "step_size": 0.1,
    "eta": 0.1,
    "gamma": 0.5,
    "decay": 0.9,
    "seed": 0,
    "key": 0,
}
"""What stands for an argument that has no default, by its name."""


def by_rank(params: Any, matrices: Any, others: Any) -> Any:
    import jax

    return jax.tree.map(lambda leaf: matrices if len(leaf.shape) == 2 else others, params)


def makers(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function of a module that says that it returns a gradient transformation."""
    for name in sorted(dir(module)):
        function = getattr(module, name)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if "GradientTransformation" in str(inspect.signature(function).return_annotation):
            yield name, function


def made(name: str, function: Callable[..., Any]) -> Any:
    """The optimizer that a function makes, of as few arguments as it takes."""
    if name in {"inject_hyperparams", "inject_stateful_hyperparams"}:
        return function(optax.adam)(1e-3)
    if name in {"chain", "named_chain"}:
        parts = [optax.clip_by_global_norm(1.0), optax.adam(1e-3)]
        return function(*(parts if name == "chain" else zip("ab", parts, strict=True)))
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    return function(**{argument: ARGUMENTS[argument] for argument in needed})


def optimizers() -> dict[str, Any]:
    """Every optimizer, by the name of what makes it."""
    found = {}
    for prefix, module in (("", optax), ("contrib.", optax.contrib)):
        for name, function in makers(module):
            found[prefix + name] = made(name, function)
    return found
