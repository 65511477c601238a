"""`pytreekit completion`: what makes a shell complete the words of this command line."""

from __future__ import annotations

import argparse

TOLD = "print what makes a shell complete commands, options and files"
DESCRIPTION = """\
Print a script that makes a shell complete the commands, options and files of pytreekit. Put it
where the shell looks for such:
  pytreekit completion bash > ~/.local/share/bash-completion/completions/pytreekit
  pytreekit completion zsh > ~/.zfunc/_pytreekit      (with ~/.zfunc in fpath)
  pytreekit completion fish > ~/.config/fish/completions/pytreekit.fish"""

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")


def options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(*, shell: str) -> int:
    """Print it."""
    import shtab

    from . import options as common
    from .parsing import parser

    common.FILES.update(shtab.FILE)
    print(shtab.complete(parser(brief=True), shell))
    return 0
