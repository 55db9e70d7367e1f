"""`-sim`: calls that the NPU of a release lacks become calls of an equivalent made of operators that it has."""

from __future__ import annotations

import ast

from gpu2npu.codemods.choice import Codemod, CodemodChoice, Option
from gpu2npu.codemods.places import Step, by_file, is_skipped, of_rule, replaced, reported
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.spellings import spelling
from gpu2npu.python.project.imports import files_naming
from gpu2npu.python.text.templates import code
from gpu2npu.python.tree.syntax import argument_keyword, arguments, is_unpacked
from gpu2npu.records import FileRewrite, FindingKind
from gpu2npu.support.verdicts import VerdictKind, verdict

FOLDER = "ascend_function"
# What the template folder has an equivalent for, under the equivalent's name.
EQUIVALENTS = {
    f"torch.{name}": name.rpartition(".")[2]
    for name in (
        "angle", "bucketize", "copysign", "special.entr", "fmax", "fmin", "heaviside", "hypot",
        "nn.functional.huber_loss", "nn.HuberLoss", "isin", "logcumsumexp", "logit", "special.logit",
        "nn.functional.rms_norm", "nn.RMSNorm", "unravel_index", "special.xlog1py",
    )
}  # fmt: skip
_LACKING = (VerdictKind.FALLBACK, VerdictKind.UNSUPPORTED)
CODEMOD = Codemod(
    "similar",
    option=Option(
        ("-sim", "--similar"),
        "Replace unsupported calls that have an equivalent; ascend_function/ holds the equivalents.",
    ),
    folder=FOLDER,
    precedence=50,
)


def similar(program: TrainingProgram, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """Calls of torch functions with an equivalent, where the release lacks them and no `out` is given."""
    lacking = {api: name for api, name in EQUIVALENTS.items() if verdict(api, program.version).kind in _LACKING}
    steps: list[Step] = []
    for file in program.parsed(files_naming(program, frozenset(lacking))):
        for call in file.nodes(ast.Call):
            steps += _replaced(file, call, lacking)
    return of_rule("similar", by_file(steps))


def _replaced(file: ParsedFile, call: ast.Call, lacking: dict[str, str]) -> list[Step]:
    api = file.qualified(call.func)
    if api not in lacking or is_skipped(file, call):
        return []
    if any(is_unpacked(given) or argument_keyword(given) == "out" for given in arguments(call)):
        return []
    package = spelling(file, FOLDER)
    reason = f"{FOLDER}.{lacking[api]} gives the same as {api}, which the NPU lacks"
    return [
        *((file, edit) for edit in package.edits),
        replaced(file, call.func, code("{package}.{name}", package=package.name, name=lacking[api]), f"{reason}."),
        reported(file, call, api, f"{reason}; it may be slower than on a GPU.", FindingKind.REVIEW),
    ]
