"""Whole tensors of a few places: written by a run that follows one which diverges, up to where it does."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import torch

from gpu2npu.verify.recording.environment import RecordingSettings
from gpu2npu.verify.recording.format import WHOLE
from gpu2npu.verify.recording.host import on_host


class WholeTensors:
    """Writes the tensors at the places that the settings list: a .npy file each, named by the place's number."""

    def __init__(self, settings: RecordingSettings) -> None:
        self._folder = settings.folder / f"process-{os.getpid()}" / WHOLE
        listed = json.loads(settings.whole.read_text(encoding="utf-8")) if settings.whole else []
        self._numbers: dict[tuple[Any, ...], int] = {tuple(place): number for number, place in listed}

    def tensor(self, place: tuple[Any, ...], tensor: torch.Tensor) -> None:
        """Write the tensor at a place, if it is listed; as float32 where it is of fewer bits."""
        number = self._numbers.get(place)
        if number is None:
            return
        values = on_host(tensor).resolve_conj().resolve_neg()
        if values.is_floating_point() and values.dtype != torch.float64:
            values = values.to(torch.float32)
        self._folder.mkdir(parents=True, exist_ok=True)
        np.save(self._folder / f"{number}.npy", values.numpy())
