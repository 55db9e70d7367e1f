"""The variables by which `gpu2npu verify` says to the processes of a command what to record."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu2npu.language import language

_PREFIX = "GPU2NPU_VERIFY_"


@dataclass(frozen=True)
class RecordingSettings:
    """The settings of one recorded run of a command.

    `steps` is after how many optimizer steps the run ends; `project` the folder whose files are the user's. `gpus` is
    how many GPUs the CPU plays, 0 for none; `rounding` is 0, or the seed with which every operator there rounds
    otherwise, and `coarse` names the families ("conv", "matmul") whose operands it rounds to HF32. `shared`: one
    process of the original is compared with several ranks, so both share a batch among cards in the same way. A
    `brief` recording has only losses, times and memory. `dump` is the folder for a dump of the last step, as
    mindstudio-probe makes it. `whole` is a file that lists the places whose tensors are also written whole. What is
    within a module that is called while no gradient is computed is recorded only with `evaluation`. `lang` is the
    language of the sentence that ends a run.
    """

    folder: Path
    project: Path
    steps: int
    gpus: int = 0
    rounding: int = 0
    coarse: tuple[str, ...] = ()
    shared: bool = False
    brief: bool = False
    dump: Path | None = None
    whole: Path | None = None
    evaluation: bool = False
    lang: str = field(default_factory=language)

    def variables(self) -> dict[str, str]:
        """The environment variables that hand these settings to a process."""
        return {
            f"{_PREFIX}FOLDER": str(self.folder),
            f"{_PREFIX}PROJECT": str(self.project),
            f"{_PREFIX}STEPS": str(self.steps),
            f"{_PREFIX}GPUS": str(self.gpus),
            f"{_PREFIX}ROUNDING": str(self.rounding),
            f"{_PREFIX}COARSE": ",".join(self.coarse),
            f"{_PREFIX}SHARED": str(int(self.shared)),
            f"{_PREFIX}BRIEF": "1" if self.brief else "",
            f"{_PREFIX}DUMP": str(self.dump or ""),
            f"{_PREFIX}WHOLE": str(self.whole or ""),
            f"{_PREFIX}EVALUATION": "1" if self.evaluation else "",
            f"{_PREFIX}LANG": self.lang,
        }


def settings(environment: Mapping[str, str] = os.environ) -> RecordingSettings | None:
    """The settings of this process; None when nothing is to be recorded."""
    folder = environment.get(f"{_PREFIX}FOLDER")
    if not folder:
        return None
    return RecordingSettings(
        folder=Path(folder),
        project=Path(environment[f"{_PREFIX}PROJECT"]),
        steps=int(environment[f"{_PREFIX}STEPS"]),
        gpus=int(environment[f"{_PREFIX}GPUS"]),
        rounding=int(environment[f"{_PREFIX}ROUNDING"]),
        coarse=tuple(filter(None, environment[f"{_PREFIX}COARSE"].split(","))),
        shared=environment[f"{_PREFIX}SHARED"] == "1",
        brief=bool(environment[f"{_PREFIX}BRIEF"]),
        dump=Path(environment[f"{_PREFIX}DUMP"]) if environment[f"{_PREFIX}DUMP"] else None,
        whole=Path(environment[f"{_PREFIX}WHOLE"]) if environment[f"{_PREFIX}WHOLE"] else None,
        evaluation=bool(environment[f"{_PREFIX}EVALUATION"]),
        lang=environment[f"{_PREFIX}LANG"],
    )
