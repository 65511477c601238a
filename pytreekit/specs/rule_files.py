"""Rules as JSON, YAML and TOML: their texts, and what is wrong with them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..faults import Fault
from ..show import values as shown
from ..show.errors import SpecError, raise_faults
from .reading import bad_rule

LONGEST = 500_000
"""Characters of a text: what is longer is no list of rules."""

_SUFFIXES = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


class Unreadable(ValueError):  # noqa: N818  it is made into a fault
    """A text that is not of its form: why, and what more to say."""

    def __init__(self, fact: str, note: str = "") -> None:
        super().__init__(fact)
        self.fact, self.note = fact, note


def form_of(path: Any) -> str:
    """The form of a file, by its suffix.

    Raises:
        SpecError: PTK306, if it has another.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        known = shown.listing(list(_SUFFIXES))
        fact = f"a file of rules must end in one of {known}"
        raise_faults([bad_rule("path", shown.spec(str(path)), fact)], doing="Rules")
    return _SUFFIXES[suffix]


def check_form(form: Any, doing: str) -> None:
    """Refuse a form that is none.

    Raises:
        SpecError: PTK306, if it is none.
    """
    if not isinstance(form, str) or form not in _WRITERS:
        fact = f"the form must be one of {shown.listing([repr(its) for its in _WRITERS])}"
        raise_faults([bad_rule("form", shown.spec(form), fact)], doing=doing)


def text_of(path: Any) -> str:
    """What a file holds.

    Raises:
        SpecError: PTK306, if it is too large, or no UTF-8.
        OSError: If it cannot be opened.
    """
    with Path(path).open("rb") as file:
        data = file.read(4 * LONGEST + 1)  # a character has four bytes at most
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fact = f"the file is no UTF-8: {error.reason} at byte {error.start}"
        raise SpecError(
            [bad_rule("path", shown.spec(str(path)), fact)], doing="Rules.load"
        ) from None


def put_text(path: Any, text: str) -> None:
    """Write a file.

    Raises:
        OSError: If that cannot be done.
    """
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def data_of(text: Any, form: str) -> tuple[Any, list[Fault]]:
    """The data in a text, and what is wrong with it."""
    if not isinstance(text, str):
        return None, [bad_rule("text", "", f"the text must be a str, this is {shown.kind(text)}")]
    if len(text) > LONGEST:
        fact = f"the text has more than {LONGEST:,} characters, it is no list of rules"
        return None, [bad_rule("text", "", fact)]
    try:
        return _READERS[form](text), []
    except Unreadable as error:
        return None, [bad_rule("text", "", error.fact, error.note)]
    except RecursionError:
        return None, [bad_rule("text", "", f"the {form.upper()} is nested too deep")]


def from_json(text: str, told: str = "this") -> Any:
    """The data in a JSON text, in which every key is there once and every number is one.

    Args:
        text: The text.
        told: What messages call it.

    Raises:
        Unreadable: If it is no JSON.
        RecursionError: If it is nested too deep.
    """

    def constant(name: str) -> Any:
        raise Unreadable(f"JSON has no {name}")

    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Unreadable(f"{told} is no JSON: {error.msg}, {place}") from None
    except Unreadable:
        raise
    except ValueError as error:  # a number of too many digits
        raise Unreadable(f"{told} is no JSON: {error}") from None


def _once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """A mapping whose keys are there once: of two alike, one would be lost."""
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Unreadable(f"a mapping has the key {key!r} twice")
        found[key] = value
    return found


def _from_toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also of a number of too many digits
        raise Unreadable(f"this is no TOML: {error}") from None


def _from_yaml(text: str) -> Any:
    yaml = _yaml()

    class Loader(yaml.SafeLoader):
        """Of a mapping, refuses a key that is there twice, or stands for the keys of others."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001
            if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
                raise Unreadable("merge keys, <<, are not read", "write them out")
            _once([(self.construct_object(key, deep=True), None) for key, _ in node.value])
            return super().construct_mapping(node, deep=deep)

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise Unreadable(f"this is no YAML: {problem}{place}") from None
    except Unreadable:
        raise
    except (ValueError, TypeError) as error:  # a date that is none, a key that cannot be one
        raise Unreadable(f"this is no YAML: {error}") from None


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        note = "pip install pyyaml"
        raise Unreadable("YAML needs PyYAML, which is not installed", note) from None
    return yaml


def _to_json(data: Mapping[str, Any]) -> str:
    lines = (f'  "{name}": {its}' for name, its in _lines(data, json.dumps, "  "))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _to_toml(data: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {its}\n" for name, its in _lines(data, _toml, ""))


def _to_yaml(data: Mapping[str, Any]) -> str:
    options = {"sort_keys": False, "default_flow_style": None, "width": 10**9}
    return _yaml().safe_dump(dict(data), **options)


def _lines(
    data: Mapping[str, Any], write: Callable[[Any], str], indent: str
) -> Iterator[tuple[str, str]]:
    """Each part of the data and its text, with a line for each rule."""
    for name, value in data.items():
        rows = ",\n".join(f"{indent}  {write(row)}" for row in value) if name == "rules" else ""
        yield name, f"[\n{rows}\n{indent}]" if rows else write(value)


def _toml(value: Any) -> str:
    """A value as TOML on one line; it has no null."""
    if value is None:
        return "{none = true}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_toml_key(key)} = {_toml(its)}' for key, its in value.items())}}}"
    return repr(value)


def _toml_text(text: str) -> str:
    """As JSON writes it, but for what TOML must have escaped or must not."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _toml_text(key)


_READERS: dict[str, Callable[[str], Any]] = {
    "json": from_json,
    "yaml": _from_yaml,
    "toml": _from_toml,
}
_WRITERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "json": _to_json,
    "yaml": _to_yaml,
    "toml": _to_toml,
}


def text_from(data: Mapping[str, Any], form: str) -> str:
    """Data as text.

    Raises:
        SpecError: PTK306, if PyYAML is needed and missing, or the form has no such characters.
    """
    try:
        text = _WRITERS[form](data)
        text.encode("utf-8")
    except Unreadable as error:
        fault = bad_rule("form", shown.spec(form), error.fact, error.note)
    except UnicodeEncodeError:
        fact = f"{form.upper()} cannot hold half of a character, a surrogate"
        fault = bad_rule("form", shown.spec(form), fact)
    else:
        return text
    raise SpecError([fault], doing="rules.dumps") from None
