"""Objects that have as attributes or keys what a file of data holds: the file and the code are renamed both, or
neither."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

# Code that makes `conf` of a file, each behind its name.
HOLDERS = dict(
    re.findall(r"^# ([^\n]*)\n(.*?\n)(?=\n|\Z)", Path(__file__).with_name("holders.txt").read_text(), re.M | re.S)
)


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("is_used", [True, False])
def test_what_an_object_holds_of_a_file_is_renamed_with_the_code_or_stays(after, name: str, is_used: bool) -> None:
    text, code = '{"where": "cuda"}', f"import json, torch\n{HOLDERS[name]}if conf.where == 'cuda': print(1)\n"
    used = "x = torch.ones(1, device=conf.where)\n" if is_used else ""
    found = after(c_json=text, t_py=code + used)
    is_renamed = is_used and not name.endswith(", lost")
    assert ("== 'npu'" in found["t.py"][0], found["c.json"][0] != text) == (is_renamed, is_renamed)
    assert is_renamed or found["c.json"][1] or found["t.py"][1]


@pytest.mark.parametrize(
    ("text", "key", "is_followed"),
    [
        ("a: &a\n  - cuda\n  - cpu\nb:\n  on: *a\n", "c['b']['on'][0]", True),
        ("a: &a [cuda, cpu]\non: *a\n", "c['on'][0]", True),
        ("a: &a\n  - on: cuda\nb: *a\n", "c['b'][0]['on']", True),
        ("a: &a\n  on: cuda\n  self: *a\n", "c['a']['self']['on']", False),
    ],
)
def test_lists_that_yaml_takes_from_elsewhere_are_renamed_with_the_code(
    after, text: str, key: str, is_followed: bool
) -> None:
    code = f"import torch, yaml\nc = yaml.safe_load(open('c.yaml'))\nif {key} == 'cuda': print(1)\n"
    found = after(c_yaml=text, t_py=f"{code}x = torch.ones(1).to({key})\n")
    assert ("== 'npu'" in found["t.py"][0], found["c.yaml"][0] != text) == (is_followed, is_followed)
    assert is_followed or found["t.py"][1]


LOADED = "import json, torch\nconf = json.load(open('c.json'))\n"


@pytest.mark.parametrize(
    "use",
    [
        "if conf['device'].upper() == 'CUDA': print(1)\n",
        "sizes = {'CUDA': 8, 'CPU': 1}\nx = torch.ones(sizes[conf['device'].upper()]).to(conf['device'])\n",
        "import jax\nd = jax.devices(conf['device'])\n",
        "sizes = {'cuda': 8, 'cpu': 1}\njson.dump(sizes, open('s.json', 'w'))\nx = torch.ones(sizes[conf['device']])\n",
    ],
)
def test_a_use_that_contradicts_stops_a_key_that_names_a_device(after, use: str) -> None:
    text = '{"device": "cuda"}'
    found = after(c_json=text, t_py=LOADED + use)
    assert (found["c.json"], found["t.py"][0]) == ((text, [1]), LOADED + use)


@pytest.mark.parametrize(
    "use",
    [
        "",
        "foo(conf['device'])\n",
        "log = open(f'{conf[\"device\"]}.txt')\n",
        "if conf['device'] == 'npu': import torch_npu\nelif conf['device'] == 'cuda': print(1)\n",
    ],
)
def test_a_key_that_names_a_device_decides_where_no_use_contradicts(after, use: str) -> None:
    assert after(c_json='{"device": "cuda"}', t_py=LOADED + use)["c.json"] == ('{"device": "npu"}', [])


def test_what_the_python_of_a_configuration_gives_is_what_evaluating_it_gives(after) -> None:
    code = "import json, re, torch\nconf = json.load(open('c.json'))\n"
    code += "class Made:\n    def __init__(self, texts): self.texts = texts\n"
    code += "    def __getitem__(self, key): return eval(re.sub('@', 'made.', self.texts[key][1:]))\n"
    code += "made = Made(conf)\nif made['kind'] == 'cuda': print(1)\n"
    text = '{"device": "$torch.device(\'cuda\')", "kind": "$@device.type"}'
    found = after(c_json=text, t_py=code)
    assert (found["c.json"][0], "== 'npu'" in found["t.py"][0]) == (text.replace("cuda", "npu"), True)


@pytest.mark.parametrize(("name", "is_read"), [("pixi_toml", False), ("c_yaml", True)])
def test_a_text_in_a_file_that_a_reader_cannot_read_is_no_value(after, name: str, is_read: bool) -> None:
    code = (
        "import sys, yaml\nc = yaml.safe_load(open(sys.argv[1]))\n"
        "def f(device_type): return 1 if device_type == 'cuda' else 2\nf(c['kind'])\n"
    )
    text = '[tools]\ncuda = "11.8"\n' if name == "pixi_toml" else "tools:\n  cuda: 11\n"
    assert ("'npu'" in after(**{name: text}, t_py=code)["t.py"][0]) is not is_read
