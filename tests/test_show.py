"""What people read: the text of an error, the error as an object, and tables."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
import re

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import pytreekit as ptk
from pytreekit.faults import Place
from pytreekit.show import table, values

from .vmap_nodes import Keyed

WIDTH = 88
TOLD = {"doing": "clip(f)", "where": "norms", "when": "early"}
XS = jnp.ones((3, 2))


def fault(number=0, **changes):
    """A fault of its own cause for each number."""
    usual = {
        "code": "PTK101",
        "argument": "params",
        "path": f"['w{number}']",
        "spec_path": f"in_axes[0]['w{number}']",
        "found": "f32[3,2]",
        "wanted": "5",
        "fact": "there is no axis 5",
    }
    return ptk.Fault(**(usual | changes))


def text(*faults, **told):
    return str(ptk.SpecError(faults, **told))


def groups(message):
    """The heads of the groups of a message."""
    return re.findall(r"^  (?=\S)(?!\.\.\.)(.*)$", message, re.MULTILINE)


def raised(fun, *args, **kwargs):
    with pytest.raises(ptk.SpecError) as caught:
        fun(*args, **kwargs)
    return caught.value


# ---- the head, and how many ---------------------------------------------------------------------


HEADS = [
    ({}, "2 faults"),
    ({"doing": "clip(f)"}, "clip(f): 2 faults"),
    ({"where": "norms"}, "2 faults in norms"),
    ({"when": "early"}, "2 faults, found early"),
    (TOLD, "clip(f): 2 faults in norms, found early"),
]


@pytest.mark.parametrize(("told", "head"), HEADS)
def test_the_head_says_what_was_done_and_how_many_faults_there_are(told, head):
    assert text(fault(1), fault(2), **told).startswith(f"{head}\n\n  PTK101")
    assert text(fault(1), **told).startswith(head.replace("2 faults", "1 fault") + "\n\n  PTK101")


def test_the_whole_text_of_a_fault():
    beside = (Place("x", "i32[]", "is 1", "y"),)
    one = fault(note="its axes are 0", hint="in_axes[0]['w0'] = 0", beside=beside)
    assert text(one) == (
        "1 fault\n\n"
        "  PTK101  params['w0']   f32[3,2]   there is no axis 5\n"
        "      in_axes[0]['w0'] = 5, its axes are 0\n"
        "      x   i32[]   is 1   y\n"
        "      fix: in_axes[0]['w0'] = 0"
    )
    bare = ptk.Fault("PTK103", "", "", "", "", "")
    assert text(bare) == "1 fault\n\n  PTK103  nothing is mapped and axis_size is missing"
    assert text(dataclasses.replace(bare, code="MY1")) == "1 fault\n\n  MY1  "


@pytest.mark.parametrize("count", [1, 9, 10, 11, 30])
def test_ten_groups_at_most_and_the_rest_counted(count):
    told = text(*map(fault, range(count)))
    assert told.startswith(f"{count} fault")
    assert len(groups(told)) == min(count, 10)
    rest = f"\n  ... and {count - 10} more (PTK101): see .faults"
    assert told.endswith(rest) == (count > 10)
    assert ("see .faults" in told) == (count > 10)


def test_the_rest_is_counted_in_faults_and_names_its_codes():
    more = [fault(99, code="PTK202", path=f"[{i}]") for i in range(5)]
    told = text(*map(fault, range(10)), *more, fault(50, code="MY1"), fault(51, code="MY1"))
    assert told.endswith("\n  ... and 7 more (MY1, PTK202): see .faults")


# ---- equal causes -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4, 5, 768])
def test_equal_causes_are_told_once(count):
    told = text(*(fault(path=f"[{i}]") for i in range(count)))
    others = ", ".join(f"params[{i}]" for i in range(1, min(count, 4)))
    rest = f" and {count - 4} more" if count > 4 else ""
    assert groups(told) == [f"PTK101  x{count}, first params[0]   f32[3,2]   there is no axis 5"]
    assert f"\n      also {others}{rest}\n" in told


DISTINCT = {
    "code": "PTK104",
    "spec_path": "in_axes[1]",
    "found": "i32[3]",
    "fact": "another",
    "note": "a note",
    "hint": "do this",
}


@pytest.mark.parametrize("name", DISTINCT)
def test_other_causes_are_told_by_themselves(name):
    same = {"path": "[1]", "argument": "xs"}
    assert len(groups(text(fault(), fault(**same)))) == 1
    assert len(groups(text(fault(), fault(**same, **{name: DISTINCT[name]})))) == 2


def test_nodes_that_one_hint_mends_are_told_once():
    twins = [fault(i, code="PTK201", path="", hint="add them") for i in range(3)]
    assert len(groups(text(*twins))) == 1
    assert len(groups(text(*(dataclasses.replace(twin, hint="") for twin in twins)))) == 3
    assert len(groups(text(*(dataclasses.replace(twin, code="PTK101") for twin in twins)))) == 3


def test_groups_stand_in_the_order_of_the_faults():
    two = [fault(2, path=f"[{i}]") for i in range(3)]
    told = text(*two[:2], fault(1), two[2], fault(0, code="MY1"))
    assert [head.split("   ")[0] for head in groups(told)] == [
        "PTK101  x2, first params[0]", "PTK101  params['w1']", "PTK101  params[2]",
        "MY1  params['w0']",
    ]  # fmt: skip


def test_faults_stand_in_the_order_of_the_arguments_and_leaves():
    args = "text", {"b": XS[0], "a": 2.0, "c": XS}, jnp.ones((4, 2)), (XS, XS)
    error = raised(
        ptk.vmap(lambda w, x, z, y, **k: z, in_axes=(0, {"a": 0, "b": 1, "c": 0}, 0, [0, 0])),
        *args, key="clip", b=[2.0],
    )  # fmt: skip
    assert [(fault.code, fault.place) for fault in error.faults] == [
        ("PTK104", "w"), ("PTK101", "x['a']"), ("PTK101", "x['b']"), ("PTK202", "y"),
        ("PTK101", "b[0]"), ("PTK104", "key"), ("PTK102", "z"),
    ]  # fmt: skip
    heads = [head.split()[:2] for head in groups(str(error))]
    assert [code for code, _ in heads] == [fault.code for fault in error.faults]


# ---- sizes that disagree ------------------------------------------------------------------------


def sizes(*numbers, **options):
    """What is told of arguments with these sizes: each row, and whether it is marked."""
    error = raised(ptk.vmap(lambda *xs: 0.0, **options), *(jnp.ones(n) for n in numbers))
    assert {fault.code for fault in error.faults} == {"PTK102"}
    assert groups(str(error)) == ["PTK102  mapped axes have different sizes"]
    rows = str(error).split("sizes\n")[1].split("\n")
    assert all(row.startswith(" " * 6) for row in rows)
    cells = [re.split(r" {3,}", row.strip()) for row in rows if "fix:" not in row]
    return [row[0] + " <-" if row[-1] == "<- differs" else row[0] for row in cells], error


def test_the_majority_comes_first_and_the_odd_ones_are_marked():
    assert sizes(4, 3, 3)[0] == ["xs[1]", "xs[2]", "xs[0] <-"]
    assert sizes(3, 4, 3)[0] == ["xs[0]", "xs[2]", "xs[1] <-"]
    assert sizes(3, 4, 3, 5)[0] == ["xs[0]", "xs[2]", "xs[1] <-", "xs[3] <-"]


def test_in_a_tie_the_first_size_is_right():
    assert sizes(4, 3)[0] == ["xs[0]", "xs[1] <-"]
    assert sizes(3, 4)[0] == ["xs[0]", "xs[1] <-"]
    assert sizes(5, 4, 4, 5)[0] == ["xs[0]", "xs[3]", "xs[1] <-", "xs[2] <-"]
    assert sizes(5, 4, 3)[0] == ["xs[0]", "xs[1] <-", "xs[2] <-"]


def test_against_axis_size_everything_differs():
    told, error = sizes(3, 3, axis_size=4)
    assert told == ["axis_size", "xs[0] <-", "xs[1] <-"]
    assert "      axis_size            is 4\n" in str(error)


def test_many_that_agree_and_many_that_differ_are_counted():
    told, error = sizes(*[3] * 20, *[4] * 12)
    assert told == [
        "xs[0]", "xs[1]", "xs[2]", "... 17 more", *(f"xs[{i}] <-" for i in range(20, 24)),
        "... and 8 more that differ",
    ]  # fmt: skip
    assert len(error.faults) == 12
    assert "... 17 more            have 3\n" in str(error)


def test_sizes_in_columns():
    xs = {"image": jnp.ones((3, 28)), "y": jnp.ones(4, jnp.int32)}
    error = raised(ptk.vmap(lambda w, xs: 0.0, in_axes=(None, {"image": 0, "y": 0})), XS, xs)
    assert str(error).split("sizes\n")[1] == (
        "      xs['image']   f32[3,28]   axis 0 has 3   in_axes[1]['image'] = 0\n"
        "      xs['y']       i32[4]      axis 0 has 4   in_axes[1]['y'] = 0   <- differs"
    )


def test_one_hint_for_sizes_is_told_once():
    alike = [fault(i, code="PTK102", hint=hint) for i, hint in enumerate(["a", "a", "b"])]
    assert re.findall("fix: .", text(*alike)) == ["fix: a", "fix: b"]


# ---- plain text ---------------------------------------------------------------------------------

# Spaces and control characters are where lines are broken, and repr leaves none of the latter.
WORDS = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=200)
FIELDS = st.fixed_dictionaries(dict.fromkeys((*DISTINCT, "argument", "path", "wanted"), WORDS))


@settings(max_examples=100)
@given(st.lists(FIELDS, min_size=1, max_size=12), WORDS)
def test_any_text_is_told_in_ascii_and_in_bounded_width(fields, doing):
    faults = [ptk.Fault(**its) for its in fields]
    told = text(*faults, doing=doing)
    assert told.isascii()
    assert max(map(len, told.splitlines())) <= WIDTH
    whole = re.sub(r"\s", "", told)
    for word in fields[0].values():  # broken where it must be, and not lost
        assert word.encode("ascii", "backslashreplace").decode() in whole


def test_keys_that_are_not_ascii_are_escaped_as_in_a_literal():
    error = raised(
        ptk.vmap(lambda params: 0.0, in_axes=({"größe": 5, "日本": 0},)), {"größe": XS, "日本": XS}
    )
    assert str(error).isascii()
    key = re.search(r"params\[('.*?')\]", str(error))[1]
    assert key.isascii()
    assert eval(key) == "größe"
    assert error.faults[0].path == "['größe']"


def test_no_colour_even_where_it_is_forced(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in str(raised(ptk.vmap(lambda x: x, in_axes=5), XS))
    assert "\x1b" not in str(ptk.vmap(lambda x: x).plan(XS))


def test_long_lines_go_on_further_in():
    hint = "; ".join(f"in_axes[0]['w{i}'] = None" for i in range(9))
    told = text(fault(hint=hint))
    lines = told[told.index("      fix: ") :].split("\n")
    assert len(lines) > 2
    assert all(re.match(r" {10}\S", line) for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == f"fix: {hint}"


# ---- the error as an object ---------------------------------------------------------------------


class Unpicklable:
    """Refuses to be pickled, in a way of its own."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


def local():
    class Inner:
        pass

    return Inner()


UNPICKLABLE = {
    "a lambda": lambda: lambda x: x,
    "of a local class": local,
    "a custom node around one": lambda: Keyed((0,), lambda x: x),
    "a lock of a file": lambda: io.TextIOWrapper(io.BytesIO()),
    "an odd refusal": lambda: Unpicklable(ValueError("no")),
    "too deep": lambda: Unpicklable(RecursionError("no")),
}
COPIES = [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))]


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("kind", UNPICKLABLE)
def test_faults_travel_without_a_spec_that_cannot(kind, copied):
    error = ptk.SpecError([fault(1), fault(2)], repaired=(UNPICKLABLE[kind](), 0), **TOLD)
    twin = copied(error)
    assert type(twin) is ptk.SpecError
    assert twin.faults == error.faults
    assert str(twin) == str(error)
    assert twin.repaired is None


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("repaired", [None, 0, ({"w": None}, 0), np.arange(2)])
def test_a_spec_that_can_travels_along(repaired, copied):
    told = fault(1, beside=(Place("x", "f32[]", "", ""),))
    error = ptk.SpecError([told], repaired=repaired, **TOLD)
    twin = copied(copied(error))
    assert twin.faults == error.faults
    assert str(twin) == str(error)
    np.testing.assert_equal(twin.repaired, repaired)


def test_a_deep_copy_shares_nothing_that_changes():
    error = ptk.SpecError([fault()], repaired=({"w": 0},))
    twin = copy.deepcopy(error)
    twin.repaired[0]["w"] = 1
    assert error.repaired == ({"w": 0},)


def test_an_error_is_a_value_error_with_its_faults_as_data():
    error = ptk.SpecError(fault(i) for i in range(2))
    assert isinstance(error, ValueError)
    assert error.faults == (fault(0), fault(1))
    assert error.repaired is None
    assert (ptk.SpecError.__module__, ptk.SpecError.__qualname__) == ("pytreekit", "SpecError")
    assert len({fault(0), fault(0), fault(1)}) == 2


# ---- tables -------------------------------------------------------------------------------------

HEAD = table.Head("vmap([bold]f[/])", ("argument", "leaf [red]"))
ROWS = [("params['w']", "f32[3,2]"), ("[dim]x[/dim]", ""), ("z" * 100, "key<fry>[]")]


def printed(shown, *, terminal=False):
    stream = io.StringIO()
    options = {"force_terminal": terminal, "color_system": "standard" if terminal else None}
    Console(file=stream, width=200, **options).print(shown)
    return stream.getvalue()


def cells(drawn):
    """The words of a table, without what it is drawn with."""
    return re.findall(r"[^\s|+\-\u2500-\u257f]+", drawn)


def test_plain_tables():
    plain = table.plain(HEAD, ROWS)
    lines = plain.splitlines()
    assert lines[0] == "vmap([bold]f[/])"
    assert plain.isascii()
    assert max(map(len, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)
    assert [line for line in lines if "[dim]x[/dim]" in line]
    assert plain.count("z") == 100  # folded, not cut
    assert len({len(line) for line in lines[1:]}) == 1


def test_rich_tables_say_the_same():
    shown = printed(table.rich(HEAD, ROWS[:2]))
    assert cells(shown) == cells(table.plain(HEAD, ROWS[:2]))
    assert not shown.isascii()
    assert "\x1b" not in shown
    assert "\x1b" in printed(table.rich(HEAD, ROWS), terminal=True)


def test_a_plan_is_a_table_either_way():
    plan = ptk.vmap(lambda params, x: x, in_axes=(None, 1)).plan({"w": XS}, XS)
    assert str(plan) == plan.table()
    assert cells(printed(plan)) == cells(str(plan))
    assert "params['w'] | f32[3,2] | shared | f32[3,2]    | in_axes[0] = None |" in str(plan)
    assert "x           | f32[3,2] | 1      | f32[3]      | in_axes[1] = 1    |" in str(plan)


class Secret:
    """Its repr holds an address, or raises."""

    def __init__(self, words=None):
        self.words = words

    def __repr__(self):
        if self.words is None:
            raise RuntimeError
        return self.words


def test_specs_on_one_line():
    assert values.spec(Secret("{'a': 0,\n   'b': 1}")) == "{'a': 0, 'b': 1}"
    assert values.spec(Secret("<some.Thing object at 0x7f00>, 1")) == "<Thing>, 1"
    assert values.spec(Secret()) == "Secret"
    assert values.spec("x" * 100) == "'" + "x" * 47 + " ..."
