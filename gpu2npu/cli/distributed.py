"""`gpu2npu ... distributed -m train.py`: migrate, and make a script that trains on one card train on many."""

from __future__ import annotations

import keyword
from pathlib import Path

import click

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.project.errors import UsageError
from gpu2npu.system import holds

_EPILOG = """\
\b
Examples:
  gpu2npu -i resnet -o migrated -v 2.1.0 distributed -m train.py
  gpu2npu -i resnet -o migrated -v 2.1.0 distributed -m tools/train.py -t self.net -- python tools/train.py --epochs 9
  cd migrated/resnet_msft_multi && ./run_distributed_npu.sh

The options of the migration (-i, -o, -v and so on) come before `distributed`.
"""


@click.command(epilog=_EPILOG)
@click.option(
    "-m",
    "--main",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The script that trains, in SRC.",
)
@click.option(
    "-t",
    "--target_model",
    "--target-model",
    "target_model",
    default="model",
    show_default=True,
    metavar="NAME",
    help="The variable of its model, such as net or self.model.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.pass_context
def distributed(ctx: click.Context, main: Path, target_model: str, command: tuple[str, ...]) -> None:
    """Migrate SRC, and make its script FILE train on many cards: one process for each, the model in
    DistributedDataParallel, every batch shared out among them.

    The copy is written to OUT/<name>_msft_multi, with a launcher that is ready to run: it starts `python FILE`, or
    COMMAND, once for each NPU.
    """
    from gpu2npu.cli.migrate import carry_out

    assert ctx.parent is not None
    ctx.exit(carry_out(ctx.parent.params, command, lambda source: choose_entry(source, main, target_model)))


def choose_entry(source: Path, main: Path, target_model: str) -> CodemodChoice:
    """The codemods for an entry file, given as a path or relative to the source, and the model variable in it.

    Raises UsageError if the file is not a Python file of the source, or the model is not a name.
    """
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in target_model.split(".")):
        raise UsageError(f"The target model '{target_model}' is not a variable's name such as net or self.model.")
    root = source if source.is_dir() else source.parent
    file = next((path for path in (root / main, main) if holds(path.is_file)), None)
    if file is None:
        raise UsageError(f"The entry file '{main}' is not in the input '{source}'; give its path there.")
    inside = file.resolve()
    if not inside.is_relative_to(root.resolve()) or (source.is_file() and inside != source.resolve()):
        raise UsageError(f"The entry file '{main}' is outside the input '{source}'; give one of its own scripts.")
    if inside.suffix != ".py":
        raise UsageError(f"The entry file '{main}' is not a Python file (.py).")
    return CodemodChoice(main=inside.relative_to(root.resolve()).as_posix(), target_model=target_model)
