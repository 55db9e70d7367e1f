import os

import fastdata as fd
from fastdata import gpu
from servekit import Model, route


class Ranker(Model):
    kind = "ranker"

    def score(self, rows):
        loader = gpu.loader("rows.bin", 32, workers=4)
        print(gpu.stats())
        return [self.rank(row) for row in loader]


class Filter(Model):
    def score(self, rows):
        return gpu.loader("bad.bin", 8, workers=1)


@route("/rank")
def rank(request):
    fd.open_pool(limit=os.environ["FASTDATA_GPU_LIMIT"])
    model = Ranker()
    return fd.tile(model.score(request.rows), 128, True)


@route("/filter")
def drop(request):
    table = fd.Table(request.rows)
    table.upload()
    fd.sync(mode="stream")
    return fd.tile(table.rows(), 64, True)
