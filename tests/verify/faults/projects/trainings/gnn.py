"""Train a graph network over a sparse adjacency: python gnn.py"""
import torch
import torch.nn.functional as F
from torch import nn


def adjacency(nodes, edges):
    generator = torch.Generator().manual_seed(2)
    ends = torch.randint(0, nodes, (2, edges), generator=generator)
    ends = torch.cat([ends, ends.flip(0), torch.arange(nodes).repeat(2, 1)], 1)
    matrix = torch.sparse_coo_tensor(ends, torch.ones(ends.shape[1]), (nodes, nodes)).coalesce()
    degree = torch.sparse.sum(matrix, 1).to_dense().rsqrt()
    rows, columns = matrix.indices()
    return torch.sparse_coo_tensor(matrix.indices(), degree[rows] * matrix.values() * degree[columns], matrix.shape)


class GraphConvolution(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inner, outer))
        self.bias = nn.Parameter(torch.zeros(outer))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, features, matrix):
        return torch.sparse.mm(matrix, features @ self.weight) + self.bias


class GraphNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphConvolution(16, 32), GraphConvolution(32, 4)

    def forward(self, features, matrix):
        hidden = F.dropout(F.relu(self.first(features, matrix)), 0.5, self.training)
        return self.second(hidden, matrix)


def main():
    torch.manual_seed(8)
    matrix = adjacency(120, 400).cuda()
    features = torch.randn(120, 16).cuda()
    labels = torch.randint(0, 4, (120,)).cuda()
    known = (torch.arange(120) % 3 == 0).cuda()
    model = GraphNetwork().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(4):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features, matrix)[known], labels[known])
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(features, matrix).argmax(1) == labels)[~known].float().mean()
        print("loss", loss.item(), "right", right.item())


if __name__ == "__main__":
    main()
