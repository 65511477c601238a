"""Whether a spec is `ptk.Rules`, without loading what makes them: most programs have none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from .rules import Rules


def is_rules(spec: Any) -> TypeGuard[Rules]:
    """Whether a spec is `Rules`; where their module is not loaded, nobody has any."""
    module = sys.modules.get(f"{__package__}.rules")
    return module is not None and isinstance(spec, module.Rules)
