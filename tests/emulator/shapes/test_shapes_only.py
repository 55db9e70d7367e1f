"""Runs of the same program with and without `--shapes-only`."""

import json
import os
import subprocess
import sys

import pytest

from gpu2npu.emulator.launch import emulating

TRAINING = """
import torch, torch_npu
import torch.nn as nn, torch.nn.functional as F

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(64, 192), nn.Linear(64, 64), nn.LayerNorm(64)
    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(4, 32, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(4, 32, 64))

class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(500, 64), nn.Embedding(32, 64)
        self.blocks, self.drop, self.head = nn.Sequential(Attention(), Attention()), nn.Dropout(0.1), nn.Linear(64, 500)
    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(32, device=ids.device))
        return self.head(F.gelu(self.drop(self.blocks(x))))

class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.SiLU(), nn.Upsample(scale_factor=2),
            nn.ConvTranspose2d(32, 8, 2, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    def forward(self, x):
        return self.body(x)

class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(16, 32, 2, batch_first=True), nn.Linear(32, 10)
    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])

class Moe(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(32, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(4))
    def forward(self, x):
        scores, chosen = self.gate(x).softmax(-1).topk(2, -1)
        shares = [(scores * (chosen == i)).sum(-1, keepdim=True) for i in range(4)]
        return sum(expert(x) * share for expert, share in zip(self.experts, shares))

class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.place = nn.Conv2d(3, 32, 8, 8), nn.Parameter(torch.zeros(1, 17, 32))
        self.mark, self.head = nn.Parameter(torch.zeros(1, 1, 32)), nn.Linear(32, 10)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True), 2)
    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.body(torch.cat([self.mark.expand(len(x), -1, -1), x], 1) + self.place)[:, 0])

class Block(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.short = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))
    def forward(self, x):
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.short(x), inplace=True)

class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.deep, self.up = Block(3, 8, 1), Block(8, 16, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.last, self.head = Block(16, 8, 1), nn.Conv2d(8, 5, 1)
    def forward(self, x):
        x = self.down(x)
        y = self.up(self.deep(x))
        y = F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return self.head(self.last(torch.cat([x, y], 1))).permute(0, 2, 3, 1)

def steps(model, batch, target, optimizer, amp=False):
    model = model.npu()
    optimizer = optimizer(model.parameters())
    torch.npu.reset_peak_memory_stats()
    scaler = torch.amp.GradScaler("npu", enabled=amp)
    for _ in range(3):
        with torch.autocast("npu", torch.float16, enabled=amp):
            out = model(batch.npu())
            loss = F.cross_entropy(out.flatten(0, -2), target.npu().flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return torch.npu.max_memory_allocated(), torch.npu.memory_allocated()

torch.manual_seed(0)
ids = torch.randint(0, 500, (4, 32))
images = torch.randn(4, 3, 32, 32)
found = {
    "gpt": steps(Gpt(), ids, ids, torch.optim.AdamW),
    "cnn": steps(Cnn(), images, torch.arange(4), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), True),
    "vit": steps(Vit(), images, torch.arange(4), torch.optim.AdamW),
    "resnet": steps(nn.Sequential(Block(3, 16, 2), Block(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                  nn.Linear(32, 10)), images, torch.arange(4), lambda p: torch.optim.SGD(p, 0.1)),
    "unet": steps(Unet(), images, torch.randint(0, 5, (4, 32, 32)), torch.optim.Adam, True),
    "rnn": steps(Rnn(), torch.randn(4, 12, 16), torch.arange(4), torch.optim.RMSprop),
    "moe": steps(Moe(), torch.randn(64, 32), torch.arange(64) % 32, lambda p: torch.optim.Adam(p, fused=True)),
}
import json
print(json.dumps(found))
"""


def run(torch_python, script, tmp_path, shapes_only, **settings):
    """The finished process of a script."""
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    environment = emulating(os.environ, python=sys.executable, shapes_only=shapes_only, **settings)
    return subprocess.run([*torch_python, path], capture_output=True, text=True, env=environment, timeout=120)


def output(torch_python, script, tmp_path, shapes_only=True, **settings):
    done = run(torch_python, script, tmp_path, shapes_only, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_memory_is_that_of_the_real_run(torch_python, tmp_path):
    real, shapes = (json.loads(output(torch_python, TRAINING, tmp_path, each)) for each in (False, True))
    assert shapes == real


def test_attention_keeps_no_scores_where_torch_npu_takes_flash_attention(torch_python, tmp_path):
    script = """
import torch, torch_npu, torch.nn.functional as F
def kept(dtype, mask=None, width=64):
    q, k, v = (torch.randn(2, 8, 1024, width, device="npu", dtype=dtype, requires_grad=True) for _ in range(3))
    before = torch.npu.memory_allocated()
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
    after = torch.npu.memory_allocated()
    y.sum().backward()
    assert q.grad.shape == q.shape and v.grad.dtype == dtype
    return (after - before) >> 20
print(kept(torch.float16), kept(torch.float32), kept(torch.float32, torch.zeros(1024, 1024, device="npu")) > 60)
"""
    # The result, 8 float32 each for maxima and sums of a row, and the mask of 2048 x 2048.
    assert output(torch_python, script, tmp_path) == "7 9 True\n"
    old = output(torch_python, script, tmp_path, soc="Ascend910A")
    assert int(old.split()[0]) > 30


def test_a_large_model_takes_no_memory(torch_python, tmp_path):
    script = """
import resource, torch, torch_npu
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = torch.nn.Sequential(*[torch.nn.Linear(8192, 8192) for _ in range(8)]).to(torch.bfloat16).npu()
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(4096, 8192, device="npu", dtype=torch.bfloat16)).sum().backward()
optimizer.step()
print(torch.npu.memory_allocated() >> 30, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000)
"""
    assert output(torch_python, script, tmp_path) == "4 True\n"


def test_what_the_emulator_refuses_is_refused(torch_python, tmp_path):
    script = """
import torch, torch_npu
def refused(call):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
    else:
        print("taken")
x, y = torch.randn(100, 200).npu(), torch.randn(100, 200).npu()
refused(lambda: x @ y)
refused(lambda: x.to("npu", torch.float64) @ y.to("npu", torch.float64).t())
refused(lambda: x + torch.ones(3, device="npu"))
refused(lambda: x + torch.ones(100, 200))
refused(lambda: x.add_(torch.ones(3, 100, 200, device="npu")))
refused(lambda: torch.nn.functional.cross_entropy(x, torch.zeros(3, dtype=torch.long, device="npu")))
"""
    real, shapes = (output(torch_python, script, tmp_path, each) for each in (False, True))
    assert shapes == real
    assert "taken" not in real


def test_numbers_stand_for_tensors_in_what_runs_on_the_cpu(torch_python, tmp_path):
    script = """
import torch, torch_npu
x, two = torch.ones(3, dtype=torch.half).npu(), torch.tensor(2.0)
for y in (torch.copysign(x, 2), torch.copysign(x, two), torch.special.zeta(2.0, x), torch.special.xlog1py(x, 2)):
    print(y.shape, y.dtype, y.device)
"""
    real, shapes = (output(torch_python, script, tmp_path, each) for each in (False, True))
    assert shapes == real
    assert shapes.count("npu:0") == 4


def test_memory_ends_where_the_driver_keeps_the_rest(torch_python, tmp_path):
    script = """
import torch, torch_npu
held = torch.empty(60 << 30, dtype=torch.uint8, device="npu")
try:
    torch.empty(1 << 30, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError as error:
    print(str(error)[:92])
"""
    words = "NPU out of memory. Tried to allocate 1.00 GiB (NPU 0; 60.96 GiB total capacity; 60.00 GiB al"
    assert output(torch_python, script, tmp_path) == f"{words}\n"


def test_integers_that_the_program_brings_have_their_values(torch_python, tmp_path):
    script = """
import torch, torch_npu
lengths = torch.tensor([3, 1, 2]).npu()
mask = torch.arange(4, device="npu") < lengths[:, None]
print(mask.sum().item(), mask.nonzero().shape[0], torch.ones(3, 4, device="npu")[mask].shape[0], lengths.max().item())
"""
    assert output(torch_python, script, tmp_path) == "6 6 6 3\n"


@pytest.mark.parametrize(("values", "expected"), [((), "0.0 0.0 [0.0]"), (("loss=2.5",), "2.5 0.0 [0.0]")])
def test_the_host_reads_zeros_or_what_it_is_given(torch_python, tmp_path, values, expected):
    script = """
import torch, torch_npu
from gpu2npu.emulator.shapes.values import guesses
x = torch.ones(1000, device="npu")
loss = (x * 2).sum()
other = x.mean()
read = loss.item()
print(read, float(other), x[:1].tolist())
print(bool(x.sum() > 3), x[x > 0].shape[0])
assert torch.bincount((x > 0).long().view(-1)[:10], minlength=3).tolist() == [4, 3, 3]
vision = torch.library.Library("torchvision", "DEF")
vision.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
vision.impl("nms", lambda boxes, scores, threshold: scores.argsort()[:1], "CPU")
assert torch.ops.torchvision.nms(x.view(250, 4), x[:250], 0.5).shape == (250,)
for guess in guesses.values():
    print(guess.kind, guess.what, guess.line.number, guess.count)
"""
    found = output(torch_python, script, tmp_path, values=values).splitlines()
    assert found[0] == expected
    assert found[1] == "False 1000"
    assert found[2:] == [
        "value float32 7 1",
        "value float32 8 1",
        "copy float32[1] 8 1",
        "value bool 9 1",
        "shape index by a mask of [1000] 9 1",
        "shape bincount [3] 10 1",
        "shape nms [250] 14 1",
    ]
