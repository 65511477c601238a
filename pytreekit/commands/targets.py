"""The function that `pytreekit dry-run` is given, called; its errors are told as its own.

An error of the user's code is shown by the frames of that code: what called it is no one's concern.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..faults import Fault
from ..show import values as shown
from ..show.errors import SpecError, raise_faults
from .answers import FAULTS, Unusable

EXAMPLE = "train:dry, a function that returns (step, *args)"
KEYS = ("step", "args", "plan", "plans", "mesh")
KNOWN = "a dict has step, and may have args, plan or plans, and mesh"

OURS = {"pytreekit", "jax", "jaxlib", "jaxtyping", "beartype", "numpy", "importlib", "contextlib"}
"""What calls the user's code: packages whose frames are none of the user's."""


def asked(target: str) -> Mapping[str, Any]:
    """What a function returns, as a dict.

    Args:
        target: `module:function`.

    Raises:
        Unusable: If there is no such function, it returns something else, or raises an error.
        SpecError: PTK001, for all that is wrong with a dict that it returns.
    """
    function = _function(target)
    with its_own_errors(target):
        returned = function()
    if isinstance(returned, tuple) and returned and callable(returned[0]):
        return {"step": returned[0], "args": returned[1:]}
    if isinstance(returned, Mapping):
        raise_faults(_wrong(returned, f"{target}()"), doing="dry-run")
        return returned
    found = shown.kind(returned)
    if isinstance(returned, tuple) and returned:
        found = f"a tuple that begins with {shown.kind(returned[0])}"
    raise Unusable(f"{target} returns {found}; wanted is {EXAMPLE}")


@contextlib.contextmanager
def its_own_errors(what: str) -> Iterator[None]:
    """Run what is the user's own code; what it prints is no part of the answer.

    Args:
        what: What is run.

    Raises:
        Unusable: If it raises an error, or ends the program.
        SpecError: If it raises one.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except SystemExit as error:
        raise Unusable(f"{what} ends the program, with {error.code!r}") from None
    except SpecError:
        raise
    except Exception as error:
        frames = _its_frames(error)
        if frames is None and not isinstance(error, SyntaxError):
            raise
        raise _raised(f"{what} raised {_short(error)}", error, frames) from None


def _function(target: str) -> Callable[[], Any]:
    name, colon, path = target.partition(":")
    if name.endswith(".py"):
        instead = f"{Path(name).stem}:{path or 'dry'}, where that file lies"
        raise Unusable(f"{name!a} is a file; name the module, as {instead}")
    if not name or not colon or not path or "" in name.split("."):
        raise Unusable(f"{target!a} is no module and function, such as {EXAMPLE}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found = _module(name)
    for part in path.split("."):
        with its_own_errors(name):
            if not hasattr(found, part):
                raise Unusable(_no(found, name, path, part))
            found = getattr(found, part)
    if not callable(found):
        raise Unusable(f"{target} is no function")
    return found


def _module(name: str) -> Any:
    try:
        with its_own_errors(f"importing {name}"):
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError as error:
                raise _missing(error, name) from None
    except (ValueError, TypeError) as error:  # of a name with a zero byte, or half a character
        raise Unusable(f"there is no module {name!a}: {error}") from None


def _missing(error: ModuleNotFoundError, name: str) -> Unusable:
    """A module is missing: the one that was asked for, or one that this imports."""
    frames = _its_frames(error)
    if frames is None:
        return Unusable(f"there is no module {error.name!r}")
    return _raised(f"{name} imports {error.name}, which is not installed", error, frames)


def _raised(why: str, error: Exception, frames: types.TracebackType | None) -> Unusable:
    """An error of the user's code, with the frames of that."""
    below = traceback.format_exception(error.with_traceback(frames))
    return Unusable(why, FAULTS, "".join(below).rstrip())


def _no(found: Any, name: str, path: str, part: str) -> str:
    close = difflib.get_close_matches(part, filter(str.isidentifier, dir(found)), n=1)
    hint = f"; did you mean {close[0]!a}?" if close else ""
    return f"{name} has no {path!a}{hint}"


def _its_frames(error: BaseException) -> types.TracebackType | None:
    """The frames of an error from the first on that is the user's, None where there is none."""
    frame = error.__traceback__
    while frame is not None and _is_ours(frame):
        frame = frame.tb_next
    return frame


def _is_ours(frame: types.TracebackType) -> bool:
    its = frame.tb_frame
    name = str(its.f_globals.get("__name__", ""))
    return name.partition(".")[0] in OURS or its.f_code.co_filename.startswith("<frozen importlib")


def _short(error: Exception) -> str:
    """An error in a line."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    told = traceback.format_exception_only(error)[0].strip()
    return told.splitlines()[0]


def _wrong(returned: Mapping[Any, Any], name: str) -> Iterator[Fault]:
    """What is wrong with a dict that a function returns."""
    if "step" not in returned:
        yield _fault(name, "step", "is missing", KNOWN)
    elif not callable(returned["step"]):
        fact = f"must be a function, this is {shown.kind(returned['step'])}"
        yield _fault(name, "step", fact)
    for key in returned:
        if key not in KEYS:
            close = difflib.get_close_matches(str(key), KEYS, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            yield _fault(name, key, "is no key that is known", hint + KNOWN)
    if not isinstance(returned.get("args", ()), tuple | list):
        fact = f"must be a tuple of the step's arguments, this is {shown.kind(returned['args'])}"
        yield _fault(name, "args", fact)
    if returned.get("plan") is not None and returned.get("plans"):
        yield _fault(name, "plan", "is there, and so is 'plans': one of them is meant")


def _fault(name: str, key: Any, fact: str, note: str = "") -> Fault:
    return Fault("PTK001", name, f"[{shown.spec(key, 24)}]", "", "", "", fact=fact, note=note)
