"""torch.npu.random: the NPU's random state."""

from gpu2npu.emulator.device.randomness import DefaultGenerators as _DefaultGenerators
from gpu2npu.emulator.device.randomness import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)

from .._absent import publish as _publish

default_generators = _DefaultGenerators()

_publish(globals())
