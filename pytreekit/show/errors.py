"""The error that tells faults, and the one place that raises it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

from ..faults import Fault
from .message import message


class SpecError(ValueError):
    """A spec tree does not fit the tree that it speaks of; every fault that was found is told.

    Args:
        faults: What is wrong: a sequence of `Fault`.
        doing: What was being done, and to which function: `"vmap(predict)"`.
        where: The spec that is at fault: `"in_axes"`.
        when: When that was found: `"before tracing"`.
        repaired: The spec to use, when the hints together repair everything.

    Attributes:
        faults: The faults as data, a tuple of `Fault`.
        repaired: The spec to use instead, or None where the hints do not repair everything.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> try:
        ...     ptk.vmap(lambda x: x, in_axes=1)(jnp.ones(3))
        ... except ptk.SpecError as error:
        ...     print(error.faults[0].code, error.repaired)
        PTK101 (0,)
    """

    faults: tuple[Fault, ...]
    repaired: Any

    def __init__(
        self,
        faults: Iterable[Fault],
        *,
        doing: str = "",
        where: str = "",
        when: str = "",
        repaired: Any = None,
    ) -> None:
        self.faults = tuple(faults)
        self.repaired = repaired
        self._told = {"doing": doing, "where": where, "when": when}
        super().__init__(message(self.faults, **self._told))

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"faults": self.faults, "repaired": self.repaired, **self._told}
        try:
            pickle.dumps(self.repaired)
        except Exception:  # noqa: BLE001  a user's __getstate__ may raise anything
            # A spec may hold a user's node that cannot be pickled; the faults must still travel.
            state["repaired"] = None
        return _rebuilt, (state,)


class SpecWarning(UserWarning):
    """A spec that JAX accepts and that gives away that it computes something else than is meant.

    Given once for each mapped function and code. The module `warnings` governs it:
    `warnings.filterwarnings("error", category=ptk.SpecWarning)` makes it an error.

    Args:
        faults: What is doubtful: a sequence of `Fault` with codes from PTK901.
        doing: What was being done, and to which function: `"vmap(predict)"`.

    Attributes:
        faults: The faults as data, a tuple of `Fault`.

    Examples:
        >>> import warnings
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> scale = ptk.vmap(lambda x, by: x * by, in_axes=1)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     scale(jnp.ones((3, 3)), by=jnp.ones((3, 3))).shape
        (3, 3)
        >>> caught[0].message.faults[0].code
        'PTK901'
    """

    faults: tuple[Fault, ...]

    def __init__(self, faults: Iterable[Fault], doing: str = "") -> None:
        self.faults = tuple(faults)
        self._doing = doing
        super().__init__(message(self.faults, doing, kind="doubt"))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.faults, self._doing)


SpecWarning.__module__ = "pytreekit"


def _rebuilt(state: dict[str, Any]) -> SpecError:
    return SpecError(**state)


SpecError.__module__ = "pytreekit"  # where users import it from, and what tracebacks should say


def common_spec(faults: Iterable[Fault]) -> str:
    """The spec that all faults speak of: `"in_axes"`; nothing if they speak of several."""
    names = {fault.spec_path.partition("[")[0].partition(".")[0] for fault in faults}
    return names.pop() if len(names) == 1 else ""


def raise_faults(faults: Iterable[Fault], doing: str = "", **told: Any) -> None:
    """Raise one `SpecError` that tells all `faults`; do nothing when there are none.

    Args:
        faults: What is wrong, such as the `.faults` of `ptk.bind`.
        doing: What was being done, and to which function: `"my_transform(f)"`.
        told: `where`, `when` and `repaired` of `SpecError`.

    Raises:
        SpecError: If there is at least one fault.

    Examples:
        >>> import pytreekit as ptk
        >>> ptk.raise_faults(ptk.bind({"w": 1}, {"w": 2.0}).faults, doing="my_transform(f)")
    """
    __tracebackhide__ = True
    faults = tuple(faults)
    if faults:
        raise SpecError(faults, doing=doing, **told) from None
