"""torch.npu.streams: queues of work and moments on them."""

from gpu2npu.emulator.device.streams import Event, Stream

__all__ = ["Event", "Stream"]
