"""Rules for what CUDA alone has: a condition that guards nothing else stays, and an NPU takes the other branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from gpu2npu.rulebook.expression import compile_problem
from gpu2npu.rulebook.match import Evidence, Json, Match

_PATTERNS = {
    "library": "the name of a package that is imported, or whose functions are called",
    "module": "a part of the name of a compiled module, or of a function of one",
    "member": "the name of a function, method or class that is called, or of a member of an enumeration",
    "feature": "the name of an option that a program switches off where there is no CUDA",
    "source": "a whole text: a source file, a setting of the compiler, an option of a library",
    "sources": "a name or key that holds such texts, where its value is not in the project",
    "refusal": "what is said where a program ends without CUDA",
    "capability": "the qualified name of a function, or the name of an attribute, that tells how capable a GPU is",
    "program": "the name of a program that a function named for NVIDIA asks",
    "tried": "the name of a package whose kernels a program tries for tensors on CUDA, and can do without",
}


class CudaOnlyMatch(Match, frozen=True):
    """Nothing by itself: it says what CUDA alone has. A condition for CUDA that guards only this stays, and the NPU
    takes the other branch. Regular expressions say what shows it: a `library` or compiled `module`, a `member` that
    is called, a `feature` that a program switches off without CUDA, a `source` of a build, a `refusal`, a question
    for the GPU's `capability`, a package whose kernels are `tried` and that the program can do without; a
    variable's name decides nothing."""

    cuda_only: str
    library: str | None = None
    module: str | None = None
    member: str | None = None
    feature: str | None = None
    source: str | None = None
    sources: str | None = None
    refusal: str | None = None
    capability: str | None = None
    program: str | None = None
    tried: str | None = None

    key = "cuda_only"
    shape: ClassVar[Json] = {
        "cuda_only": {
            "description": "What CUDA alone has, in a word. A condition that asks for CUDA and guards only this stays "
            "as it is, and the NPU takes the other branch. The names of variables decide nothing.",
            "type": "string",
            "minLength": 1,
        },
        **{
            name: {"description": f"A regular expression for {text}.", "type": "string", "format": "regex"}
            for name, text in _PATTERNS.items()
        },
    }
    actions = ()
    starter: ClassVar[Json] = {
        "$comment": "What CUDA alone has: code for it that a condition guards stays CUDA's, and so does the condition.",
        "why": "fastlib has its kernels for CUDA alone; what our code does without them runs on an NPU.",
        "match": {"cuda_only": "fastlib", "library": "^fastlib$", "refusal": "\\bfastlib\\b"},
        "then": {"keep": True},
        "examples": [
            {"keep": "import torch\n\nif torch.cuda.is_available():\n    import fastlib\n\n    fastlib.install()\n"},
        ],
    }

    @property
    def evidence(self) -> Evidence | None:
        """None: the rule is asked about code that other rules match."""
        return None

    @property
    def cuda_only_patterns(self) -> Mapping[str, str]:
        return {name: pattern for name in _PATTERNS if (pattern := getattr(self, name)) is not None}

    @property
    def text(self) -> str:
        return f"conditions for CUDA that guard what is for {self.cuda_only} alone"

    @property
    def subject(self) -> str:
        return f"CUDA only: {self.cuda_only}"

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        given = {name: entry["match"][name] for name in _PATTERNS if name in entry["match"]}
        if not given:
            yield "match", f"needs one of {', '.join(_PATTERNS)}: what shows it in the code"
        for name, pattern in given.items():
            if (problem := compile_problem(pattern)) is not None:
                yield f"match.{name}", f"{pattern!r} {problem}"
