"""Spec trees for JAX, checked before tracing.

`import pytreekit as ptk` loads nothing but names; each is loaded, and JAX with it, when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batching.vmap import vmap as vmap
    from .faults import Fault as Fault
    from .show.errors import SpecError as SpecError
    from .show.errors import raise_faults as raise_faults
    from .specs.bind import bind as bind

__all__ = ["Fault", "SpecError", "bind", "raise_faults", "vmap"]

_WHERE = {
    "Fault": "faults",
    "SpecError": "show.errors",
    "bind": "specs.bind",
    "raise_faults": "show.errors",
    "vmap": "batching.vmap",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("pytreekit")
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
