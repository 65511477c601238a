"""The public interface: what is exported, that it is documented, and that no change goes unseen."""

from __future__ import annotations

import difflib
import doctest
import operator
import shutil
from pathlib import Path

import pytest

import pytreekit as ptk

from .api_snapshot import snapshot

ROOT = Path(__file__).parents[1]
ACCEPTED = Path(__file__).with_name("api.txt")
NAMES = [
    "SPLIT", "ClipInfo", "DryRun", "Fault", "Rules", "ShardingPlan", "SpecError", "SpecWarning",
    "axes_like", "bind", "by_rank", "check_shardings", "clipped_grad", "combine", "compare",
    "data_parallel", "data_parallel_grad", "diff", "dry_run", "fsdp_plan", "fsdp_specs",
    "gradient_statistics", "if_array", "named_shardings", "optimizer_specs", "optional",
    "partition", "partition_plan", "partition_specs", "per_example_grad", "per_example_norms",
    "per_example_value_and_grad", "pmap", "raise_faults", "read_shapes", "register_box",
    "shard_map", "spec_of", "stack", "suggest", "suggest_chunk_size", "summary", "unstack", "vmap",
]  # fmt: skip
TESTING = [
    "SingleTrace", "assert_matches_loop", "assert_plan", "assert_plan_matches",
    "assert_single_trace", "assert_trees_match",
]  # fmt: skip
ALL = [*NAMES, *(f"testing.{name}" for name in TESTING)]


def difference(written: str) -> str:
    accepted = ACCEPTED.read_text(encoding="utf-8").splitlines()
    lines = difflib.unified_diff(accepted, written.splitlines(), "tests/api.txt", "pytreekit")
    return "\n".join(line.rstrip("\n") for line in lines)


def test_the_interface_is_the_accepted_one() -> None:
    changed = difference(snapshot())
    accept = "if this is meant: python tests/api_snapshot.py > tests/api.txt, and a changelog line"
    assert not changed, f"the public interface differs; {accept}\n{changed}"


def test_the_snapshot_sees_a_renamed_parameter(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "pytreekit", tmp_path / "pytreekit")
    source = tmp_path / "pytreekit" / "faults.py"
    source.write_text(source.read_text().replace("spec_path: str", "place_in_spec: str"))
    assert "place_in_spec" in difference(snapshot(tmp_path))


def test_exactly_these_names_are_public() -> None:
    assert sorted(ptk.__all__) == sorted(NAMES)
    assert sorted(ptk.testing.__all__) == sorted(TESTING)
    assert {*NAMES, "testing"} <= set(dir(ptk))
    with pytest.raises(AttributeError, match="nonsense"):
        ptk.nonsense  # noqa: B018


def test_the_changelog_speaks_of_every_public_name() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [name for name in ALL if f"`ptk.{name}" not in text] == []


def test_the_reference_shows_every_public_name() -> None:
    pages = (ROOT / "docs" / "en" / "reference").glob("*.md")
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    assert [name for name in ALL if f"::: pytreekit.{name}" not in lines] == []


@pytest.mark.parametrize("name", ALL)
def test_every_public_name_has_an_example_that_runs(name: str) -> None:
    assert examples_run(operator.attrgetter(name)(ptk)) > 0


def test_a_wrong_example_is_noticed() -> None:
    def wrong() -> None:
        """Add.

        >>> 1 + 1
        3
        """

    with pytest.raises(AssertionError, match="1 of 1"):
        examples_run(wrong)


def examples_run(thing: object) -> int:
    """Run the examples in one docstring and return how many there are."""
    parser = doctest.DocTestParser()
    test = parser.get_doctest(thing.__doc__ or "", {}, repr(thing), None, 0)
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    told: list[str] = []
    result = doctest.DocTestRunner(optionflags=options).run(test, out=told.append)
    assert not result.failed, f"{result.failed} of {result.attempted} fail:\n{''.join(told)}"
    return result.attempted
