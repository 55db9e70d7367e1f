"""The outcome of one entry of a table, as workers report it and the JSON file keeps it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """One operator, module or optimizer in one mode and dtype."""

    suite: str  # op_db, module_db, optim_db
    mode: str  # normal, strict
    dtype: str  # float32, float16, bfloat16
    name: str
    passed: bool
    reason: str  # empty when it passed
    samples: int  # sample inputs compared, forward
    gradients: int  # sample inputs whose gradients were compared
    random: bool  # its results differ from seed to seed: judged by properties, not by values
    by_wider: bool  # some values differ from the CPU's and are as right by the CPU's in the next wider dtype
    borrowed: tuple[str, ...]  # operators that torch's CPU code computed
    seconds: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key that identifies an outcome."""
        return self.suite, self.mode, self.dtype, self.name


def decode(line: str) -> Outcome:
    """An outcome from the JSON object that `encode` made."""
    values = json.loads(line)
    return Outcome(**{**values, "borrowed": tuple(values["borrowed"])})


def encode(outcome: Outcome) -> str:
    """An outcome as a JSON object on one line."""
    return json.dumps(asdict(outcome))


def save(outcomes: Iterable[Outcome], path: Path) -> None:
    """Write outcomes as a JSON list, one to a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(map(encode, outcomes)) + "\n]\n", encoding="utf-8")


def read(path: Path) -> list[Outcome]:
    """The outcomes of a file that `save` wrote."""
    return [Outcome(**{**each, "borrowed": tuple(each["borrowed"])}) for each in json.loads(path.read_text("utf-8"))]
