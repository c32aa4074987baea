"""Fits a line on every GPU of every node: `torchrun train.py`; without PyTorch: `train.py --rehearse`."""

import json
import os
import socket
import sys
import time
from pathlib import Path

STEPS, ROWS = 300, 256


def train() -> None:
    """Each rank has rows of its own; DDP averages the gradients, so all ranks keep the same model."""
    import torch
    from torch import distributed, nn

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if cuda else "gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(rank)
    x = torch.rand(ROWS, 1, device=device)
    y = 3 * x + 1
    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    if rank == 0:
        torch.save(model.module.state_dict(), "model.pt")
        slope, start = model.module.weight.item(), model.module.bias.item()
        print(f"{ranks} ranks: y = {slope:.2f} x + {start:.2f}")
    distributed.destroy_process_group()


def rehearse() -> None:
    """Meets all ranks where torchrun would: the first node writes who came, and lets them go."""
    rank, nodes = int(os.environ["NODE_RANK"]), int(os.environ["NNODES"])
    meeting = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank > 0:
        with reached(meeting) as first:
            first.sendall(bytes([rank]))
            first.recv(1)
        return
    with socket.create_server(meeting) as server:
        others = [server.accept()[0] for _ in range(nodes - 1)]
    came = sorted([rank, *(other.recv(1)[0] for other in others)])
    for other in others:
        other.close()
    if came != list(range(nodes)):
        sys.exit(f"these ranks came: {came}")
    Path("ranks.json").write_text(json.dumps({"ranks": came, "gpus_per_node": os.environ["GPUS_PER_NODE"]}))


def reached(meeting: tuple[str, int]) -> socket.socket:
    """A connection to the first node, which may not listen yet."""
    while True:
        try:
            return socket.create_connection(meeting)
        except ConnectionRefusedError:
            time.sleep(0.1)


if __name__ == "__main__":
    rehearse() if "--rehearse" in sys.argv else train()
