"""`gpu2npu verify record`: what the original does, in a file that travels to the machine of the migrated program."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from gpu2npu.cli.language import say
from gpu2npu.cli.program_options import (
    PROGRAM_SETTINGS,
    check_outermost,
    check_program,
    check_requirements,
    evaluation_option,
    here_option,
    program_argument,
    steps_option,
)

_FAMILIES = ("conv", "matmul", "none")

EPILOG = """
\b
Examples:
  gpu2npu verify record -o resnet.gpu2npu -- train.py --epochs 1
  gpu2npu verify record -i resnet -o resnet.gpu2npu --steps 50 -- -m resnet.train
  gpu2npu verify record -o resnet.gpu2npu --gpus 2 -- torchrun --nproc_per_node 2 train.py

CMD runs on the GPU where PyTorch has one, else on a CPU that plays the part of CUDA, once unchanged and three times
with other rounding, each time in a copy of the project. The file holds names, numbers of lines, statistics and a few
elements of tensors, and no code. Take it to the machine of the migrated copy, for `gpu2npu verify compare`.
"""


@click.command(epilog=EPILOG, options_metavar="[OPTIONS]", context_settings=PROGRAM_SETTINGS)
@here_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The file to write, such as resnet.gpu2npu.",
)
@steps_option
@evaluation_option
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many GPUs the CPU plays where there are none; unless set, as many as torchrun in CMD starts, or 1.",
)
@click.option(
    "--hf32",
    type=click.Choice(_FAMILIES),
    multiple=True,
    default=("conv",),
    show_default=True,
    help="The operators for which the NPU will take HF32, as torch_npu does for conv. Repeatable.",
)
@click.option(
    "--tensors",
    type=click.IntRange(min=1),
    metavar="STEP",
    help="Also store the whole tensors of a step, at which `compare` found a divergence: a larger file.",
)
@program_argument
def record(
    source: Path,
    output: Path,
    steps: int,
    evaluation: bool,
    gpus: int | None,
    hf32: tuple[str, ...],
    tensors: int | None,
    command: tuple[str, ...],
) -> None:
    """Record what the original program does, to compare the migrated one with it on another machine."""
    check_outermost()
    check_program(command)
    if not output.absolute().parent.is_dir():
        raise click.UsageError(f"-o {output}: there is no folder {output.absolute().parent}.")
    if tensors and tensors > steps:
        raise click.UsageError(f"--tensors {tensors} is a step after the last one: give --steps {tensors} or more.")
    check_requirements()

    from gpu2npu.cli.verify.run import failures_shown, missing_of, original_side
    from gpu2npu.cli.verify.text import Losses
    from gpu2npu.verify.commands import cards_of
    from gpu2npu.verify.reference_file import write_reference
    from gpu2npu.verify.verdict import record

    source = source.resolve()
    families = tuple(sorted({*hf32} - {"none"}))
    with tempfile.TemporaryDirectory(prefix="gpu2npu-verify-") as folder:
        cards = gpus or cards_of(command)
        original = original_side(source, command, Path(folder), steps, cards, cards > 1, evaluation)
        missing_of(source, cards)
        with failures_shown(source), Losses(steps) as losses:
            reference = record(original, families, losses, tensors - 1 if tensors else None)
        try:
            write_reference(output, reference)
        except OSError as error:
            raise click.UsageError(f"-o {output}: {error.strerror}.") from None
    made, device = len(reference.ranks[0][0].seconds), reference.ranks[0][0].device or "a GPU played on the CPU"
    say(f"{output}: {made} steps on {device}, {output.stat().st_size / 1e6:.1f} MB.")
