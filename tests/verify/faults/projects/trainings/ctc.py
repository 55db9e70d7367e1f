"""Train a recogniser of letters in sound with CTC: python ctc.py"""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sounds(Dataset):
    def __init__(self, number):
        self.seeds = range(number)

    def __len__(self):
        return len(self.seeds)

    def __getitem__(self, item):
        generator = torch.Generator().manual_seed(item)
        frames = 20 + 2 * (item % 5)
        return torch.randn(frames, 12, generator=generator), torch.randint(1, 9, (3 + item % 3,), generator=generator)


def collate(samples):
    samples = sorted(samples, key=lambda each: -len(each[0]))
    sounds, letters = zip(*samples)
    return (pad_sequence(sounds, batch_first=True), torch.tensor([len(each) for each in sounds]),
            pad_sequence(letters, batch_first=True), torch.tensor([len(each) for each in letters]))


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(12, 24, 3, padding=1)
        self.rnn = nn.LSTM(24, 16, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.head = nn.Linear(32, 9)

    def forward(self, sounds, lengths):
        hidden = self.conv(sounds.transpose(1, 2)).relu().transpose(1, 2)
        packed = pack_padded_sequence(hidden, lengths.cpu(), batch_first=True)
        hidden, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.head(hidden).log_softmax(-1)


def main():
    torch.manual_seed(6)
    model = Recogniser().cuda()
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for sounds, lengths, letters, sizes in DataLoader(Sounds(32), batch_size=8, shuffle=True, collate_fn=collate):
        sounds, letters = sounds.cuda(), letters.cuda()
        loss = criterion(model(sounds, lengths).transpose(0, 1), letters, lengths, sizes)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
