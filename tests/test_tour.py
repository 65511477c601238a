"""The tour: what it tells is true, the same each time, and fit for where it is shown."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from pytreekit.tour.screen import Screen

pytest.importorskip("sklearn", reason="the tour's data come with scikit-learn")

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "pytreekit", "tour"]
LONGEST_SECONDS = 60
LEAST_ACCURACY = 95.0
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;\d+)*m")
ODD_TEXT = "in_axes[0]['b'] [red]:smile:" + " long" * 20
ABOUT_COLOUR = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


def surroundings(**own: str) -> dict[str, str]:
    """The environment, without what it says of colour."""
    kept = {name: value for name, value in os.environ.items() if name not in ABOUT_COLOUR}
    return {**kept, "TERM": "xterm-256color", "COLUMNS": "100", **own}


@pytest.fixture(scope="module")
def piped() -> str:
    """What the tour writes into a pipe."""
    start = time.perf_counter()
    ran = subprocess.run(
        COMMAND, cwd=ROOT, env=surroundings(), capture_output=True, text=True, check=False
    )
    assert time.perf_counter() - start < LONGEST_SECONDS
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def in_a_terminal(*command: str, **own: str) -> str:
    """What a command writes on a terminal."""
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    ours, its = pty.openpty()
    with subprocess.Popen(
        command, cwd=ROOT, env=surroundings(**own), stdin=its, stdout=its, stderr=its
    ) as running:
        os.close(its)
        written = b""
        try:
            while some := os.read(ours, 2**16):
                written += some
        except OSError:
            pass  # how Linux says that the other end is closed
    os.close(ours)
    assert running.returncode == 0, written.decode()
    return written.decode()


def without_its_time(told: str) -> str:
    return re.sub(r"Done in \d+ s", "Done", told)


def test_a_pipe_gets_plain_lines(piped: str) -> None:
    assert piped.isascii()
    assert "\x1b" not in piped
    assert "\r" not in piped
    assert re.findall(r"epoch +(\d+)/30   loss \d\.\d{3}$", piped, re.MULTILINE) == [
        "6",
        "12",
        "18",
        "24",
        "30",
    ]


def test_it_learns_to_read_digits_it_has_not_seen(piped: str) -> None:
    accuracies = re.findall(r"(train|test) accuracy (\d+\.\d)%", piped)
    assert [name for name, _ in accuracies] == ["train", "test"]
    assert all(float(percent) > LEAST_ACCURACY for _, percent in accuracies)


def test_the_plan_is_shown_as_a_table(piped: str) -> None:
    assert re.search(r"\| params\['out'\]\['w'\] +\| f32\[32,10\] +\| shared \|", piped)
    assert re.search(r"\| image +\| f32\[360,64\] +\| 0 +\| f32\[64\] ", piped)


def test_the_wrong_spec_is_refused_by_both_and_repaired(piped: str) -> None:
    jax_says, ours = piped.split("What ptk.vmap(loss, in_axes) says")
    assert "    ValueError: " in jax_says.split("What jax.vmap(loss, in_axes) says")[1]
    assert "    SpecError: vmap(loss): " in ours
    assert "params['out']['b']   f32[10]" in ours
    assert "label   i32[360]   there is no axis 1" in ours
    assert "error.repaired = ({'hidden': None, 'out': {'b': None, 'w': None}}, 0, 0)" in ours
    assert "360 losses" in ours
    assert "the same numbers as from jax.vmap(loss, in_axes=(None, 0, 0)): True" in ours


def test_rules_that_do_not_divide_are_told_and_others_planned(piped: str) -> None:
    told = piped.split("Lay the classifier out over 8 devices")[1]
    assert "    SpecError: partition_specs: 2 faults in rules" in told
    assert "dimension 1 of 10 does not divide by 4" in told
    assert re.search(r"\| out/w +\| +1 \| f32\[32,10\] +\| model ", told)


def test_the_longest_gradients_are_those_of_wrong_labels(piped: str) -> None:
    (found,) = re.findall(r"the (\d+) longest, the tenth, hold (\d+) of the (\d+) wrong", piped)
    searched, hits, wrong = map(int, found)
    assert searched == 143
    assert hits > 0.9 * wrong > 60
    assert "one example moves their sum by 1.0 at most" in piped


def test_a_step_of_one_device_is_that_of_eight(piped: str) -> None:
    told = piped.split("Train on 8 devices")[1]
    assert "fix: on_indivisible = 'replicate'" in told
    assert re.search(r"batch.images +\| f32\[64,64\] \| P\('data',\) \| f32\[8,64\]", told)
    assert re.search(r"by jit, .* here: the same", told)


def test_it_tells_the_same_each_time_and_through_the_public_function(piped: str) -> None:
    from pytreekit.tour import run

    stream = io.StringIO()
    run(Console(file=stream, force_terminal=False))
    assert without_its_time(stream.getvalue()) == without_its_time(piped)


def test_a_terminal_gets_a_progress_bar_and_no_color_is_honoured() -> None:
    work = "from rich.console import Console; from pytreekit.tour.screen import Screen\n"
    work += "with Screen(Console()).progress('epoch', 3) as advance: advance(''), advance('')"
    told = in_a_terminal(sys.executable, "-c", work, NO_COLOR="1")
    assert "2/3" in told
    assert "\r" in told.replace("\r\n", "")
    assert not COLOUR.search(told)


class Terminal(io.StringIO):
    """A terminal, as far as one can ask it."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, **variables: str) -> str:
    """What a screen makes of a heading, a text full of markup, and work."""
    for name in ABOUT_COLOUR:
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **variables}.items():
        monkeypatch.setenv(name, value)
    screen = Screen(Console(file=stream, width=40))
    screen.heading("First")
    screen.quote(f"{ODD_TEXT}  ")
    with screen.progress("step", 2) as advance:
        advance("one")
        advance("two")
    return stream.getvalue()


def test_a_terminal_gets_colour_and_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    told = shown(monkeypatch, Terminal())
    assert COLOUR.search(told)
    assert "2/2" in told
    assert "step 2/2" not in told


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    told = shown(monkeypatch, Terminal(), TERM="dumb")
    assert "\x1b" not in told
    assert "    step 1/2   one\n    step 2/2   two\n" in told


def test_forced_colour_in_a_pipe_draws_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    told = shown(monkeypatch, io.StringIO(), FORCE_COLOR="1")
    assert COLOUR.search(told)
    assert "    step 1/2   one\n    step 2/2   two\n" in told


def test_no_color_outdoes_forced_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    told = shown(monkeypatch, io.StringIO(), FORCE_COLOR="1", NO_COLOR="1")
    assert not COLOUR.search(told)


def test_a_screen_changes_nothing_but_space_at_the_end_of_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = shown(monkeypatch, Terminal(), NO_COLOR="1")
    assert f"    {ODD_TEXT}\n" in told


def test_the_pattern_of_colour_knows_colour() -> None:
    assert all(COLOUR.search(code) for code in ("\x1b[31m", "\x1b[1;36m", "\x1b[38;5;237m"))
    assert not any(COLOUR.search(code) for code in ("\x1b[1m", "\x1b[0m", "\x1b[2K", "\x1b[?25l"))
