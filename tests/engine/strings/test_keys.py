"""Keys of flags are silent only where their table is read by what is written out."""

from __future__ import annotations

import pytest

from gpu2npu.engine import ProjectContext, migrate_source, scan_project


@pytest.mark.parametrize("read", ["T[x.device.type]", "T.get(x.device.type)", "[k for k, v in T.items() if v]"])
def test_a_flag_whose_table_is_read_under_other_keys_is_reported_or_edited(rulebook, read: str) -> None:
    text = f"T = {{}}\nT['cuda'] = 1 > 0\nT['seed'] = 3\ndef f(x): return {read}\n"
    found = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    assert found.findings or b"npu" in (found.content or b"")


def test_a_flag_that_is_read_by_its_name_stays_without_a_word(rulebook) -> None:
    text = "T = {'cuda': True, 'seed': 1}\nif T['cuda']: print(T['seed'])\n"
    found = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    assert (found.content, found.findings) == (None, ())


@pytest.mark.parametrize(
    ("flag", "last", "is_found"), [(True, "show(**T)", False), (True, "show(T)", True), ("Cuda", "show(**T)", True)]
)
def test_a_flag_in_a_table_that_is_unpacked_has_the_name_of_a_parameter(rulebook, flag, last, is_found) -> None:
    text = f"T = {{'cuda': {flag}, 'seed': 1}}\ndef f(name): return T[name] if name in T else 'none'\n{last}\n"
    text += "def show(**given): print(given)\n"
    found = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    assert (found.content, bool(found.findings)) == (None, is_found)


def test_a_state_beside_others_stays_where_it_is_saved_and_where_it_is_read(rulebook) -> None:
    files = {
        "keep.py": "import torch\nS = {}\nS['python'] = f()\nS['cuda'] = g()\ntorch.save({'all': S}, 'a')\n",
        "read.py": "import torch\ns = torch.load('a', 'cpu')['all']\nf(s['python'])\ng(s['cuda'])\n",
        "other.py": "import torch\ns = torch.load('a', 'cpu')\ng(s['cuda'])\n",
    }
    sources = {name: text.encode() for name, text in files.items()}
    context = scan_project(sources, rulebook, "2.1.0", sources.__getitem__)
    found = {name: migrate_source(sources[name], name, rulebook, context) for name in files}
    assert {name: any("cuda" in one.api for one in each.findings) for name, each in found.items()} == {
        "keep.py": False,
        "read.py": False,
        "other.py": True,
    }


def test_a_key_of_what_is_not_known_is_named_as_one(rulebook) -> None:
    text = (
        "import torch\ndef f(options, device):\n    return torch.ones(2, device=device) if options['cuda'] else None\n"
    )
    (found,) = migrate_source(text.encode(), "a.py", rulebook, ProjectContext()).findings
    assert "what it is a key of in a.py:3 is not known" in found.message
    text = text.replace("options['cuda']", "options == 'cuda'")
    (found,) = migrate_source(text.encode(), "a.py", rulebook, ProjectContext()).findings
    assert "what it is compared with in a.py:2 is not known" in found.message


KEYS_OF_OWN = [
    "s = {'torch.cuda.initial_seed': 1}\nsave(s)\nn = load()['torch.cuda.initial_seed']\n",
    "def f(s):\n    if 'torch.cuda.memory' in s:\n        print(s['torch.cuda.memory'])\n",
]


@pytest.mark.parametrize(
    "modules", ["import sys\nm = sys.modules", "import sys as s\nm = s.modules", "from sys import modules as m"]
)
def test_the_name_of_a_module_as_a_key_of_sys_modules(migrate, modules: str) -> None:
    text = "a = m['torch.cuda.amp']\nif 'torch.cuda.amp' in m: ...\n"
    assert migrate(f"{modules}\n{text}").endswith(text.replace("cuda", "npu"))


@pytest.mark.parametrize("text", KEYS_OF_OWN)
def test_names_of_functions_as_keys_that_are_read_as_they_are_written(migrate, text: str) -> None:
    assert migrate(text) == text


def test_names_of_types_as_keys_that_are_looked_up_by_a_type(migrate) -> None:
    text = "s = {'torch.cuda.HalfTensor': 2}\ndef f(x):\n    return s[x.type()], s['torch.cuda.HalfTensor']\n"
    assert migrate(text) == text.replace("cuda", "npu")
