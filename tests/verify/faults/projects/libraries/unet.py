"""Train a small UNet of diffusers to take noise from pictures: python unet.py"""
import vision  # before what imports torchvision
import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel


def main():
    torch.manual_seed(5)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = UNet2DModel(sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(16, 32),
                        norm_num_groups=8, attention_head_dim=8, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                        up_block_types=("AttnUpBlock2D", "UpBlock2D")).to(device)
    scheduler = DDPMScheduler(num_train_timesteps=100)
    average = EMAModel(model.parameters(), decay=0.99)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        clean = torch.randn(4, 1, 16, 16).to(device)
        noise = torch.randn(clean.shape, device=device)
        timesteps = torch.randint(0, scheduler.config.num_train_timesteps, (4,), device=device).long()
        noisy = scheduler.add_noise(clean, noise, timesteps)
        loss = F.mse_loss(model(noisy, timesteps, return_dict=False)[0], noise)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.step(model.parameters())
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
