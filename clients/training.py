"""A training script for `accelerate launch`: no line of it names a device. Writes the loss of every step to a file."""

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(3)
accelerator = Accelerator()
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
samples = torch.utils.data.TensorDataset(torch.randn(32, 6), torch.randn(32, 1))
batch = 8 // accelerator.num_processes
loader = torch.utils.data.DataLoader(samples, batch_size=batch)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
for values, targets in loader:
    loss = torch.nn.functional.mse_loss(model(values), targets)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach()).mean().item())
if accelerator.is_main_process:
    state = accelerator.state
    described = {"device": str(accelerator.device), "type": state.distributed_type.value, "backend": state.backend}
    described["processes"] = accelerator.num_processes
    Path(sys.argv[1]).write_text(json.dumps({"losses": losses, **described}))
accelerator.end_training()
