"""With `use_reentrant=True`, DataParallel raises where a region reads a parameter by closure."""

import multiprocessing
import os

import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.utils.launch_utils import find_free_ports


class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return recompute(self.second, self.first(x), use_reentrant=True)


def on_rank(rank, places):
    os.environ |= {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ENDPOINTS": ",".join(places),
        "PADDLE_CURRENT_ENDPOINT": places[rank],
        "PADDLE_DISTRI_BACKEND": "gloo",
    }
    paddle.set_device("cpu")
    dist.init_parallel_env()
    network = paddle.DataParallel(Network())
    message = ""
    try:
        network(paddle.ones([2, 4])).sum().backward()
    except OSError as error:
        message = str(error)
    assert "has been ready before" in message
    dist.barrier()


if __name__ == "__main__":
    places = [f"127.0.0.1:{port}" for port in sorted(find_free_ports(2))]
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=on_rank, args=(rank, places)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    assert [process.exitcode for process in ranks] == [0, 0]
