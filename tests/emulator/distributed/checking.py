"""Functions that the checks which ranks run have in common."""

import torch
import torch.distributed as dist

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int32, torch.int64)


def npu(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to(f"npu:{dist.get_rank()}")


def size():
    return dist.get_world_size()


def ranks():
    return range(dist.get_world_size())


def same(actual, expected):
    assert actual.device == torch.device("npu", dist.get_rank()), actual.device
    wanted = torch.as_tensor(expected, dtype=actual.dtype)
    assert torch.equal(actual.cpu(), wanted), f"{actual.cpu()} is not {wanted}"


def close(actual, expected, tolerance=1e-5):
    """Compare values on any device; a DTensor as a whole."""
    whole = actual.detach()
    whole = whole.full_tensor() if hasattr(whole, "full_tensor") else whole
    torch.testing.assert_close(whole.cpu(), expected.detach().cpu(), rtol=tolerance, atol=tolerance)


def refuses(error, words, call):
    try:
        call()
    except error as refusal:
        assert words in str(refusal), refusal
    else:
        raise AssertionError(f"no {error.__name__}")
