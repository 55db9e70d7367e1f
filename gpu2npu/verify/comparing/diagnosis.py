"""Why two programs diverge: the kinds of faults, and what shows one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FaultKind(str, Enum):
    """A reason why two programs diverge."""

    DRAW = "different random draw"
    WEIGHTS = "other initial weights"
    STATE = "weights kept otherwise"
    ORDER = "other data order"
    DATA = "other data"
    MODE = "training and evaluation mode"
    PRECISION = "other dtype"
    BRANCH = "dropped branch"
    STEPS = "other number of steps"
    SHAPE = "batch split otherwise"
    LOSS_FACTOR = "loss averaged otherwise"
    LOSS = "loss computed otherwise"
    RETAINED = "gradients not zeroed"
    FACTOR = "gradients scaled otherwise"
    GRADIENT = "gradient computed otherwise"
    RATE = "other learning rate"
    SCALE = "other loss scale"
    OPTIMIZER = "optimizer computed otherwise"
    BUFFER = "buffer kept otherwise"
    COLLECTIVE = "other collective"
    CHECKPOINT = "checkpoint written otherwise"
    EPOCH = "DistributedSampler without set_epoch"
    SHARE = "other share of the batch"
    LOCAL_MEAN = "mean over the local batch"
    NOT_AVERAGED = "gradients not averaged"
    NOT_BROADCAST = "buffer not broadcast"
    DEVICE = "wrong device index"
    OPERATOR = "operator computed otherwise"


@dataclass(frozen=True)
class Diagnosis:
    """A cause, and what shows it, in one sentence. `module` is the module at fault, if one is."""

    cause: FaultKind
    sentence: str
    module: str | None = None
