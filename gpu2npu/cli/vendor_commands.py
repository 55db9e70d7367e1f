"""The vendor's two commands with their arguments: `pytorch_gpu2npu.sh` and `pytorch_analyse.sh`.

Their options are those of `gpu2npu` and `gpu2npu analyse`, of which each is an alias, but for one: `-env` names folders
with modules that the project imports, which the vendor's tool reads. Here no module outside of the project is read, so
that they only have to be there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from gpu2npu.cli.language import say
from gpu2npu.cli.main import EXIT_USAGE, main

_ENVIRONMENT = ("-env", "--env-path")
_COMMAND = "distributed"  # what follows is its own


def pytorch_gpu2npu() -> NoReturn:
    """`pytorch_gpu2npu.sh -i SRC -o OUT -v VERSION [-s] [-sim] [-a MODEL] [-m] [-r RULES] [distributed -m MAIN]`"""
    _run([])


def pytorch_analyse() -> NoReturn:
    """`pytorch_analyse.sh -i SRC -o OUT -v VERSION [-m MODE] [-api FILE ...] [-env FOLDER ...]`"""
    _run(["analyse"])


def _run(command: Sequence[str]) -> NoReturn:
    given, folders = without_environment(sys.argv[1:])
    for folder in folders:
        if not Path(folder).is_dir():
            say(f"Error: {folder}, which {_ENVIRONMENT[0]} names, is not a folder.", err=True)
            sys.exit(EXIT_USAGE)
    if folders:
        say("Note: -env changes nothing here: no module outside of the project is read.", err=True)
    sys.argv[1:] = [*command, *given]
    main()


def without_environment(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments without `-env FOLDER ...`, and the folders."""
    others: list[str] = []
    folders: list[str] = []
    taken = others
    for word in given:
        if word in _ENVIRONMENT:
            taken = folders
        else:
            taken = others if word.startswith("-") or word == _COMMAND else taken
            taken.append(word)
    return others, folders
