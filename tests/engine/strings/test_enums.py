"""A member of an Enum and what it is compared with are renamed together, or neither."""

import pytest

KIND = "from enum import Enum\nclass Kind(str, Enum):\n    CPU = 'cpu'\n    CUDA = 'cuda'\n"
COMPARED = {
    "a value": "def f(kind: Kind):\n    return kind.value == 'cuda'\n",
    "a member": "def f(kind: Kind):\n    return kind == 'cuda'\n",
    "a member by name": "FIRST = Kind.CUDA.value != 'cuda'\n",
    "a member by value": "kind = Kind('cuda')\nprint(kind == 'cuda')\n",
    "a text in a list with a member": "def f(kind):\n    return kind in ('cuda', Kind.CUDA)\n",
}


@pytest.mark.parametrize("code", COMPARED.values(), ids=COMPARED)
def test_what_is_of_an_enum_is_judged_by_it(project, code):
    files = {"kinds.py": KIND, "a.py": f"from kinds import Kind\n{code}"}
    results = project(files)
    for path, text in files.items():
        assert results[path].content is not None and results[path].content.decode() == text.replace("cuda'", "npu'")


@pytest.mark.parametrize("test", ["kind.value == 'cuda'", "kind == 'cuda'"])
def test_a_member_stays_where_what_it_may_be_compared_with_stays(project, test):
    code = f"from kinds import Kind\ndef f(kind):\n    return {test}\nprint(Kind('cuda'))\n"
    results = project({"kinds.py": KIND, "a.py": code})
    assert [results[path].content for path in ("kinds.py", "a.py")] == [None, None]
    assert [len(results[path].findings) for path in ("kinds.py", "a.py")] == [1, 2]


def test_a_text_stays_beside_a_member_of_an_enum_that_has_one_for_the_npu(project):
    code = "from kinds import Kind\ndef f(device):\n    return device in ('cuda', Kind.CUDA)\n"
    results = project({"kinds.py": f"{KIND}    NPU = 'npu'\n", "a.py": code})
    assert [results[path].content for path in ("kinds.py", "a.py")] == [None, None]
