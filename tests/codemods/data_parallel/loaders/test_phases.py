"""Loaders of a training phase and of others that a comprehension makes."""

from textwrap import dedent

import pytest

PHASES = """
loaders = {{x: DataLoader(sets[x], batch_size=size + 4, shuffle=not args.sorted) for x in {phases}}}
for phase in {phases}:
    for x, y in loaders[phase]:
        loss = criterion(model(x), y)
        if phase == 'train':
            loss.backward()
            optimizer.step()
"""


def test_a_dictionary_of_loaders_by_phase(shard_one):
    before = """
    loaders = {x: DataLoader(sets[x], batch_size=4, shuffle=True) for x in ['train', 'val']}
    for epoch in range(3):
        for phase in ['train', 'val']:
            for x, y in loaders[phase]:
                loss = criterion(model(x), y)
                if phase == 'train':
                    loss.backward()
                    optimizer.step()
    """
    after, messages = shard_one(dedent(before))
    assert (
        "DataLoader(sets[x], batch_size=4 // (dist.get_world_size() if x == 'train' else 1), "
        "sampler=DistributedSampler(sets[x]) if x == 'train' else None, shuffle=x != 'train') for x in" in after
    )
    assert "for epoch in range(3):\n    loaders['train'].sampler.set_epoch(epoch)\n    for phase" in after
    assert [message.partition(":")[0] for message in messages] == ["Choose a number of ranks that divides 4"]


@pytest.mark.parametrize("phases", ["['train', 'train_more', 'val']", "['train', other]"])
def test_phases_of_which_not_one_is_for_training(shard_one, phases):
    after, messages = shard_one(PHASES.format(phases=phases))
    assert after == PHASES.format(phases=phases)
    assert messages


def test_loaders_by_phase_and_another_key_are_left(shard_one):
    before = PHASES.format(phases="['train', 'val']").replace("{x: D", "{(x, y): D")
    before = before.replace("']}", "'] for y in range(2)}").replace("[phase]", "[phase, 1]")
    after, messages = shard_one(before)
    assert after == before
    assert messages


def test_options_of_the_loader_of_one_phase(shard_one):
    after, _ = shard_one(PHASES.format(phases="['train', 'val']"))
    assert "batch_size=(size + 4) // (dist.get_world_size() if x == 'train' else 1)" in after
    assert "shuffle=not args.sorted and x != 'train')" in after
