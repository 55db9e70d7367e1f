"""Tests of code that tests of the project call, where no program has made a process group."""

TRAINER = """import torch
from torch import nn

class Trainer:
    def __init__(self, model, gpus):
        if len(gpus) > 1:
            model = nn.DataParallel(model, device_ids=gpus)
        self.model = model

    def fit(self, loader):
        for epoch in range(2):
            for x, y in loader:
                self.model(x).sum().backward()
                self.optimizer.step()
        torch.save(self.model.state_dict(), "model.pth")
"""
TRAIN = """from torch.utils.data import DataLoader
from trainer import Trainer

if __name__ == "__main__":
    Trainer(net, [0, 1]).fit(DataLoader(data, batch_size=8, shuffle=True))
"""
TEST = "from trainer import Trainer\n\ndef test_fit():\n    Trainer(net, []).fit(batches)\n"


def test_code_that_tests_call_asks_for_the_group_first(after):
    text = after({"trainer.py": TRAINER, "train.py": TRAIN, "test_trainer.py": TEST})["trainer.py"]
    assert "if (dist.get_world_size() if dist.is_initialized() else 1) > 1:" in text
    assert 'if isinstance(getattr(loader, "sampler", None), DistributedSampler):\n                loader.' in text
    assert "if not dist.is_initialized() or dist.get_rank() == 0:\n            torch.save(" in text


def test_code_that_only_programs_run_has_the_group(after):
    text = after({"trainer.py": TRAINER, "train.py": TRAIN})["trainer.py"]
    assert "is_initialized" not in text and "            loader.sampler.set_epoch(epoch)\n" in text


def test_a_wrap_without_a_condition_is_made_in_a_group(after):
    trainer = TRAINER.replace("        if len(gpus) > 1:\n    ", "")
    text = after({"trainer.py": trainer, "train.py": TRAIN, "test_trainer.py": TEST})["trainer.py"]
    assert "if dist.is_initialized() else" in text and "len(gpus)" not in text
