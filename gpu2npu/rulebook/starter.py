"""Rule files to start from, one for each kind of match: complete, with examples that pass."""

from __future__ import annotations

import json
from typing import Any

from gpu2npu.rulebook.builtin import SCHEMA_NAME

_COMMENT = [
    "A rule file of gpu2npu. JSON has no comments: what stands under $comment is for readers.",
    "Try it with `gpu2npu rules test FILE`, use it with `gpu2npu -i SRC -o OUT -v VERSION -r FILE`.",
    "Change the rule below into yours: what it matches, what then happens, why, and examples that prove it.",
]

# The parts of a rule that depend on the kind of match, the comment among them.
_STARTERS: dict[str, dict[str, Any]] = {
    "name": {
        "$comment": "A function, class or module by its full name, in whatever way files import it.",
        "why": "Our kernels have an Ascend build under another name.",
        "match": {"name": "fastlib.gpu.fused_norm"},
        "then": {"rename": "fastlib.npu.fused_norm"},
        "examples": [
            {
                "before": "from fastlib.gpu import fused_norm\ny = fused_norm(x)\n",
                "after": "from fastlib.npu import fused_norm\ny = fused_norm(x)\n",
            },
            {"keep": "def fused_norm(x): ...\ny = fused_norm(x)\n"},
        ],
    },
    "method": {
        "$comment": "A method by its name alone; objects of a class of the project that defines it are left out.",
        "why": "Our wrappers move to the NPU with another method.",
        "match": {"method": "to_gpu"},
        "then": {"rename": "to_npu"},
        "examples": [{"before": "batch = batch.to_gpu()\n", "after": "batch = batch.to_npu()\n"}],
    },
    "attribute": {
        "$comment": "An attribute that is read, by its name alone.",
        "why": "Our wrappers tell the device by another attribute.",
        "match": {"attribute": "on_gpu"},
        "then": {"rename": "on_npu"},
        "examples": [{"before": "if batch.on_gpu: ...\n", "after": "if batch.on_npu: ...\n"}],
    },
    "string": {
        "$comment": 'A whole string. With "role": "device" only where it means a device.',
        "why": "Our launcher calls the NPU partition by another name.",
        "match": {"string": "gpu-partition"},
        "then": {"rename": "npu-partition"},
        "examples": [{"before": "submit('gpu-partition')\n", "after": "submit('npu-partition')\n"}],
    },
    "pattern": {
        "$comment": "A part of any string, by a regular expression; \\1 in rename is its first group.",
        "why": "Our images are built for CANN under another tag.",
        "match": {"pattern": "team/train:cu\\d+"},
        "then": {"rename": "team/train:cann"},
        "examples": [{"before": "image = 'team/train:cu118'\n", "after": "image = 'team/train:cann'\n"}],
    },
    "call": {
        "$comment": "A call as a whole: {0} and {name} in replace are its arguments, {args} all of them.",
        "why": "On the NPU the communicator is made by another function, which takes the rank first.",
        "match": {"call": "fastlib.init_nccl"},
        "then": {"replace": "fastlib.init_hccl({rank}, {0})"},
        "examples": [
            {
                "before": "import fastlib\nfastlib.init_nccl(size, rank=3)\n",
                "after": "import fastlib\nfastlib.init_hccl(3, size)\n",
            }
        ],
    },
    "argument": {
        "$comment": "An argument of a call, by keyword or by position counted from 0.",
        "why": "The NPU build has no graph capture.",
        "match": {"argument": "cuda_graph", "of": "fastlib.compile"},
        "then": {"remove": True},
        "examples": [
            {
                "before": "import fastlib\nfastlib.compile(net, cuda_graph=True)\n",
                "after": "import fastlib\nfastlib.compile(net)\n",
            }
        ],
    },
    "import": {
        "$comment": "An import of a package: here only reported, with what to do about it.",
        "why": "The package has CUDA kernels alone.",
        "match": {"import": "fastlib_cuda", "distributions": ["fastlib-cuda"]},
        "then": {"report": {"kind": "unsupported", "message": "Use fastlib_ascend, version 2 or later."}},
        "examples": [{"keep": "import fastlib_cuda\n", "reports": "unsupported"}],
    },
    "environment": {
        "$comment": "An environment variable, in Python and in scripts.",
        "why": "The library reads another variable on the NPU.",
        "match": {"environment": "FASTLIB_CUDA_CACHE"},
        "then": {"rename": "FASTLIB_NPU_CACHE"},
        "examples": [
            {
                "before": "import os\nos.environ['FASTLIB_CUDA_CACHE'] = '/tmp'\n",
                "after": "import os\nos.environ['FASTLIB_NPU_CACHE'] = '/tmp'\n",
            }
        ],
    },
    "command": {
        "$comment": "A program that scripts run. Where Python runs it, it is reported: its output may be read.",
        "why": "The monitor of our cluster has another name on NPU nodes.",
        "match": {"command": "gpu-watch"},
        "then": {"rename": "npu-watch"},
        "examples": [{"keep": "import subprocess\nsubprocess.run(['gpu-watch', '-n', '1'])\n", "reports": "review"}],
    },
}
KINDS = tuple(_STARTERS)


def starter(rule_id: str, kind: str) -> str:
    """The text of a rule file with one rule of a kind of match."""
    rule = {"id": rule_id, **_STARTERS[kind]}
    document = {"$schema": f"./{SCHEMA_NAME}", "$comment": _COMMENT, "rules": [rule]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
