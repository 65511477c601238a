"""`pytreekit tour`: the library at work on real data."""

from __future__ import annotations

import argparse
import importlib.util
import sys

TOLD = "train a small classifier on real data and see what pytreekit does"


def options(parser: argparse.ArgumentParser) -> None:
    """It has none."""
    del parser


def run() -> int:
    """Give it."""
    if importlib.util.find_spec("sklearn") is None:
        print(
            "pytreekit tour: its data come with scikit-learn, which is not installed here.\n"
            "Install it: pip install 'pytreekit[tour]'",
            file=sys.stderr,
        )
        return 1
    from ..tour import run as show

    show()
    return 0
