"""Each test is a Python process of its own: as a user starts it, where its start is what is tested."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[3] / "gpu2npu" / "emulator" / "site"


def python(code, *, command=(sys.executable, "-c"), **environment):
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("GPU2NPU", "ASCEND"))}
    settings |= {"PYTHONPATH": str(SITE), "OMP_NUM_THREADS": "1"} | {
        k: v for k, v in environment.items() if v is not None
    }
    result = subprocess.run([*command, code], env=settings, capture_output=True, text=True, timeout=600, check=False)
    result.lines = result.stdout.splitlines()
    return result


def test_plain_import_torch_gives_the_visible_npus():
    result = python(
        "import torch\n"
        "for use in (lambda: torch.ones(1).npu(1), lambda: torch.npu.set_device(1)):\n"
        "    try: use()\n"
        "    except RuntimeError as error: print(error)\n"
        "print(torch.npu.is_available(), torch.ones(2, device='npu'))\n"
        "import torch_npu, importlib.metadata\n"
        "print(torch_npu.npu is torch.npu, importlib.metadata.version('torch_npu'))",
        GPU2NPU_NPUS="8",
        ASCEND_RT_VISIBLE_DEVICES="5",
    )
    assert result.stderr == ""
    assert all("Invalid NPU device ordinal: npu:1" in line for line in result.lines[:2])
    assert result.lines[2] == "True tensor([1., 1.], device='npu:0')"
    assert result.lines[3].startswith("True 2.")


@pytest.mark.parametrize(
    "imports",
    [
        "from torch_npu.npu import amp\nimport torch_npu, torch",
        "from torch.npu.amp import autocast, GradScaler\nfrom torch.npu import amp, memory\nimport torch, torch.npu",
    ],
)
def test_every_order_of_imports_works(imports):
    result = python(f"{imports}\nprint(torch.zeros(1).npu().device)")
    assert (result.stderr, result.stdout) == ("", "npu:0\n")


def test_without_autoload_torch_npu_is_imported_by_hand():
    result = python(
        "import torch\nprint(hasattr(torch, 'npu'))\nimport torch_npu\nprint(torch.zeros(1).npu().device)",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert (result.stderr, result.stdout) == ("", "False\nnpu:0\n")


def test_torch_of_a_release_before_2_5_leaves_the_plugin_to_the_script():
    code = "import torch\nprint(hasattr(torch, 'npu'))\nimport torch_npu\nprint(torch.zeros(1).npu().device)"
    result = python(code, GPU2NPU_TORCH_NPU="2.1.0")
    assert (result.stderr, result.stdout) == ("", "False\nnpu:0\n")


def test_a_python_without_gpu2npu_is_reported_in_one_sentence():
    hide = "import sys\nsys.modules['gpu2npu'] = None\n"
    result = python(hide + "import torch")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "install gpu2npu[emulator]" in result.stderr


# An operator of the user's own, for which there will never be a kernel.
OWN = (
    "lib = torch.library.Library('mine', 'FRAGMENT')\n"
    "lib.define('twice(Tensor x) -> Tensor')\n"
    "lib.impl('twice', lambda x: x * 2, 'CPU')\n"
)
FALLING_BACK = "import torch\nx = torch.ones(2, device='npu')\ny = x + x\nprint(torch.special.airy_ai(y).shape)\n"
FALLING_BACK += "torch.special.airy_ai(y)"


def test_what_the_npu_lacks_falls_back_with_torch_npus_warning(torch_python, tmp_path):
    script, report = tmp_path / "script.py", tmp_path / "report.csv"
    script.write_text(FALLING_BACK)
    result = python(script, command=torch_python, GPU2NPU_TORCH_NPU="2.13.0", GPU2NPU_OP_REPORT=str(report))
    assert (
        result.stderr.count("CAUTION: The operator 'aten::special_airy_ai.out' is not currently supported on the NPU")
        == 1
    )
    kinds = {row["operator"]: (row["npu"], row["here"], row["calls"]) for row in csv.DictReader(report.open())}
    assert kinds["aten::special_airy_ai"] == ("CPU", "torch", "2")


MET = """
import torch
a, q = torch.ones(2, 2, dtype=torch.float64, device="npu"), torch.ones(1, 1, 4, 8, device="npu")
try:
    a @ a
except RuntimeError:
    pass
for _ in range(2):
    torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(4, 4, device="npu"))
q.double()
"""


def test_the_report_names_what_raised_and_what_was_composed(torch_python, tmp_path):
    script, report = tmp_path / "script.py", tmp_path / "report.csv"
    script.write_text(MET)
    python(script, command=torch_python, GPU2NPU_TORCH_NPU="2.13.0", GPU2NPU_OP_REPORT=str(report))
    kinds = {row["operator"]: (row["npu"], row["here"], row["calls"]) for row in csv.DictReader(report.open())}
    assert kinds["aten::mm"] == ("raises; raises [float64-cube]", "nothing", "1")
    composed = kinds["aten::scaled_dot_product_attention"]
    assert composed == ("kernel; slow [attention-float-mask]", "its parts", "2")
    assert kinds["torch.Tensor.double"][0] == "kernel; other dtype [float64-cast]"


PROCESSES = f"""
import torch
import torch.multiprocessing as mp
{OWN}

def work(rank):
    x = torch.ones(2, device=f"npu:{{rank}}")
    for _ in range(10):
        x = x + x
    torch.ops.mine.twice(x)

if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
    torch.ones(2, device="npu") + 1
    mp.start_processes(lambda rank: None, nprocs=2, start_method="fork")
"""


def test_the_reports_of_several_processes_add_up(torch_python, tmp_path, borrowing):
    script = tmp_path / "script.py"
    script.write_text(PROCESSES)
    report = tmp_path / "report.csv"
    environment = {**os.environ, "PYTHONPATH": str(SITE), "GPU2NPU_OP_REPORT": str(report), "OMP_NUM_THREADS": "1"}
    subprocess.run([*torch_python, script], env=environment, check=True, timeout=600)
    rows = {row["operator"]: row for row in csv.DictReader(report.open())}
    assert list(next(iter(rows.values()))) == ["operator", "calls", "seconds", "npu", "here"]
    assert rows["aten::add.Tensor"]["calls"] == "21"
    assert (rows["aten::add.Tensor"]["npu"], rows["aten::add.Tensor"]["here"]) == ("kernel", "numpy")
    assert float(rows["aten::add.Tensor"]["seconds"]) > 0
    assert rows["mine::twice"]["calls"] == "2"
    assert (rows["mine::twice"]["npu"], rows["mine::twice"]["here"]) == ("kernel", "torch")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


FORKING = """
import os, torch

def child():
    if os.fork() == 0:
        torch.manual_seed(1)
        try: print(torch.ones(2, device='npu').sum().item(), flush=True)
        except RuntimeError as error: print(str(error)[:45], flush=True)
        os._exit(0)
    os.wait()

child()
x = torch.ones(2, device='npu')
child()
print(x.tolist())
"""


def test_a_forked_child_may_use_the_npu_only_if_its_parent_did_not(torch_python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FORKING)
    result = python(script, command=torch_python)
    assert result.lines == ["2.0", "Cannot re-initialize NPU in forked subprocess", "[1.0, 1.0]"]
