import pytest


def test_data_parallel_training(check):
    check("training_checks", 2)


@pytest.mark.long
def test_sharded_and_tensor_parallel_training(check):
    check("sharding_checks", 4)


def test_context_parallel_attention(check):
    check("context_parallel_checks", 2)
