"""The folders that code puts on sys.path."""

import pytest

from gpu2npu.python.project.search_path import search_folders


@pytest.mark.parametrize(
    ("source", "folders"),
    [
        ("sys.path.insert(0, 'lib')", ["lib", "tools/lib"]),
        ("sys.path.append(os.path.join(os.path.dirname(__file__), '..', 'lib'))", ["lib", "tools/lib"]),
        ("sys.path.append(osp.abspath(osp.join(osp.dirname(osp.abspath(__file__)), '../lib')))", ["lib", "tools/lib"]),
        ("sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'lib'))", ["lib", "tools/lib"]),
        ("sys.path = [os.path.dirname(__file__) + '/lib'] + sys.path", ["tools/lib", "tools/tools/lib"]),
        ("here = osp.dirname(__file__)\nsys.path[:0] = [osp.join(here, 'lib')]", ["tools/lib", "tools/tools/lib"]),
        ("def add(path):\n    sys.path.insert(0, path)\nadd('lib')", ["lib", "tools/lib"]),
        ("def add(path):\n    sys.path.insert(0, path)\nadd(path='lib')", ["lib", "tools/lib"]),
        ("lib = 'x'\ndef f():\n    lib = 'lib'\n    sys.path.insert(0, lib)", ["lib", "tools/lib"]),
        ("def f():\n    lib = 'lib'\ndef g():\n    sys.path.insert(0, lib)", []),
        ("lib = 'lib'\nfor lib in libs:\n    sys.path.insert(0, lib)", []),
        ("sys.path.insert(0, '/opt/lib')", []),
        ("sys.path.insert(0, os.environ['LIB'])", []),
        ("sys.path.insert(0, '../../elsewhere')", []),
        ("print(sys.path)", []),
        ("sys.path.insert(", []),
    ],
)
def test_folders(source, folders):
    assert search_folders({"tools/train.py": source.encode()}) == tuple(folders)
