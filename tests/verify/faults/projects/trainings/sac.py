"""Train a continuous policy with soft actor-critic: python sac.py"""
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal

device = "cuda" if torch.cuda.is_available() else "cpu"


def layers(inner, outer):
    return nn.Sequential(nn.Linear(inner, 32), nn.ReLU(), nn.Linear(32, outer))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers(3, 2)

    def forward(self, state):
        mean, log_std = self.layers(state).chunk(2, -1)
        chosen = Normal(mean, log_std.clamp(-5, 2).exp())
        raw = chosen.rsample()
        action = torch.tanh(raw)
        return action, (chosen.log_prob(raw) - torch.log1p(-action.pow(2) + 1e-6)).sum(-1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = layers(4, 1), layers(4, 1)

    def forward(self, state, action):
        both = torch.cat([state, action], -1)
        return self.one(both).squeeze(-1), self.other(both).squeeze(-1)


def main():
    torch.manual_seed(12)
    actor, critic = Actor().to(device), Critic().to(device)
    target = copy.deepcopy(critic).requires_grad_(False)
    log_alpha = torch.zeros((), device=device, requires_grad=True)
    of_actor, of_critic = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (actor, critic))
    of_alpha = torch.optim.Adam([log_alpha], lr=1e-3)
    for _ in range(2):
        state = torch.randn(64, 3, device=device)
        action, following = torch.rand(64, 1, device=device) * 2 - 1, state + 0.1 * torch.randn_like(state)
        reward, done = -state.square().sum(-1) - action.square().squeeze(-1), (state[:, 0] > 1).float()
        with torch.no_grad():
            chosen, log = actor(following)
            value = torch.minimum(*target(following, chosen)) - log_alpha.exp() * log
            wanted = reward + 0.99 * (1 - done) * value
        loss = sum(F.mse_loss(each, wanted) for each in critic(state, action))
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        chosen, log = actor(state)
        gain = (log_alpha.exp().detach() * log - torch.minimum(*critic(state, chosen))).mean()
        of_actor.zero_grad()
        gain.backward()
        of_actor.step()
        of_alpha.zero_grad()
        (-log_alpha * (log.detach() - 1).mean()).backward()
        of_alpha.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(target.parameters()), list(critic.parameters()), 0.005)
        print(loss.item(), gain.item())


if __name__ == "__main__":
    main()
