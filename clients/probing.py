"""A training script under mindstudio-probe's debugger: DEVICE, the TASK that it does, and the FOLDER of its dump."""

import json
import sys
from pathlib import Path

import torch
from msprobe.pytorch import PrecisionDebugger, seed_all

device, task, folder = sys.argv[1:]
Path(folder).mkdir()
settings = {"task": task, "dump_path": folder, "rank": [], "step": [], "level": "mix", "async_dump": False}
settings[task] = {"scope": [], "list": [], "data_mode": ["all"]}
config = Path(folder, "config.json")
config.write_text(json.dumps(settings))

seed_all(seed=7, mode=True)
debugger = PrecisionDebugger(config_path=str(config))
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3, padding=1, bias=False),
    torch.nn.BatchNorm2d(4),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(256, 10),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(4, 1, 8, 8).to(device), torch.arange(4).to(device)
for _ in range(2):
    debugger.start(model=model)
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    debugger.stop()
    optimizer.step()
    optimizer.zero_grad()
    debugger.step()
