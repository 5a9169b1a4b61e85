"""``watchkeeper completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import sys
from typing import Literal

from .exits import COMPLETED


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a script that completes commands and options.

    bash: source <(watchkeeper completion bash); zsh: watchkeeper completion zsh > a file _watchkeeper in your fpath;
    fish: watchkeeper completion fish > ~/.config/fish/completions/watchkeeper.fish

    Parameters
    ----------
    shell:
        bash, zsh or fish.
    """
    from .app import application

    sys.stdout.write(application().generate_completion(prog_name="watchkeeper", shell=shell))
    return COMPLETED
