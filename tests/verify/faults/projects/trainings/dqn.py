"""Train a Q network with a replay buffer and a target network: python dqn.py"""
import random
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, state):
        return self.layers(state)


def seen(place):
    return F.one_hot(torch.tensor(place % 6), 6).float()


def main():
    random.seed(1)
    torch.manual_seed(11)
    network, target = QNetwork().to(device), QNetwork().to(device)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.RMSprop(network.parameters(), lr=1e-3, alpha=0.95, momentum=0.5, centered=True)
    memory, place = deque(maxlen=200), 0
    for move in range(80):
        if random.random() < 0.5:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = network(seen(place).unsqueeze(0).to(device)).max(1)[1].item()
        following = place + 2 * action - 1
        memory.append((seen(place), action, float(following % 6 == 3), seen(following)))
        place = following
        if move < 40 or move % 10:
            continue
        states, actions, rewards, others = zip(*random.sample(memory, 32))
        states, others = torch.stack(states).to(device), torch.stack(others).to(device)
        actions, rewards = torch.tensor(actions, device=device), torch.tensor(rewards, device=device)
        with torch.no_grad():
            wanted = rewards + 0.9 * target(others).max(1).values
        loss = F.smooth_l1_loss(network(states).gather(1, actions[:, None]).squeeze(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(network.parameters(), 1.0)
        optimizer.step()
        for own, new in zip(target.parameters(), network.parameters()):
            own.data.copy_(0.1 * new.data + 0.9 * own.data)
        print("loss", loss.item())


if __name__ == "__main__":
    main()
