"""Train a policy that walks on a ring with PPO: python ppo.py"""
import torch
from torch import nn
from torch.distributions import Categorical

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 3), nn.Linear(32, 1)

    def forward(self, state):
        hidden = self.body(state)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1)


def observed(place):
    angle = place.float() * (2 * torch.pi / 12)
    return torch.stack([angle.sin(), angle.cos(), (place % 3).float(), (place & 1).float()], dim=-1)


@torch.no_grad()
def rollout(model, place, length=8):
    states, actions, logs, rewards, values = [], [], [], [], []
    for _ in range(length):
        state = observed(place)
        policy, value = model(state)
        action = policy.sample()
        place = (place + action - 1) % 12
        reward = (place == 0).float() - 0.1 * (action != 1).float()
        for stored, one in ((states, state), (actions, action), (logs, policy.log_prob(action)), (rewards, reward), (values, value)):
            stored.append(one)
    advantage, advantages = torch.zeros_like(values[0]), []
    following = model(observed(place))[1]
    for reward, value in zip(reversed(rewards), reversed(values)):
        advantage = reward + 0.99 * following - value + 0.99 * 0.95 * advantage
        following = value
        advantages.insert(0, advantage)
    advantages = torch.stack(advantages)
    returns = advantages + torch.stack(values)
    return [torch.cat(list(each)) for each in (states, actions, logs)] + [advantages.flatten(), returns.flatten()], place


def main():
    torch.manual_seed(4)
    model = ActorCritic().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-5)
    place = torch.randint(0, 12, (16,), device=device)
    for _ in range(2):
        (states, actions, logs, advantages, returns), place = rollout(model, place)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        order = torch.randperm(len(states), device=device)
        for batch in order.split(64):
            policy, value = model(states[batch])
            ratio = (policy.log_prob(actions[batch]) - logs[batch]).exp()
            gain = torch.min(ratio * advantages[batch], ratio.clamp(0.8, 1.2) * advantages[batch]).mean()
            loss = -gain + 0.5 * (returns[batch] - value).pow(2).mean() - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            print("loss", loss.item())


if __name__ == "__main__":
    main()
