"""Views in C++ and in Python give the same: tensors, gradients and errors."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu2npu.emulator.device import native
from gpu2npu.emulator.launch import emulating

PROGRAM = """
import sys, torch, torch_npu
from torch._C import _dispatch_dump

registered = _dispatch_dump("aten::view").split("PrivateUse1:")[1].splitlines()[0]
assert ("views.cpp" in registered) == (sys.argv[1] == "1"), registered
x = torch.arange(24.0).npu().reshape(4, 6).requires_grad_()
VIEWS = {
    "slice": lambda x: x[1:3], "step": lambda x: x[::2, 1::2], "element": lambda x: x[2], "t": lambda x: x.t(),
    "view": lambda x: x.view(2, -1), "reshape": lambda x: x.t().reshape(8, 3), "alias": lambda x: x.reshape(24),
    "unfold": lambda x: x.unfold(1, 3, 2), "as_strided": lambda x: x.as_strided((2, 3), (1, 2), 4),
    "squeeze": lambda x: x[None].squeeze(0), "expand": lambda x: x[:, :1].expand(4, 5),
    "dtype": lambda x: x.view(torch.int32),
}
for name, view in VIEWS.items():
    made = view(x.detach() if name == "dtype" else x)
    assert made.device.type == "npu" and made.untyped_storage().data_ptr() in (x.data_ptr(), made.data_ptr())
    print(name, made.shape, made.stride(), made.storage_offset(), made.tolist())
    if made.requires_grad:
        print(*torch.autograd.grad((made * made).sum(), x)[0].tolist())
with torch.no_grad():
    x[1:3].t().view(torch.float32).mul_(2)
print(x.tolist())
WRONG = (
    lambda: x.view(5, 5), lambda: x.t().view(24), lambda: x.as_strided((9, 9), (9, 9)), lambda: x.unfold(1, 9, 1)
)
for wrong in WRONG:
    try:
        wrong()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no compiler")
def test_views_in_cpp_are_those_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = native.place()
    building = native.build(library)
    assert building is not None and native.build(library) is None, "one process builds"
    assert building.wait() == 0 and library.is_file() and [*library.parent.iterdir()] == [library]
    (tmp_path / "views.py").write_text(PROGRAM)
    found = []
    for switch in "01":
        environment = emulating({**os.environ, "GPU2NPU_NATIVE": switch}, python=sys.executable)
        command = [sys.executable, tmp_path / "views.py", switch]
        found.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert found[0] == found[1] and found[0].count("\n") > 25


def test_a_library_that_does_not_load_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GPU2NPU_NATIVE")
    monkeypatch.setenv("CXX", "no-compiler")
    assert native.load() == () and not native.place().parent.exists()
    native.place().parent.mkdir()
    native.place().write_text("no library")
    assert native.load() == ()
