"""What a tree of values by `ptk.Rules` costs, for models of many layers and lists of many rules.

Beside it stand what any such tool does at the least (the paths of all leaves as text, by
`tree_flatten_with_path` and `keystr`), and a loop as users of EasyLM have it: `re.search` with one
rule after the other. The rules that take leaves stand last, so that each leaf is asked of all.

Each of our calls is of new rules over a tree that they have not seen, with all checks: nothing is
known from before but how a pattern reads, as `re` knows it of its own. `again` is a call with rules
that know the structure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from timing import best_times, finish, machine, options, print_table

import pytreekit as ptk

LEAVES = (
    "attention/query/kernel", "attention/key/kernel", "attention/value/kernel",
    "attention/out/kernel", "attention/query/bias", "attention/out/bias", "mlp/up/kernel",
    "mlp/gate/kernel", "mlp/down/kernel", "mlp/up/bias", "ln1/scale", "ln1/bias", "ln2/scale",
    "ln2/bias", "moe/router/kernel", "moe/experts/wi",
)  # fmt: skip
GLOBS = (
    "attention/{query,key,value}/kernel", "attention/out/kernel", "mlp/{up,gate}/kernel",
    "mlp/down/kernel", "{ln1,ln2}/{scale,bias}", "attention/*/bias", "mlp/**", "moe/router/*",
    "experts/wi", "embed/table",
)  # fmt: skip
REGEXES = (
    "attention/(query|key|value)/kernel", "attention/out/kernel", "mlp/(up|gate)/kernel",
    "mlp/down/kernel", "ln.*/(scale|bias)", "attention/.*/bias", "mlp/.*", "moe/router/[^/]+$",
    "experts/wi", "embed/table",
)  # fmt: skip
SEEING = tuple(regex.replace("ln.*/", "ln[12]/") for regex in REGEXES)
"""The same, with one that can tell numbers apart."""

ROUNDS = {1_000: 40, 10_000: 8, 100_000: 3}
QUICK_ROUNDS = {1_000: 1}


class Case(NamedTuple):
    """How many leaves and rules, of what kind, and the goal, as a ratio to making the texts."""

    leaves: int
    rules: int
    kind: str
    goal: float | None

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.leaves:,} leaves, {self.rules} {self.kind}"


KINDS = {"globs": (GLOBS, 1.0), "regexes": (REGEXES, 2.0), "regexes, digits": (SEEING, None)}


def model(leaves: int) -> dict[str, Any]:
    """A parameter tree of so many leaves, each layer with its own name."""
    leaf = np.zeros(())
    layers: dict[str, Any] = {}
    for number in range(leaves // len(LEAVES)):
        layer: dict[str, Any] = {}
        for path in LEAVES:
            *above, last = path.split("/")
            node = layer
            for key in above:
                node = node.setdefault(key, {})
            node[last] = leaf
        layers[f"layers_{number}"] = layer
    return {"params": {"decoder": layers, "embed": {"table": leaf}}}


def rules_of(case: Case) -> list[tuple[str, int]]:
    """So many rules; those that no leaf matches stand first."""
    patterns = KINDS[case.kind][0]
    towers = [
        f"vision/block{letter}/"
        for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    ]
    braces = "{q,k}/kernel" if case.kind == "globs" else "(q|k)/kernel"
    padding = [tower + braces for tower in towers[: case.rules - len(patterns)]]
    return [(pattern, number) for number, pattern in enumerate([*padding, *patterns])]


def texts(tree: Any) -> list[str]:
    """The text of each path, in JAX's own words."""
    rows, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in rows]


def loop(rules: list[tuple[re.Pattern[str], int]], tree: Any) -> Any:
    """The first rule that is found in each text."""

    def value(path: Any, leaf: Any) -> int:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        for rule, number in rules:
            if rule.search(name) is not None:
                return number
        raise ValueError(name)

    return jax.tree_util.tree_map_with_path(value, tree)


def contenders(case: Case) -> list[Callable[[], object]]:
    """The three ways, seen to agree where they match alike, and ours with what it knows."""
    tree, pairs = model(case.leaves), rules_of(case)
    make = ptk.Rules if case.kind == "globs" else ptk.Rules.from_regexes
    known = make(pairs)
    as_regexes = [
        (pair[0], number) for number, pair in enumerate(rules_of(case._replace(kind="regexes")))
    ]
    compiled = [(re.compile(regex), number) for regex, number in as_regexes]
    if not jax.tree.all(jax.tree.map(lambda a, b: a == b, known(tree), loop(compiled, tree))):
        raise AssertionError(f"{case.name}: the values differ")
    known(tree)
    return [
        lambda: texts(tree),
        lambda: make(pairs)(tree),
        lambda: known(tree),
        lambda: loop(compiled, tree),
    ]


def main() -> None:
    """Print the table."""
    chosen = options(__doc__)
    rounds = QUICK_ROUNDS if chosen.quick else ROUNDS
    cases = [
        Case(leaves, rules, kind, goal)
        for leaves in rounds
        for kind, (_, goal) in KINDS.items()
        for rules in (10, 60)
    ]
    rows, missed = [], []
    for case in cases:
        least, ours, again, looped = best_times(contenders(case), rounds[case.leaves])
        ratio = ours / least
        if case.goal is not None and ratio > case.goal:
            missed.append(f"{case.name}: {ratio:.2f}x, not {case.goal:.2f}x")
        goal = "" if case.goal is None else f"{case.goal:.2f}x"
        cells = [f"{ours / 1000:.2f}", f"{ratio:.2f}x", goal, f"{again / least:.2f}x"]
        rows.append([case.name, f"{least / 1000:.2f}", *cells, f"{looped / least:.2f}x"])
    print(machine("jax"), end="\n\n")
    print_table(["", "texts ms", "ptk.Rules ms", "ratio", "goal", "again", "loop"], rows)
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
