import pytest
import torch


@pytest.fixture(scope="session")
def plain():
    """An operator of the tests' own that doubles, for which there will never be a kernel."""
    library = torch.library.Library("gpu2npu_test_plain", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    yield torch.ops.gpu2npu_test_plain.twice
    library._destroy()
