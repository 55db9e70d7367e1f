"""Files of data that programs read: a device in them and what code does with it are renamed in both, or in neither."""

from __future__ import annotations

import pytest

JSON = '{"kinds": {"cuda": 2, "cpu": 1}}'
LOADED = 'import json, torch\nkinds = json.load(open("c.json"))["kinds"]\n'


@pytest.mark.parametrize(
    "use",
    [
        "for kind, n in kinds.items():\n    if kind == 'cuda': torch.ones(n).to(kind)\n",
        "[torch.ones(1, device=kind) for kind in kinds if kind != 'cuda']\n",
        "n = kinds.get(torch.device('cuda:1').type) or kinds['cuda']\n",
        "def f(table, x): return 'cuda' in table and table[x.device.type]\nf(kinds, torch.ones(1))\n",
    ],
)
def test_keys_that_are_used_as_devices_are_renamed_with_the_code_that_names_them(after, use: str) -> None:
    found = after(c_json=JSON, t_py=LOADED + use)
    assert found["c.json"][0] == JSON.replace("cuda", "npu")
    assert "cuda" not in found["t.py"][0].replace("torch.cuda", "")


@pytest.mark.parametrize(
    "use",
    [
        "for device, n in kinds.items():\n    if device == 'cuda': print(n)\n",
        "if 'cuda' in kinds: print(kinds['cuda'])\n",
        "limit = kinds.get('cuda', 3)\n",
    ],
)
def test_keys_whose_use_is_not_known_stay_with_the_code_that_names_them(after, use: str) -> None:
    found = after(c_json=JSON, t_py=LOADED + use)
    assert (found["c.json"][0], found["t.py"][0]) == (JSON, LOADED + use)
    assert found["t.py"][1]


def test_a_value_that_a_program_uses_as_a_device_is_renamed_whatever_its_key(after) -> None:
    code = "import yaml, torch\ncfg = yaml.safe_load(open('a/c.yaml'))\nx = torch.ones(2).to(cfg['net']['where'])\n"
    compared = "if cfg['net']['where'].startswith('cuda'): print(x)\n"
    found = after(c_yaml="net:\n  where: cuda:0\n  title: cuda\n", t_py=code + compared)
    assert found["c.yaml"][0] == "net:\n  where: npu:0\n  title: cuda\n"
    assert "startswith('npu')" in found["t.py"][0]


def test_choices_that_a_file_gives_are_renamed_with_the_default(after) -> None:
    code = "import argparse, json, torch\np = argparse.ArgumentParser()\n"
    code += "p.add_argument('--on', choices=json.load(open('c.json'))['on'], default='cuda')\n"
    found = after(c_json='{"on": ["cuda", "cpu"]}', t_py=code + "x = torch.ones(1).to(p.parse_args().on)\n")
    assert found["c.json"][0] == '{"on": ["npu", "cpu"]}'
    assert "default='npu'" in found["t.py"][0]


@pytest.mark.parametrize(
    "called",
    ["{cls}: net.Net\n  {given}", "a:\n    target: net.Net\n    params:\n      {given}",
     "- class_path: net.Net\n    init_args: {{{given}}}"],
)  # fmt: skip
def test_arguments_of_what_a_file_names_are_followed_into_it(after, called: str) -> None:
    code = "import torch\nclass Net:\n    def __init__(self, n, where='cpu'):\n        torch.ones(n).to(where)\n"
    text = "net:\n  " + called.format(cls="_target_", given="where: cuda") + "\nother:\n  where: cuda\n"
    assert after(c_yaml=text, net_py=code)["c.yaml"][0] == text.replace("cuda", "npu", 1)


def test_code_is_compared_with_the_arguments_that_a_file_gives_it(after) -> None:
    code = (
        "import torch\ndef make(engine, n):\n    if engine == 'cuda':\n        return n\n    assert engine == 'cpu'\n"
    )
    found = after(c_yaml="_target_: app.make\nengine: cuda\nn: 1\n", app_py=code)
    assert found["c.yaml"][0] == "_target_: app.make\nengine: npu\nn: 1\n"
    assert "if engine == 'npu'" in found["app.py"][0]


def test_a_file_that_no_program_names_is_only_reported(after) -> None:
    code = "import json, sys, torch\nconf = json.load(open(sys.argv[1]))\nx = torch.ones(1).to(conf['where'])\n"
    compared = "if conf['where'] == 'cuda': print(x)\n"
    found = after(c_json='{"where": "cuda"}', t_py=code + compared)
    assert found["c.json"] == ('{"where": "cuda"}', [1])
    assert found["t.py"] == (code + compared, [4])


def test_a_file_that_knows_the_npu_stays(after) -> None:
    known = '{"kinds": {"cuda": 2, "npu": 1}}'
    found = after(c_json=known, t_py=LOADED + "x = [torch.ones(1).to(kind) for kind in kinds]\n")
    assert found["c.json"] == (known, [])


def test_keys_beside_other_devices_that_are_lost_sight_of_are_reported(after) -> None:
    reader = "import json\ndef load(path):\n    with open(path) as file:\n        return json.load(file)\n"
    code = "import torch\nfrom read import load\nconf = load('c.json')\n"
    code += "def pick(table, device): return table[device.type]\nn = pick(conf['a']['kinds'], torch.device('cuda'))\n"
    nested = f'{{"a": {JSON}}}'
    assert after(c_json=nested, read_py=reader, t_py=code)["c.json"] == (nested, [1])


def test_a_file_of_the_same_name_in_another_folder_is_not_the_one_that_is_read(after) -> None:
    code = 'import json, torch\nx = torch.ones(2).to(json.load(open("conf/c.json"))["impl"])\n'
    text = '{"impl": "cuda"}'
    found = after(**{"conf/c_json": text, "csrc/c_json": text, "t_py": code})
    assert [found[name][0] for name in ("conf/c.json", "csrc/c.json")] == [text.replace("cuda", "npu"), text]
    parts = code.replace('open("conf/c.json")', 'open(os.path.join("conf", "c.json"))').replace("json,", "json, os,")
    again = after(**{"conf/c_json": text, "csrc/c_json": text, "t_py": parts})
    assert [again[name][0] for name in ("conf/c.json", "csrc/c.json")] == [text.replace("cuda", "npu"), text]


def test_files_that_one_function_reads_for_different_uses_are_only_reported(after) -> None:
    load = "import json\ndef load(path): return json.load(open(path))\n"
    one = 'import torch\nfrom l import load\nx = torch.ones(2).to(load("a.json")["where"])\n'
    other = "from l import load\nprint(f\"https://example.com/{load('b.json')['where']}\")\n"
    text = '{"where": "cuda"}'
    found = after(a_json=text, b_json=text, l_py=load, o_py=one, p_py=other)
    assert (found["a.json"], found["b.json"]) == ((text, [1]), (text, [1]))


def test_a_reader_of_several_files_counts_beside_one_that_names_the_file_alone(after) -> None:
    named = 'import json, torch\nx = torch.ones(1).to(json.load(open("a.json"))["impl"])\n'
    shared = "import json\ndef load(path): return json.load(open(path))\n"
    other = 'import jax\nfrom l import load\nd = jax.devices(load("a.json")["impl"])\ne = load("b.json")\n'
    a, b = '{"impl": "cuda"}', '{"impl": "cpu cuda"}'
    found = after(a_json=a, b_json=b, m_py=named, l_py=shared, w_py=other)
    assert found["a.json"] == (a, [1])


def test_code_stays_where_the_file_is_one_of_too_many(after) -> None:
    code = 'import json, sys\ncfg = json.load(open(sys.argv[1]))\nif cfg["engine"] == "cuda": print(1)\n'
    files = {f"c{number}_json": '{"engine": "cuda"}' for number in range(41)}
    assert after(t_py=code, **files)["t.py"] == (code, [3])


@pytest.mark.parametrize(
    "head",
    [
        'from box import Box\ncfg = Box(yaml.safe_load(open("c.yaml")))\n',
        'from omegaconf import OmegaConf as O\ncfg = O.to_container(O.merge(O.create({}), O.load("c.yaml")))\n',
        'from collections import ChainMap\ncfg = ChainMap({}, yaml.safe_load(open("c.yaml")))\n',
    ],
)
def test_what_wraps_or_joins_what_was_read_has_the_same_values(after, head: str) -> None:
    use = 'x = torch.ones(1).to(cfg["on"])\nif cfg["on"] == "cuda": print(x)\n'
    found = after(c_yaml="on: cuda\n", t_py=f"import torch, yaml\n{head}{use}")
    assert found["c.yaml"][0] == "on: npu\n" and '== "npu"' in found["t.py"][0]


def test_a_text_that_other_places_take_by_its_anchor_stays_with_the_code(after) -> None:
    code = 'import torch, yaml\ncfg = yaml.safe_load(open("c.yaml"))\nx = torch.ones(1).to(cfg["on"])\n'
    code += 'if cfg["on"] == "cuda": print(cfg["name"])\n'
    text = "on: &n cuda\nname: *n\n"
    found = after(c_yaml=text, t_py=code)
    assert (found["c.yaml"], found["t.py"]) == ((text, [1]), (code, [4]))


READ = "json.load(open('c.json'))"


@pytest.mark.parametrize(
    "head",
    [
        f"class Table(dict):\n    def __getattr__(self, name): return self[name]\nconf = Table({READ})\n",
        "class Table(dict):\n    def __init__(self, *given):\n        super().__init__(*given)\n"
        f"        self.__dict__ = self\nconf = Table({READ})\n",
        "class Table:\n    def __init__(self, path):\n        for name, each in json.load(open(path)).items():\n"
        "            setattr(self, name, each)\nconf = Table('c.json')\n",
        f"class Table:\n    def __init__(self, table): self.__dict__.update(table)\nconf = Table({READ})\n",
        f"from types import SimpleNamespace\nconf = SimpleNamespace(**{READ})\n",
        "import argparse\nconf = argparse.ArgumentParser().parse_args()\n"
        f"for name, each in {READ}.items(): setattr(conf, name, each)\n",
        "from json import load as read\nfrom box import Box\nconf = Box(read(open('c.json')))\n",
        "from yacs.config import CfgNode\nconf = CfgNode()\nconf.merge_from_file('c.json')\n",
    ],
)
@pytest.mark.parametrize("is_used", [True, False])
def test_what_an_object_gets_from_a_file_is_renamed_with_the_code_or_stays(after, head: str, is_used: bool) -> None:
    text, code = '{"where": "cuda"}', f"import json, torch\n{head}if conf.where == 'cuda': print(1)\n"
    used = "x = torch.ones(1, device=conf.where)\n" if is_used else ""
    found = after(c_json=text, t_py=code + used)
    assert "== 'npu'" in found["t.py"][0] if is_used else found["t.py"][0] == code
    assert found["c.json"][0] == (text.replace("cuda", "npu") if is_used else text)
    assert is_used or found["c.json"][1]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("base: &b\n  on: cuda\nrun:\n  <<: *b\n  n: 3\n", "['run']['on']"),
        ("one: &a {n: 1}\nbase: &b\n  on: cuda\nrun:\n  <<: [*a, *b]\n", "['run']['on']"),
        ("base: &b\n  on: cuda\nrun: *b\n", "['run']['on']"),
        ("on: >-\n  cuda\n", "['on']"),
        ("on: |-\n  cuda\n", "['on']"),
    ],
)
def test_what_yaml_takes_from_elsewhere_is_renamed_with_the_code(after, text: str, key: str) -> None:
    code = f"import torch, yaml\nwith open('c.yaml') as file: c = yaml.safe_load(file)\nx = torch.ones(1).to(c{key})\n"
    found = after(c_yaml=text, t_py=code + f"if c{key} == 'cuda': print(x)\n")
    assert found["c.yaml"][0] == text.replace("cuda", "npu") and "== 'npu'" in found["t.py"][0]


def test_a_text_of_a_block_is_renamed_with_the_code_that_strips_it(after) -> None:
    code = "import torch, yaml\nc = yaml.safe_load(open('c.yaml'))['on'].strip()\nx = torch.ones(1).to(c)\n"
    found = after(c_yaml="on: |\n  cuda\n", t_py=code + "if c == 'cuda': print(x)\n")
    assert found["c.yaml"][0] == "on: |\n  npu\n" and "== 'npu'" in found["t.py"][0]


@pytest.mark.parametrize("key", ["device", "where"])
def test_code_whose_reader_has_a_name_of_the_project_follows_the_file(after, key: str) -> None:
    library = "import yaml\nread = yaml.safe_load\n"
    code = f"from u import read\nc = read(open('c.yaml'))\nif c['{key}'] == 'cuda': print(1)\n"
    found = after(c_yaml=f"{key}: cuda\n", u_py=library, t_py=code)
    assert ("npu" in found["c.yaml"][0]) == ("'npu'" in found["t.py"][0]) == (key == "device")


def test_a_program_of_hydra_names_its_file_without_an_ending(after) -> None:
    program = (
        'import hydra, torch\n@hydra.main(config_path=".", config_name="run")\n'
        "def main(conf):\n    torch.zeros(2, device=conf.card.near)\n"
    )
    found = after(run_yaml="card:\n  near: cuda\n", other_yaml="card:\n  near: cuda\n", t_py=program)
    assert found["run.yaml"][0] == "card:\n  near: npu\n"
    assert found["other.yaml"][0] == "card:\n  near: cuda\n"
