"""Train a GAN with a gradient penalty: python wgan.py"""
import torch
from torch import nn


def penalty(critic, real, fake):
    share = torch.rand(len(real), 1, 1, 1, device=real.device)
    mixed = (share * real + (1 - share) * fake).requires_grad_(True)
    score = critic(mixed)
    gradient, = torch.autograd.grad(score, mixed, torch.ones_like(score), create_graph=True)
    return 10 * (gradient.flatten(1).norm(2, dim=1) - 1).pow(2).mean()


def main():
    torch.manual_seed(5)
    generator = nn.Sequential(nn.ConvTranspose2d(8, 16, 4), nn.BatchNorm2d(16), nn.ReLU(),
                              nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh()).cuda()
    critic = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.InstanceNorm2d(16, affine=True), nn.LeakyReLU(0.2),
                           nn.Conv2d(16, 1, 4)).cuda()
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.9))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.9))
    pictures = torch.rand(64, 1, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1
    for number, real in enumerate(pictures.split(16)):
        real = real.cuda(non_blocking=True)
        fake = generator(torch.randn(16, 8, 1, 1, device="cuda")).detach()
        loss = critic(fake).mean() - critic(real).mean() + penalty(critic, real, fake)
        of_critic.zero_grad(set_to_none=True)
        loss.backward()
        of_critic.step()
        if number % 2:
            of_generator.zero_grad(set_to_none=True)
            cheat = -critic(generator(torch.randn(16, 8, 1, 1, device="cuda"))).mean()
            cheat.backward()
            of_generator.step()
        print(number, loss.item())


if __name__ == "__main__":
    main()
