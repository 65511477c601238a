"""Every optimizer of optax and optax.contrib, found by looking at the two modules."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import optax.contrib


def by_rank(params: Any, matrices: Any, others: Any) -> Any:
    return jax.tree.map(lambda leaf: matrices if len(leaf.shape) == 2 else others, params)


def is_matrix(params: Any) -> Any:
    return by_rank(params, True, False)


ADAM = optax.adam(1e-3)

ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(["inner", "optimizer", "base_optimizer", "fast_optimizer", "tx"], ADAM),
    **dict.fromkeys(["mask", "freeze_mask"], is_matrix),
    **dict.fromkeys(["learning_rate", "step_size", "slow_step_size", "gamma", "eta"], 0.1),
    **dict.fromkeys(["clipping", "threshold", "max_delta", "max_norm", "decay"], 0.9),
    **dict.fromkeys(["l2_norm_clip", "noise_multiplier"], 1.0),
    **dict.fromkeys(["sync_period", "max_consecutive_errors", "seed", "key"], 5),
    **dict.fromkeys(["max_backtracking_steps", "max_linesearch_steps"], 3),
    "adv_optimizer": optax.sgd(0.1),
    "transforms": {"first": ADAM, "second": optax.sgd(0.1, 0.9)},
    "param_labels": lambda params: by_rank(params, "first", "second"),
    "should_transform_fn": lambda step: step % 2 == 0,
    "step_size_fn": lambda step: 0.1,
    "f": lambda updates, params: updates,
    "measure": lambda updates: jnp.zeros(()),
    "measure_name": "norm",
}
"""What stands for an argument that has no default, by its name."""

IN_THEIR_OWN_WAY: dict[str, Callable[[Any], Any]] = {
    "chain": lambda chain: chain(optax.clip_by_global_norm(1.0), ADAM),
    "named_chain": lambda chain: chain(("clip", optax.clip_by_global_norm(1.0)), ("adam", ADAM)),
    "inject_hyperparams": lambda inject: inject(optax.adamw)(1e-3),
    "inject_stateful_hyperparams": lambda inject: inject(optax.adamw)(1e-3),
}

WRAPPED = {
    "MultiSteps": optax.MultiSteps(ADAM, 4).gradient_transformation(),
    "adafactor that multiplies by a moment": optax.adafactor(1e-3, momentum=0.9),
    "adam, masked, in a chain": optax.chain(optax.masked(ADAM, is_matrix), optax.ema(0.9)),
    "adafactor of matrices, sm3 of others": optax.partition(
        {"a": optax.adafactor(1e-3), "b": optax.sm3(0.1)}, lambda params: by_rank(params, "a", "b")
    ),
    "schedule-free L-BFGS": optax.contrib.schedule_free(optax.lbfgs(), 0.1),
    "adafactor, injected": optax.inject_hyperparams(
        optax.adafactor, static_args=("min_dim_size_to_factor",)
    )(learning_rate=1e-3),
    "muon in MultiSteps": optax.MultiSteps(optax.contrib.muon(0.1), 2).gradient_transformation(),
}


def optimizers() -> tuple[dict[str, Any], list[str]]:
    """Every optimizer by the name of the function that makes it; and the names that made none.

    A function that says of itself that it makes an optimizer must do so with `ARGUMENTS`.
    """
    found, lacking = dict(WRAPPED), []
    for prefix, module in (("", optax), ("contrib.", optax.contrib)):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("_"):
                continue
            says = "GradientTransformation" in str(inspect.signature(function).return_annotation)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a key will be needed, that one is deprecated
                made = _made(name, function)
            if isinstance(made, optax.GradientTransformation):
                found[prefix + name] = made
            elif says:
                lacking.append(prefix + name)
    return found, lacking


def _made(name: str, function: Callable[..., Any]) -> Any:
    if name in IN_THEIR_OWN_WAY:
        return IN_THEIR_OWN_WAY[name](function)
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    if not set(needed) <= set(ARGUMENTS):
        return None
    return function(**{argument: ARGUMENTS[argument] for argument in needed})
