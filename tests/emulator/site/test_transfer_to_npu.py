"""Each test is a script of its own: importing transfer_to_npu changes PyTorch for the whole process."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SITE = ROOT / "gpu2npu" / "emulator" / "site"
IMPORT = "import torch_npu\nfrom torch_npu.contrib import transfer_to_npu\n"


def run(*command, cwd):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPU2NPU", "ASCEND", "CUDA"))}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "GPU2NPU_CONV_HF32": "0"}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    return result


def prepended(path):
    """Put the vendor's two lines where they may stand first: after the docstring and `__future__`."""
    text = path.read_text()
    ends = [
        node.end_lineno
        for i, node in enumerate(ast.parse(text).body)
        if (isinstance(node, ast.ImportFrom) and node.module == "__future__") or (i == 0 and isinstance(node, ast.Expr))
    ]
    lines = text.splitlines(keepends=True)
    lines.insert(max(ends, default=0), IMPORT)
    path.write_text("".join(lines))


def losses(output):
    return [float(each) for each in re.findall(r"loss ([0-9.]+)", output)]


@pytest.mark.parametrize(
    ("project", "options"),
    [("mnist_cnn", ["--epochs", "1", "--train-size", "160"]), ("char_gpt", ["--max_iters=4", "--amp=False"])],
)
def test_an_unmodified_cuda_script_trains_as_its_migrated_copy_does(project, options, training_python, tmp_path):
    shutil.copytree(ROOT / "fixtures" / project, tmp_path / project)
    run(sys.executable, "-m", "gpu2npu", "-i", project, "-o", "out", "-v", "2.1.0", cwd=tmp_path)
    prepended(tmp_path / project / "train.py")
    command = (sys.executable, "-m", "gpu2npu", "run", *training_python, "train.py", *options)
    transferred = run(*command, cwd=tmp_path / project)
    migrated = run(*command, cwd=tmp_path / "out" / f"{project}_msft")
    assert len(losses(transferred.stdout)) >= 4
    assert losses(transferred.stdout) == pytest.approx(losses(migrated.stdout), rel=1e-5)  # TF32 is migrated to HF32


SURFACE = """
import torch, warnings
from torch.cuda.amp import GradScaler, autocast
from torch.profiler import ProfilerActivity
assert torch.cuda.is_available() and torch.cuda.device_count() == 8
x = torch.ones(2, 2).cuda()
cuda = torch.device("cuda")
for made in (x, torch.zeros(2, device="cuda"), torch.ones(2).to("cuda:1"), torch.tensor([1.0], device=cuda),
             torch.ones(2).to(0), torch.ones(2).to(torch.device("cuda", 2)), x.new_zeros(2, device="cuda:3"),
             torch.nn.Linear(1, 1).cuda().weight, torch.nn.Linear(1, 1).to(cuda).weight, torch.cuda.FloatTensor([1])):
    assert made.device.type == "npu" and made.is_cuda, made
assert torch.cuda.DoubleTensor([1.0]).dtype is torch.float32
torch.cuda.set_device("cuda:1")
assert torch.cuda.current_device() == 1
with torch.cuda.device("cuda:2"):
    assert torch.cuda.current_device() == 2
torch.cuda.set_device(0)
assert torch.cuda.get_device_name("cuda:0").startswith("Ascend")
torch.cuda.manual_seed_all(1)
generator = torch.Generator(device="cuda")
assert isinstance(generator, torch.Generator) and generator.device.type == "npu"
torch.rand(2, device="cuda", generator=generator.manual_seed(3))
model, scaler = torch.nn.Linear(2, 2).cuda(), GradScaler()
for context in (autocast(), torch.autocast("cuda"), torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)):
    with context:
        y = model(x)
        assert y.dtype in (torch.float16, torch.bfloat16) and torch.is_autocast_enabled()
scaler.scale(y.float().sum()).backward()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    x * 2
torch.cuda.synchronize()
torch.save(x, "x.pt")
assert torch.load("x.pt", map_location="cuda:1").device == torch.device("npu:1")
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(4.0)), batch_size=2, pin_memory=True)
assert [batch.cuda(non_blocking=True).tolist() for batch, in loader] == [[0, 1], [2, 3]]
f = lambda t: t + 1
assert torch.jit.script(f) is f
assert torch.nn.LazyLinear(2).cuda()(x).device.type == "npu"
with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
    x @ x
assert [event.name for event in prof.events()] == ["aten::mm"]
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    z = x + 1
graph.replay()
assert torch.distributed.is_nccl_available()
import torch.distributed as dist
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
assert dist.get_backend() == "hccl"
ddp = torch.nn.parallel.DistributedDataParallel(model, device_ids=["cuda:0"])
ddp(x).sum().backward()
dist.destroy_process_group()
print("done")
"""


def test_what_scripts_ask_of_cuda_the_npu_answers(training_python, tmp_path):
    (tmp_path / "script.py").write_text(IMPORT + SURFACE)
    result = run(sys.executable, "-m", "gpu2npu", "run", *training_python, "script.py", cwd=tmp_path)
    assert result.stdout.splitlines()[-1] == "done"
    assert "transfer_to_npu disables torch.jit.script" in result.stderr


PRIVATE = """
import sys, torch, accelerate_like
event = torch.Event("cuda:0", enable_timing=True)
assert isinstance(event, torch.Event) and isinstance(torch.cuda.Event(), torch.Event) and event.device.type == "npu"
assert not isinstance(event, torch.Generator)
told = lambda *args, **kwargs: (args, kwargs)
told_cuda, told_hccl = transfer_to_npu._wrapper_cuda(told), transfer_to_npu._wrapper_hccl(told)
assert told_cuda("cuda:1", device_ids=("cuda:0", 1)) == (("npu:1",), {"device_ids": ("npu:0", 1)})
assert told_hccl("nccl", backend="cuda:nccl,cpu:gloo") == (("hccl",), {"backend": "npu:hccl,cpu:gloo"})
assert transfer_to_npu._replace_cuda_to_npu_in_dict({"cuda:0": "cuda:1", 2: 3}) == {"npu:0": "npu:1", 2: 3}
answers = accelerate_like.is_cuda_available
transfer_to_npu._do_wrapper_libraries_func({"torch": ["1.0", "accelerate_like.is_cuda_available", "missing.name"],
                                            "numpy": ["99.0", "accelerate_like.other"], "missing": ["1"]})
assert torch.cuda.is_available() and not accelerate_like.is_cuda_available() and accelerate_like.other()
assert torch.cuda.is_available() and torch.cuda.amp.autocast_mode is torch.npu.amp.autocast_mode
print("done")
"""


def test_what_torch_npus_own_functions_patch(training_python, tmp_path):
    (tmp_path / "script.py").write_text(IMPORT + PRIVATE)
    functions = "\n".join(
        f"def {name}():\n    return torch.cuda.is_available()" for name in ("is_cuda_available", "other")
    )
    (tmp_path / "accelerate_like.py").write_text(f"import torch\n{functions}\n")
    result = run(sys.executable, "-m", "gpu2npu", "run", *training_python, "script.py", cwd=tmp_path)
    assert result.stdout.splitlines()[-1] == "done"
