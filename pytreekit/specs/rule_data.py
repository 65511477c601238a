"""Rules as plain data of the kinds that JSON, YAML and TOML hold, and back.

A value that these do not hold is a mapping with one key, which says what it is: `{"P": [...]}`,
`{"tuple": [...]}`, `{"by_rank": {...}}`, `{"none": true}`, `{"dots": true}` for an Ellipsis, and
`{"dict": {...}}` for a mapping that could be taken for one of them. In a `P`, `"_"` is None and
`"..."` an Ellipsis.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from ..faults import Fault
from ..show import values as shown
from ..show.errors import SpecError, raise_faults
from .reading import Read, Row, bad_rule
from .rule_values import UNMATCHED, ByRank, by_rank

DEEPEST = 50
"""How deep a value may be nested: deeper, it is a mistake, or it holds itself."""

MOST_ITEMS = 300_000
"""Items in all: with its references, a small YAML file can stand for very many."""

TAGS = ("P", "tuple", "by_rank", "dict", "none", "dots")
_KEYS = ("rules", "default", "split")
_RULE_KEYS = ("pattern", "value", "optional", "under")


class NoData(ValueError):  # noqa: N818  it is made into a fault
    """A value that no file can hold, or data that stand for none: why."""


def as_data(entries: tuple[Read, ...], default: Any, split: str) -> dict[str, Any]:
    """Rules as data.

    Raises:
        SpecError: PTK306, for each value that no file can hold.
    """
    faults: list[Fault] = []

    def plain(place: str, value: Any) -> Any:
        try:
            return _plain(value, 0)
        except NoData as error:
            faults.append(bad_rule(place, shown.spec(value), str(error)))
            return None

    rows = [_row(rule, plain(f"rules[{n}]", rule.value)) for n, rule in enumerate(entries)]
    data: dict[str, Any] = {} if split == "/" else {"split": split}
    if default is not UNMATCHED:
        data["default"] = plain("default", default)
    raise_faults(faults, doing="rules.dumps")
    return {**data, "rules": rows}


def _row(rule: Read, value: Any) -> Any:
    more: dict[str, Any] = {"optional": True} if rule.optional else {}
    if rule.pattern.under:
        more["under"] = rule.pattern.under
    text = rule.pattern.text
    return {"pattern": text, "value": value, **more} if more else [text, value]


def _plain(value: Any, depth: int) -> Any:
    """A value as data."""
    if depth > DEEPEST:
        raise NoData(f"a value is nested more than {DEEPEST} deep")
    kind = type(value)
    if kind in _WRITERS:
        return _WRITERS[kind](value, depth)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    told = f"the number {value}" if kind is float else shown.kind(value)
    raise NoData(f"no file can hold {told}")


def _plain_list(values: Iterable[Any], depth: int) -> list[Any]:
    return [_plain(value, depth + 1) for value in values]


def _plain_ranks(ranks: ByRank, depth: int) -> dict[str, Any]:
    its = {"..." if rank is ... else str(rank): value for rank, value in ranks.values.items()}
    return {"by_rank": _plain_dict(its, depth)}


def _plain_mapping(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    inner = _plain_dict(value, depth)
    return {"dict": inner} if len(value) == 1 and set(value) <= set(TAGS) else inner


def _plain_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    if not all(type(key) is str for key in value):
        raise NoData("no file can hold a dict with keys that are no str")
    return {key: _plain(one, depth + 1) for key, one in value.items()}


def _entry(entry: Any) -> Any:
    """An entry of a `PartitionSpec` as data."""
    if entry is None or entry is ...:
        return "_" if entry is None else "..."
    axes = entry if isinstance(entry, tuple) else (entry,)
    if not all(type(axis) is str and axis not in ("_", "...") for axis in axes):
        raise NoData(f"no file can hold a P with {shown.spec(entry)} in it")
    return list(entry) if isinstance(entry, tuple) else entry


_WRITERS: dict[type, Callable[[Any, int], Any]] = {
    type(...): lambda value, depth: {"dots": True},
    PartitionSpec: lambda value, depth: {"P": [_entry(entry) for entry in value]},
    ByRank: _plain_ranks,
    tuple: lambda value, depth: {"tuple": _plain_list(value, depth)},
    list: _plain_list,
    dict: _plain_mapping,
}


class Written(NamedTuple):
    """Rules as data have them: for `reading.read`, with faults in the place of what is none."""

    rows: Any
    default: Any = UNMATCHED
    split: Any = "/"
    faults: Sequence[Fault] = ()


def from_data(data: Any) -> Written:
    """The rules that data stand for."""
    if isinstance(data, list):
        data = {"rules": data}
    if not isinstance(data, Mapping) or "rules" not in data:
        fact = f"there must be a list of rules, or a mapping with 'rules', this is {_kind(data)}"
        return Written([], faults=[bad_rule("", "", fact)])
    faults = [bad_rule("", "", fact) for fact in _unknown(data, _KEYS)]
    reader = Reader()
    default = UNMATCHED
    if "default" in data:
        default = reader.read("default", data["default"], value)
        faults += [default] * isinstance(default, Fault)
    rows = data["rules"]
    if isinstance(rows, Mapping):
        rows = [list(item) for item in rows.items()]
    if isinstance(rows, list):
        rows = [reader.read(f"rules[{n}]", one, row) for n, one in enumerate(rows)]
    return Written(rows, default, data.get("split", "/"), faults)


class Reader:
    """Reads data of so many items at most, whose faults can then be told of with the data."""

    def __init__(self) -> None:
        self._left = MOST_ITEMS

    def read(self, place: str, data: Any, how: Callable[[Any], Any]) -> Any:
        """What data stand for, or a fault."""
        fact = self._absurd(data)
        if fact:
            return bad_rule(place, "", fact)
        try:
            return how(data)
        except NoData as error:
            return bad_rule(place, shown.spec(data), str(error))

    def _absurd(self, data: Any) -> str:
        """Why data cannot be gone through, nothing where they can."""
        pending = [(data, 0)]
        while pending:
            node, depth = pending.pop()
            self._left -= 1
            if depth > DEEPEST:
                return f"a value is nested more than {DEEPEST} deep, or holds itself"
            if self._left < 0:
                return f"there are more than {MOST_ITEMS:,} items in all"
            if isinstance(node, Mapping):
                node = node.values()
            elif not isinstance(node, list):
                continue
            pending += [(inner, depth + 1) for inner in node]
        return ""


def row(data: Any) -> Any:
    """A rule: a pair, or a mapping."""
    if isinstance(data, list) and len(data) == len(("pattern", "value")):
        return Row(data[0], value(data[1]))
    if not isinstance(data, Mapping):
        raise NoData(f"a rule must be [pattern, value] or a mapping, this is {_kind(data)}")
    for fact in _unknown(data, _RULE_KEYS):
        raise NoData(fact)
    for key in ("pattern", "value"):
        if key not in data:
            raise NoData(f"a rule has no {key}")
    optional = data.get("optional", False)
    if type(optional) is not bool:
        raise NoData(f"optional must be true or false, this is {_kind(optional)}")
    return Row(data["pattern"], value(data["value"]), optional, data.get("under", ""))


def value(data: Any) -> Any:
    """A value."""
    if type(data) is float and not math.isfinite(data):
        raise NoData(f"a value cannot be the number {data}")
    if data is None or type(data) in (bool, int, float, str):
        return data
    if isinstance(data, list):
        return [value(one) for one in data]
    if not isinstance(data, Mapping):
        raise NoData(f"a value cannot be {_kind(data)}")
    tag, *others = [*data, None]
    if tag in TAGS and others == [None]:
        return _tagged(tag, data[tag])
    return _mapping(data)


def _tagged(tag: str, inner: Any) -> Any:
    if tag in ("none", "dots"):
        if inner is not True:
            raise NoData(f"{tag} must be true")
        return None if tag == "none" else ...
    if isinstance(inner, Mapping) != (tag in ("by_rank", "dict")):
        raise NoData(f"{tag} cannot be {_kind(inner)}")
    if tag == "dict":
        return _mapping(inner)
    if tag == "by_rank":
        return _by_rank({_rank(key): one for key, one in _mapping(inner).items()})
    if not isinstance(inner, list):
        raise NoData(f"{tag} must be a list, this is {_kind(inner)}")
    if tag == "P":
        return PartitionSpec(*map(_axes, inner))
    return tuple(value(one) for one in inner)


def _mapping(data: Mapping[Any, Any]) -> dict[str, Any]:
    for key in data:
        if type(key) is not str:
            raise NoData(f"the keys of a mapping must be text, this is {_kind(key)}")
    return {key: value(one) for key, one in data.items()}


def _axes(entry: Any) -> Any:
    """An entry of a `PartitionSpec`."""
    if entry is None or entry == "_":
        return None
    if entry == "...":
        return ...
    axes = entry if isinstance(entry, list) else [entry]
    if not all(type(axis) is str for axis in axes):
        raise NoData(f"an entry of P must be an axis or a list of axes, this is {_kind(entry)}")
    return tuple(entry) if isinstance(entry, list) else entry


def _rank(key: str) -> Any:
    return ... if key == "..." else int(key) if key.isascii() and key.isdigit() else key


def _by_rank(values: dict[Any, Any]) -> Any:
    try:
        return by_rank(values)
    except SpecError as error:
        raise NoData(error.faults[0].fact) from None


def _kind(data: Any) -> str:
    return {"dict": "a mapping"}.get(type(data).__name__, shown.kind(data))


def _unknown(data: Mapping[Any, Any], keys: tuple[str, ...]) -> Iterator[str]:
    for key in data:
        if key not in keys:
            close = difflib.get_close_matches(str(key), keys, n=1)
            known = f"did you mean {close[0]!r}?" if close else f"known are {shown.listing(keys)}"
            yield f"there is no key {key!r}, {known}"
