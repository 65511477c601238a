"""`ptk.read_shapes`: the tree of shapes that a file holds, whatever its form."""

from __future__ import annotations

import itertools
import os
import stat
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ..faults import Fault
from ..sharding.plans import as_json
from ..sharding.plans.planned import Planned
from ..show import values
from ..show.errors import raise_faults
from . import index, manifest, orbax, plans, safetensors
from .opening import (
    MOST_BYTES,
    fault,
    few,
    json_of,
    opened,
    read_all,
    refuse,
    refuse_all,
    short,
    unopened,
)

STANDARD_INPUT = "-"
SAFETENSORS, JSON = ".safetensors", ".json"

READ = "what is read: safetensors, orbax, shape manifests in JSON"

CODE = "to read a pickle is to run it: save its arrays as safetensors"

_PICKLES = {
    b"PK\x03\x04": "a zip file, as torch.save writes it",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
}
_OTHERS = {
    b"\x93NUMPY": "an array of NumPy",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"GGUF": "a GGUF file",
}
"""What files of other forms begin with."""

LONGEST_HEAD = 16
"""Bytes by which a form is known."""


class Stored(NamedTuple):
    """A tree that a file holds.

    Attributes:
        tree: The tree, of `jax.ShapeDtypeStruct`s.
        name: What the file is called.
        form: What it is: `"safetensors"`, `"safetensors index"`, `"orbax"`, `"manifest"`, `"plan"`.
        notes: What is right, and might still not be meant.
        places: The files that were read, and the folders all of which is what was.
        plan: What there is of a plan, None for other forms.
    """

    tree: Any
    name: str
    form: str
    notes: list[str]
    places: tuple[Path, ...]
    plan: Planned | None = None


def read_shapes(file: str | os.PathLike[str]) -> Any:
    """The tree of shapes and dtypes that a checkpoint holds, without its weights.

    Nothing in the file is run, and no more of it is read than says which arrays are in it. What is
    read may come from anyone: damage and malice are told as faults.

    Args:
        file: A safetensors file; a sharded one's `model.safetensors.index.json`; a checkpoint of
            orbax, which needs orbax to be installed, or the folder of its steps, of which the last
            counts; a shape manifest in JSON, `{path: [shape, dtype]}`; what
            `ShardingPlan.to_json` wrote; or a folder with one of these.

    Returns:
        A tree of `jax.ShapeDtypeStruct`s: of safetensors a dict by the names of the arrays, of
        orbax and of manifests the tree as it was. It can be planned with `ptk.ShardingPlan`.

    Raises:
        SpecError: PTK801, if it cannot be opened; PTK802, if it is of no known form; PTK803, if its
            length is not what its header says; PTK804, if what it says cannot be read; PTK805, for
            each entry that is wrong; PTK806 and PTK807, if an index does not fit its files, or
            leads out of its folder.

    Examples:
        >>> import json, pathlib, tempfile
        >>> import pytreekit as ptk
        >>> file = pathlib.Path(tempfile.mkdtemp(), "tree.json")
        >>> _ = file.write_text(json.dumps({"up/kernel": [[16, 32], "bfloat16"]}))
        >>> ptk.read_shapes(file)
        {'up/kernel': ShapeDtypeStruct(shape=(16, 32), dtype=bfloat16)}
    """
    if not isinstance(file, str | os.PathLike):
        fact = f"must be a path, this is {values.kind(file)}"
        raise_faults([Fault("PTK001", "file", "", "", "", "", fact=fact)], doing="read_shapes")
    return stored(Path(file)).tree


def stored(path: Path) -> Stored:
    """The tree that a file or a folder holds.

    Raises:
        SpecError: What `read_shapes` raises.
    """
    name = path.name or str(path)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  Path.stat is told less of
    except (OSError, ValueError) as error:
        refuse(unopened(name, error), name)
    return _folder(path, name) if stat.S_ISDIR(mode) else _file(path, name)


def from_standard_input() -> Stored:
    """The tree of a manifest, an index or a plan that comes by the standard input.

    Raises:
        SpecError: What `read_shapes` raises.
    """
    name = "the standard input"
    if sys.stdin is None:
        refuse(fault("PTK801", name, "cannot be opened: it is closed"), name)
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
    except OSError as error:
        refuse(unopened(name, error), name)
    if len(data) > MOST_BYTES:
        refuse(fault("PTK804", name, f"has more than {MOST_BYTES:,} bytes of text"), name)
    return _json(data, Path("/dev/stdin"), Path(), name)


def _file(path: Path, name: str) -> Stored:
    with opened(path, name) as stream:
        head = stream.read(LONGEST_HEAD)
        form = _form(path.suffix, head)
        if form == JSON:
            stream.seek(0)
            return _json(read_all(stream, name), path, path.parent, name)
    if form == SAFETENSORS:
        return Stored(safetensors.read(path, name), name, "safetensors", [], (path,))
    note = CODE if head.startswith(tuple(_PICKLES)) else READ
    return refuse(fault("PTK802", name, form, note=note), name)


def _form(suffix: str, head: bytes) -> str:
    """The form of a file by its suffix, else by its beginning; what is wrong, if it has none."""
    if not head:
        return "is empty"
    if suffix in {SAFETENSORS, JSON}:
        return suffix
    known = (_PICKLES | _OTHERS).items()
    told = next((its for start, its in known if head.startswith(start)), "")
    if told:
        return f"is {told}, which is not read"
    if head[safetensors.LENGTH :].startswith(b"{"):
        return SAFETENSORS
    return JSON if head.lstrip()[:1] in {b"{", b"["} else "is of no form that is known"


def _json(data: bytes, path: Path, folder: Path, name: str) -> Stored:
    found = json_of(data, name)
    if index.is_index(found):
        its = index.read(found, folder, name)
        places = (path, *(folder / file for file in its.files))
        return Stored(its.tree, name, "safetensors index", its.notes, places)
    if plans.is_plan(found):
        its = as_json.listed_of(found)
        refuse_all(few(plans.wrong(its, name)), name)
        return Stored(plans.tree_of(its), name, "plan", [], (path,), its)
    return Stored(manifest.read(found, name), name, "manifest", [], (path,))


def _folder(path: Path, name: str) -> Stored:
    try:
        with os.scandir(path) as entries:
            files = sorted(one.name for one in itertools.islice(entries, orbax.MOST_ENTRIES))
        found = orbax.find(path, name)
    except OSError as error:
        refuse(unopened(name, error), name)
    if found is not None:
        told = name if found == path else f"{name}/{found.relative_to(path).as_posix()}"
        return Stored(orbax.read(found, told), told, "orbax", [], (found,))
    indexes = [file for file in files if file.endswith(index.ENDING)]
    weights = [file for file in files if file.endswith(SAFETENSORS)]
    if not indexes and not weights:
        refuse(fault("PTK802", name, "is a folder without a checkpoint that is known"), name)
    choice = indexes or weights
    if len(choice) > 1:
        names = values.listing([short(file) for file in choice], 3)
        refuse(fault("PTK802", name, f"holds {len(choice)} checkpoints: name one, {names}"), name)
    return _file(path / choice[0], choice[0])
