import torch.nn as nn


class Tagger(nn.Module):
    """A tag for every character: embedding, LSTM of two layers, linear layer. The state goes from batch to batch."""

    def __init__(self, characters, tags, width=16):
        super().__init__()
        self.embedding = nn.Embedding(characters, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.1)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tags)
        nn.init.constant_(self.lstm.bias_hh_l0[width : 2 * width], 1.0)  # the gate that forgets is open at first

    def forward(self, text, state):
        hidden, state = self.lstm(self.embedding(text), state)
        return self.head(self.norm(hidden)), state
