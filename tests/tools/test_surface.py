"""Reading a package's names from sources."""

import ast

import pytest

from gpu2npu.python.tree.syntax_tree import TreeError
from tools.wheel_facts.surface import read_surface


def surface_of(**modules: str) -> tuple[set[str], set[str]]:
    """Modules and names of a package `pkg.acc` with these modules; `amp_scaler` stands for `amp/scaler`."""
    modules = {
        name.replace("_", "/").replace("init", "__init__"): text for name, text in {"init": "", **modules}.items()
    }
    sources = {f"pkg/acc/{name}.py": text for name, text in modules.items()}
    surface = read_surface(sources, "pkg.acc")
    return set(surface.modules), set(surface.names)


def test_definitions_and_assignments_count():
    _, names = surface_of(init="class Stream: ...\ndef sync(): ...\nflag: bool = True\na, b = 1, 2\nlater: int\n")
    assert names == {f"pkg.acc.{name}" for name in ("Stream", "sync", "flag", "a", "b")}


def test_what_is_imported_from_elsewhere_is_not_the_packages_own():
    _, names = surface_of(init="import os\nfrom typing import Any\nfrom pkg.other import helper\nfrom .. import up\n")
    assert names == set()


def test_imports_from_the_package_count_by_their_alias():
    _, names = surface_of(init="from .streams import Stream as S\nfrom pkg.acc.streams import E\n", streams="S = E = 1")
    assert {"pkg.acc.S", "pkg.acc.E", "pkg.acc.streams.S", "pkg.acc.streams.E"} == names


def test_star_import_takes_all_or_else_the_public_names():
    _, names = surface_of(
        init="from .closed import *\nfrom .open import *\n",
        closed="__all__ = ['f', '_g']\ndef f(): ...\ndef _g(): ...\ndef h(): ...\n",
        open="def i(): ...\ndef _j(): ...\n",
    )
    assert {name for name in names if name.count(".") == 2} == {"pkg.acc.f", "pkg.acc._g", "pkg.acc.i"}


def test_star_import_of_an_empty_all_takes_nothing():
    _, names = surface_of(init="from .closed import *", closed="__all__ = []\ndef f(): ...\n")
    assert names == {"pkg.acc.closed.f"}


def test_star_imports_in_a_circle_end():
    _, names = surface_of(init="from .a import *", a="from .b import *\nx = 1", b="from .a import *\ny = 1")
    assert {"pkg.acc.x", "pkg.acc.y", "pkg.acc.b.x", "pkg.acc.a.y"} <= names


def test_underscored_functions_count_and_underscored_variables_do_not():
    _, names = surface_of(init="def _sleep(): ...\ndef __getattr__(name): ...\n_state = 0\n")
    assert names == {"pkg.acc._sleep"}


def test_submodules_and_packages_are_modules():
    modules, names = surface_of(init="from . import amp", amp_init="", amp_scaler="class Scaler: ...")
    assert modules == {"pkg.acc", "pkg.acc.amp", "pkg.acc.amp.scaler"}
    assert names == {"pkg.acc.amp.scaler.Scaler"}


def test_an_object_hides_the_submodule_it_comes_from():
    modules, names = surface_of(init="from .mstx import mstx", mstx="class mstx: ...")
    assert modules == {"pkg.acc"}
    assert names == {"pkg.acc.mstx"}


def test_an_object_hides_the_module_of_an_inner_package_too():
    modules, names = surface_of(ops_init="from .roll import roll", ops_roll="def roll(): ...\ndef other(): ...\n")
    assert modules == {"pkg.acc", "pkg.acc.ops"}
    assert names == {"pkg.acc.ops.roll"}


def test_what_only_functions_and_handlers_bind_does_not_count():
    source = "def f():\n    global state\n    state = 1\nfor each in (1, 2):\n    pass\n"
    source += "for gone in (1, 2):\n    pass\ndel gone\n"
    assert surface_of(init=source)[1] == {"pkg.acc.f", "pkg.acc.each"}


def test_a_class_of_static_methods_is_a_module_of_them():
    modules, names = surface_of(
        init="from .mstx import mstx",
        mstx="class mstx:\n    @staticmethod\n    def mark(): ...\nclass annotate: ...\nmstx.annotate = annotate\n",
    )
    assert modules == {"pkg.acc", "pkg.acc.mstx"}
    assert names == {"pkg.acc.mstx.mark", "pkg.acc.mstx.annotate"}


@pytest.mark.parametrize("member", ["def mark(self): ...", "mark = 1"])
def test_other_classes_stay_objects(member):
    assert surface_of(init=f"class mstx:\n    {member}\n")[1] == {"pkg.acc.mstx"}


def test_functions_that_only_warn_and_return_a_constant_are_inert():
    sources = {
        "pkg/acc/__init__.py": "from .parts import *\nfrom .parts import none\n__all__ = ['idle', 'none', '_own']\n",
        "pkg/acc/parts.py": "import warnings\n"
        'def idle():\n    "Does nothing."\n    warnings.warn("no")\n    return None\n'
        "def none():\n    pass\ndef _own():\n    pass\ndef works():\n    return read()\n"
        "def warn():\n    other.warn()\n",
    }
    inert = read_surface(sources, "pkg.acc").inert
    assert inert == {"pkg.acc.idle", "pkg.acc.none", "pkg.acc.parts.idle", "pkg.acc.parts.none"}


def test_parameters_are_those_that_can_be_named_in_a_call():
    sources = {
        "pkg/acc/__init__.py": "from .parts import *\ndef f(a, /, b, *c, d=0, **e): ...\ndef _g(a): ...\n",
        "pkg/acc/parts.py": "class Stream:\n    def __new__(cls, device=None): ...\nclass Plain: ...\n",
    }
    assert read_surface(sources, "pkg.acc").parameters == {"pkg.acc.f": ("b", "d", "**"), "pkg.acc.Stream": ("device",)}


def test_names_under_conditions_count_but_not_those_for_type_checkers():
    source = (
        "from typing import TYPE_CHECKING\ntry:\n    x = 1\nexcept ImportError as error:\n    y = 1\n"
        "if TYPE_CHECKING:\n    z = 1\nelse:\n    w = 1\n"
    )
    assert surface_of(init=source)[1] == {"pkg.acc.x", "pkg.acc.y", "pkg.acc.w"}


@pytest.mark.parametrize(
    "statement",
    ["__all__ = ['FloatTensor']", "__all__: list[str] = ['FloatTensor']", "__all__.extend(['FloatTensor'])"],
)
def test_exported_tensor_types_need_no_binding(statement):
    assert surface_of(init=statement)[1] == {"pkg.acc.FloatTensor"}


def test_an_export_that_nothing_binds_is_not_believed():
    assert surface_of(init="__all__ = ['roll' 'Focus', 'roll']\nfrom os import roll")[1] == {"pkg.acc.roll"}


def test_a_missing_package_and_a_broken_source_are_errors():
    with pytest.raises(KeyError):
        read_surface({"pkg/other.py": ""}, "pkg.acc")
    with pytest.raises(TreeError):
        read_surface({"pkg/acc/__init__.py": "def"}, "pkg.acc")


def test_the_running_interpreter_agrees():
    """Every function and class that a package of the standard library defines is read, and nothing it lacks."""
    import importlib
    import json
    import pkgutil
    from pathlib import Path

    root = Path(json.__file__).parent
    sources = {f"json/{path.name}": path.read_text(encoding="utf-8") for path in root.glob("*.py")}
    surface = read_surface(sources, "json")
    submodules = {f"json.{module.name}" for module in pkgutil.iter_modules([str(root)])}
    assert surface.modules == {"json", *submodules}
    for module in map(importlib.import_module, sorted(surface.modules - {"json.__main__", "json.tool"})):
        tree = ast.parse(sources.get(f"{module.__name__.replace('.', '/')}.py", sources["json/__init__.py"]))
        defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        prefix = module.__name__ + "."
        read = {name.removeprefix(prefix) for name in surface.names if name.rpartition(".")[0] == module.__name__}
        assert defined <= read <= set(dir(module))


def test_a_class_under_another_name_has_its_parameters():
    surface = read_surface(
        {
            "pkg/acc/__init__.py": "from .scheduler import Schedule as schedule\n",
            "pkg/acc/scheduler.py": "class Schedule:\n    def __init__(self, wait, skip_first=0): ...\n",
        },
        "pkg.acc",
    )
    assert surface.parameters == {"pkg.acc.schedule": ("wait", "skip_first")}
