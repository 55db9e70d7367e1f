"""CUDA's part, played on the CPU: tensors on `cuda` in a CPU build of PyTorch, computed by PyTorch's own CPU code.

The tensors are real ones of PyTorch's CUDA backend, over host memory: autograd, autocast, views and the words of most
errors are PyTorch's. It plays devices and their strictness, streams and events, generators, pinned memory, AMP,
checkpoints, DataParallel and `nccl`. It cannot play CUDA graphs, memory statistics (they are 0), kernels of a project's
own (C++, CUDA, Triton, cupy) and tensors on `cuda` shared between processes.
"""

_installed = False


def install(gpus: int) -> None:
    """Make `cuda` of this process a played one with that many GPUs; once.

    Raises:
        CannotPlayError: This PyTorch cannot.
    """
    global _installed
    if _installed:
        return
    from gpu2npu.verify.reference import (
        accelerator,
        answers,
        data_parallel,
        frontend,
        nccl,
        operators,
        recurrent,
        visible_gpus,
    )

    visible_gpus.set_count(gpus)
    accelerator.believe(gpus)
    operators.install()
    answers.install()
    recurrent.install()
    frontend.install()
    data_parallel.install()
    nccl.install()
    _installed = True
