"""What becomes of a torch API on the NPU: one verdict for a public name in a release of torch_npu, with its evidence.

Reads data only, and imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpu2npu.support.tables import table_for


class VerdictKind(str, Enum):
    """What a call of an API does on the NPU, best first. FALLBACK is slow, UNSUPPORTED raises."""

    NATIVE = "native"
    COMPOSITE = "composite of native"
    FALLBACK = "falls back to CPU"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """What is known of `api`; `evidence` is a sentence that names the release, `advice` what to do instead."""

    api: str
    kind: VerdictKind
    evidence: str
    advice: str = ""


def is_torch_api(api: str) -> bool:
    """Whether `api` ("torch.Tensor.scatter_add_") is a public name of torch or torch_npu, in any release known."""
    return api.partition(".")[0] in ("torch", "torch_npu") and not any(
        part.startswith("_") and not part.endswith("__") for part in api.split(".")
    )


def verdict(api: str, version: str) -> Verdict:
    """The verdict for a qualified public name, as code resolves it, with torch_npu for PyTorch `version`.

    A name of torch or torch_npu that the data do not have is UNKNOWN, and so is every other name. Raises ValueError
    when `version` is not one of tables.VERSIONS.
    """
    table = table_for(version)
    return Verdict(api, VerdictKind.UNKNOWN, f"nothing is known of {api} ({table.evidence})")
