"""`assert_plan_matches`: a sharding plan held against a file, so that a change of it is seen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..faults import Fault
from ..sharding.plans.sharding_plan import ShardingPlan
from ..show import assertions, values
from ..show.errors import raise_faults

WRITE = "PYTREEKIT_GOLDEN"
"""The environment variable that has files written where it is "write"."""


def assert_plan_matches(plan: Any, path: str | os.PathLike[str]) -> None:
    """Assert that a sharding plan is the one that a file has: golden files for layouts.

    The file is what `plan.to_json()` makes, one leaf a line, so that reviewers see in it what a
    change of rules or of a model does. With `PYTREEKIT_GOLDEN=write` in the environment the file is
    written, and nothing is asserted.

    Args:
        plan: A `ptk.ShardingPlan`. Leaves, specs and the axes of the mesh are compared, reasons
            are not.
        path: The file, such as `"tests/golden/plan.json"`.

    Raises:
        AssertionError: If the plan is another, with every difference; if there is no file.
        SpecError: PTK001, if `plan` is no plan, or the file has none.

    Examples:
        >>> import os, tempfile
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> from pytreekit.testing import assert_plan_matches
        >>> params = {"w": jnp.ones((8, 4))}
        >>> plan = ptk.ShardingPlan(params, [("w", "model _")], {"model": 4})
        >>> path = os.path.join(tempfile.mkdtemp(), "plan.json")
        >>> with open(path, "w") as file:
        ...     _ = file.write(plan.to_json())
        >>> assert_plan_matches(plan, path)
        >>> try:
        ...     assert_plan_matches(ptk.ShardingPlan(params, [("w", "_ model")], plan.mesh), path)
        ... except AssertionError as error:
        ...     print(error)
        the plan is not the one in plan.json
        <BLANKLINE>
        1 difference between plan and plan.json
        <BLANKLINE>
          spec    ['w']   plan has P(None, 'model'); plan.json has P('model',)
    """
    __tracebackhide__ = True
    if not isinstance(plan, ShardingPlan):
        fact = f"must be a ShardingPlan, this is {values.kind(plan)}"
        fault = Fault("PTK001", "plan", "", "", "", "", fact=fact)
        raise_faults([fault], doing="assert_plan_matches")
    file = Path(path)
    if os.environ.get(WRITE) == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(plan.to_json(), encoding="utf-8")
        return
    if not file.exists():
        fact = f"there is no file {file.name}"
        raise AssertionError(assertions.text(fact, f"{WRITE}=write has it written"))
    found = plan.diff(file.read_text(encoding="utf-8"), names=("plan", file.name))
    if found:
        raise AssertionError(assertions.text(f"the plan is not the one in {file.name}", str(found)))
