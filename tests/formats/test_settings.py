import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.formats import dispatch

CASES = [
    ("c.yaml", "device: cuda  # or cpu\n", "device: npu  # or cpu\n"),
    ("c.yaml", "model:\n  map_location: 'cuda:0'\n", "model:\n  map_location: 'npu:0'\n"),
    ("c.yml", 'train: {device: "cuda", backend: nccl}\n', 'train: {device: "npu", backend: hccl}\n'),
    ("c.yaml", "devices: [cuda:0, cuda:1]\n", "devices: [npu:0, npu:1]\n"),
    ("c.yaml", "devices:\n- cpu\n- cuda\n", "devices:\n- cpu\n- npu\n"),
    ("c.yaml", "a: &d\n  device: cuda\nb: *d\n", "a: &d\n  device: npu\nb: *d\n"),
    ("c.yaml", "device: cuda:${rank}\n", "device: npu:${rank}\n"),
    ("c.yaml", "env_cfg:\n  dist_cfg: {backend: nccl}\n", "env_cfg:\n  dist_cfg: {backend: hccl}\n"),
    ("c.yaml", "args: [--device, cuda, --lr, 1]\n", "args: [--device, npu, --lr, 1]\n"),
    (
        "c.yaml",
        "args:\n  - --device=cuda\n  - trainer.device=cuda\n",
        "args:\n  - --device=npu\n  - trainer.device=npu\n",
    ),
    ("k.yaml", "env:\n- name: CUDA_VISIBLE_DEVICES\n  value: '0'\n", None),
    (
        "k.yaml",
        "env:\n- name: DEVICE\n  value: cuda\n- {name: run, value: cuda-12}\n",
        "env:\n- name: DEVICE\n  value: npu\n- {name: run, value: cuda-12}\n",
    ),
    (".gitlab-ci.yml", "t:\n  script:\n    - nvidia-smi\n", "t:\n  script:\n    - npu-smi info\n"),
    ("k.yaml", "env: {CUDA_VISIBLE_DEVICES: 0}\n", None),
    ("k.yaml", "x: ${oc.env:CUDA_VISIBLE_DEVICES}\n", None),
    ("c.yaml", "device: ${oc.env:DEVICE,cuda}\n", "device: ${oc.env:DEVICE,npu}\n"),
    ("c.yaml", 'backend: "${BACKEND:-nccl}"\n', 'backend: "${BACKEND:-hccl}"\n'),
    ("w.yml", "steps:\n- run: |\n    export CUDA_VISIBLE_DEVICES=0\n    echo $CUDA_VISIBLE_DEVICES\n", None),
    (
        "w.yml",
        "steps:\n- run: |\n    cat > a.sh <<EOF\n    it's\n    EOF\n\n    t --device cuda\n  x: 1\n",
        "steps:\n- run: |\n    cat > a.sh <<EOF\n    it's\n    EOF\n\n    t --device npu\n  x: 1\n",
    ),
    ("w.yml", "steps:\n- run: python t.py --device cuda\n", "steps:\n- run: python t.py --device npu\n"),
    ("c.json", '{"device": "cuda",\t"x":1}', '{"device": "npu",\t"x":1}'),
    ("c.json", '{"a": [{"backend" : "cpu:gloo,cuda:nccl"}]}\n', '{"a": [{"backend" : "cpu:gloo,npu:hccl"}]}\n'),
    ("launch.json", '{"args": ["--device", "cuda"], // c\n}', '{"args": ["--device", "npu"], // c\n}'),
    ("c.json", '{"d\\u0065vice": "cuda:\\u0030"}', '{"d\\u0065vice": "npu:\\u0030"}'),
    ("c.toml", "[train]\ndevice = 'cuda' # c\n", "[train]\ndevice = 'npu' # c\n"),
    ("c.toml", 'train.device = "cuda:0"\n', 'train.device = "npu:0"\n'),
    ("c.cfg", "[train]\ndevice = cuda ; c\nbackend: nccl\n", "[train]\ndevice = npu ; c\nbackend: hccl\n"),
    ("tox.ini", "[testenv]\nsetenv =\n    CUDA_VISIBLE_DEVICES=0\n", None),
]


@pytest.mark.parametrize(("path", "before", "after"), CASES)
def test_changed(migrated, path: str, before: str, after: str | None) -> None:
    expected = after or before.replace("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
    assert migrated(before, path) == expected


UNCHANGED = [
    ("c.yaml", "description: trains on cuda\nname: cuda\ntags: [cuda, nccl]\n"),
    ("c.yaml", "# device: cuda\ncuda: true\nno_cuda: false\npath: csrc/cuda\n"),
    ("c.yaml", "devices: [cuda, npu]\n"),
    ("c.json", '{"file": "cuda.json", "cuda": {"nccl": 1}}'),
    ("pyproject.toml", '[project]\nkeywords = ["cuda", "pytorch"]\n'),
    ("pyproject.toml", '[tool.uv]\nconflicts = [[{ extra = "cpu" }, { extra = "cuda" }], [{ group = "cuda" }]]\n'),
    ("package-lock.json", '{"device": "cuda"}'),
    (".github/ISSUE_TEMPLATE/bug.yml", "body:\n  - placeholder: torch==2.3.0+cu121 on Linux\n"),
    ("data.jsonl", '{"device": "cuda"}\n'),
]


@pytest.mark.parametrize(("path", "text"), UNCHANGED)
def test_unchanged(migrate, path: str, text: str) -> None:
    result = migrate(text, path)
    assert (result.content, result.findings) == (None, ())


FINDINGS = [
    ("c.yaml", "mode: cuda\n", "device-string"),
    ("c.yaml", "trainer: {accelerator: gpu}\n", "lightning-accelerator"),
    ("c.yaml", "env_cfg:\n  cudnn_benchmark: true\n", "config-cudnn-benchmark"),
    ("c.json", '{"attn_implementation": "flash_attention_2"}', "flash-attention-2"),
    ("pod.yaml", "limits: {nvidia.com/gpu: 1}\n", "kubernetes-gpu"),
    ("compose.yaml", "services: {a: {runtime: nvidia}}\n", "config-runtime-nvidia"),
    ("compose.yaml", "environment: [NCCL_DEBUG=INFO]\n", "env-nccl-debug"),
    ("broken.yaml", "a: [\ndevice: cuda\n", "device-string"),
    ("broken.json", '{"device": "cuda"', "device-string"),
    ("template.yaml", "{% if x %}\ndevice: cuda\n{% endif %}\n", "device-string"),
]


@pytest.mark.parametrize(("path", "text", "rule"), FINDINGS)
def test_reported_and_unchanged(migrate, path: str, text: str, rule: str) -> None:
    result = migrate(text, path)
    assert (result.content, result.failure) == (None, None)
    assert rule in {finding.rule for finding in result.findings}


def test_a_large_file_is_searched_only(migrate, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps({"x": ["filler"] * 1_000, "device": "cuda"})
    assert migrate(data, "data.json").content is not None
    monkeypatch.setattr(dispatch, "LARGEST", len(data) - 1)
    result = migrate(data, "data.json")
    assert result.content is None and "too large" in result.findings[0].message


def test_a_long_list_takes_steps_in_proportion_to_its_length(migrate, steps) -> None:
    def tokenizer(length: int) -> str:
        return json.dumps({"merges": [f"a{number} b" for number in range(length)], "device": "cuda"})

    assert migrate(tokenizer(4_000), "tokenizer.json").content is not None
    few, many = (steps(migrate, tokenizer(length), "tokenizer.json") for length in (1_000, 4_000))
    assert many < 4.1 * few


KEYS = st.sampled_from(["device", "model_device", "backend", "name", "cuda", "lr", "x"])
WORDS = st.sampled_from(["cuda", "cuda:1", "nccl", "cpu", "gloo", "a cuda b", "täst", ""])
TREES = st.recursive(
    WORDS | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
).filter(lambda value: isinstance(value, dict))


def renamed(value: object, key: str = "") -> object:
    """Return what a migration is to make of a tree, written out plainly."""
    if isinstance(value, dict):
        return {inner: renamed(under, inner) for inner, under in value.items()}
    if isinstance(value, list):
        return [renamed(item, key) for item in value]
    if key in ("device", "model_device") and value in ("cuda", "cuda:1"):
        return str(value).replace("cuda", "npu")
    if value == "cuda:1" and key not in ("name", ""):
        return "npu:1"
    return "hccl" if key == "backend" and value == "nccl" else value


@given(TREES, st.sampled_from(["json", "yaml"]))
def test_only_the_values_for_devices_and_backends_differ(migrated, tree: dict[str, object], language: str) -> None:
    if language == "json":
        text = json.dumps(tree, ensure_ascii=False, indent=1)
        assert json.loads(migrated(text, "c.json")) == renamed(tree)
    else:
        text = "# top\n" + yaml.safe_dump(tree, allow_unicode=True)
        assert yaml.safe_load(migrated(text, "c.yaml")) == renamed(tree)
