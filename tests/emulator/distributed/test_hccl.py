import pytest


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 4])
def test_every_collective(check, size):
    check("collective_checks", size)
