"""Train a detector of rectangles, with anchors, focal loss and boxes: python detector.py"""
import torch
import torch.nn.functional as F
from torch import nn

SIZE, STRIDE = 32, 4


def scene(seed):
    generator = torch.Generator().manual_seed(seed)
    corners = torch.randint(0, SIZE - 12, (1 + seed % 3, 2), generator=generator)
    boxes = torch.cat([corners, corners + torch.randint(6, 12, corners.shape, generator=generator)], 1).float()
    picture = torch.rand(3, SIZE, SIZE, generator=generator) * 0.2
    for left, top, right, bottom in boxes.long().tolist():
        picture[:, top:bottom, left:right] += 0.7
    return picture, {"boxes": boxes, "labels": torch.randint(0, 2, (len(boxes),), generator=generator)}


def overlap(one, other):
    size = (torch.min(one[:, None, 2:], other[:, 2:]) - torch.max(one[:, None, :2], other[:, :2])).clamp(min=0)
    inner, areas = size.prod(-1), [(each[:, 2:] - each[:, :2]).prod(-1) for each in (one, other)]
    return inner / (areas[0][:, None] + areas[1] - inner)


def suppressed(boxes, scores, threshold=0.5):
    stored, order = [], scores.argsort(descending=True)
    while order.numel() and len(stored) < 10:
        stored.append(order[0].item())
        order = order[1:][overlap(boxes[order[:1]], boxes[order[1:]])[0] <= threshold]
    return stored


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.SiLU())
        self.classes, self.sides = nn.Conv2d(32, 2, 3, padding=1), nn.Conv2d(32, 4, 3, padding=1)
        center = (torch.arange(SIZE // STRIDE) + 0.5) * STRIDE
        y, x = torch.meshgrid(center, center, indexing="ij")
        self.register_buffer("anchors", torch.stack([x - 5, y - 5, x + 5, y + 5], -1).view(-1, 4))

    def forward(self, pictures, targets=None):
        features = self.body(torch.stack(pictures))
        logits = self.classes(features).flatten(2).transpose(1, 2)
        boxes = self.anchors + self.sides(features).flatten(2).transpose(1, 2) * 4
        if targets is None:
            return [suppressed(box, score.sigmoid().max(-1).values) for box, score in zip(boxes, logits)]
        losses = {"class": 0.0, "box": 0.0}
        for box, logit, target in zip(boxes, logits, targets):
            best, which = overlap(self.anchors, target["boxes"]).max(1)
            wanted = torch.zeros_like(logit)
            found = best > 0.3
            wanted[found, target["labels"][which[found]]] = 1.0
            chance = logit.sigmoid()
            weight = (wanted * (1 - chance) + (1 - wanted) * chance).pow(2)
            losses["class"] = losses["class"] + (weight * F.binary_cross_entropy_with_logits(logit, wanted, reduction="none")).sum()
            losses["box"] = losses["box"] + F.smooth_l1_loss(box[found] / SIZE, target["boxes"][which[found]] / SIZE, reduction="sum")
        return losses


def main():
    torch.manual_seed(7)
    model = Detector().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    for step in range(4):
        pictures, targets = zip(*(scene(4 * step + number) for number in range(4)))
        pictures = [picture.to("cuda") for picture in pictures]
        targets = [{key: value.to("cuda") for key, value in target.items()} for target in targets]
        losses = model(pictures, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            print("loss", loss.item(), "found", [len(each) for each in model(pictures)])


if __name__ == "__main__":
    main()
