"""Four steps under Lightning: WAY (cpu, registered, transferred), the number of devices, and the OUTPUT file."""

import json
import sys
from pathlib import Path

way, count, output = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])

if way == "transferred":
    from torch_npu.contrib import transfer_to_npu  # noqa: F401

import lightning  # noqa: E402
import torch  # noqa: E402
import torch_npu  # noqa: E402, F401
from lightning.pytorch.accelerators import Accelerator, AcceleratorRegistry  # noqa: E402
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy  # noqa: E402


class NPUAccelerator(Accelerator):
    """The methods that Lightning requires of an accelerator that it does not have."""

    def setup_device(self, device: torch.device) -> None:
        torch.npu.set_device(device)

    def get_device_stats(self, device: torch.device) -> dict:
        return torch.npu.memory_stats(device)

    def teardown(self) -> None:
        torch.npu.empty_cache()

    @staticmethod
    def parse_devices(devices: int) -> list[int]:
        return list(range(devices))

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        return [torch.device("npu", index) for index in devices]

    @staticmethod
    def auto_device_count() -> int:
        return torch.npu.device_count()

    @staticmethod
    def is_available() -> bool:
        return torch.npu.is_available()

    @staticmethod
    def name() -> str:
        return "npu"


class NPUStrategy(DDPStrategy):
    """DDP that makes no stream of CUDA for the devices it is given."""

    def determine_ddp_device_ids(self) -> None:
        return None


class Training(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        self.losses = []

    def training_step(self, batch, index):
        values, targets = batch
        loss = torch.nn.functional.mse_loss(self.net(values), targets)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.05)


def main() -> None:
    torch.manual_seed(5)
    samples = torch.utils.data.TensorDataset(torch.randn(32, 6), torch.randn(32, 1))
    options = {"accelerator": "cpu" if way == "cpu" else "gpu"}
    if way == "registered":
        AcceleratorRegistry.register("npu", NPUAccelerator, description="Ascend")
        one = SingleDeviceStrategy(torch.device("npu:0"))
        options = {"accelerator": "npu", "strategy": one if count == 1 else NPUStrategy(process_group_backend="hccl")}
    trainer = lightning.Trainer(
        devices=count, max_steps=4, logger=False, enable_checkpointing=False, enable_progress_bar=False, **options
    )
    module = Training()
    trainer.fit(module, torch.utils.data.DataLoader(samples, batch_size=4))
    if trainer.is_global_zero:
        found = {
            "device": str(trainer.strategy.root_device),
            "accelerator": type(trainer.accelerator).__name__,
            "losses": module.losses,
            "world": trainer.world_size,
            "backend": torch.distributed.get_backend() if torch.distributed.is_initialized() else None,
        }
        output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
