import os

import fastdata as fd
import servekit.npu
from fastdata import gpu
from servekit import Model, route


class Ranker(servekit.npu.Mixin, Model):
    kind = "ranker"

    def score(self, rows):
        loader = fd.npu_loader("rows.bin", batch=32, workers=4)
        print(gpu.stats())
        return [self.rank(row) for row in loader]


class Filter(servekit.npu.Mixin, Model):
    def score(self, rows):
        return fd.npu_loader("bad.bin", batch=8, workers=1)


@route("/rank")
def rank(request):
    fd.open_pool(limit=os.environ["FASTDATA_NPU_LIMIT"])
    fd.warm_up()
    model = Ranker()
    return fd.tiled(128, model.score(request.rows))


@route("/filter")
def drop(request):
    table = fd.Table(request.rows)
    table.to_npu()
    fd.sync(mode="queue")
    rows = table.rows()
    return fd.tiled(64, rows[: len(rows) // 2])
