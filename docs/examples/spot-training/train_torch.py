"""Trains a small network with PyTorch, on a GPU or on processors, also when its box is lost.

`python3 train_torch.py 2000` takes 2,000 steps. Model, optimizer, the state of the random numbers and the
step are one checkpoint: what follows is what would have followed without a loss.
"""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

EACH, KEPT, ROWS, WIDTH = 100, 2, 512, 1024
folder = Path(os.environ.get("GPUCLOUD_CHECKPOINT_DIR", "checkpoints"))
folder.mkdir(exist_ok=True)
steps = int(sys.argv[1])
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(16, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
teacher = torch.randn(16, 1)
rows = torch.Generator().manual_seed(1)


def path(step: int) -> Path:
    """The checkpoint of a step."""
    return folder / f"step-{step}.pt"


def save(step: int) -> None:
    """Writes a checkpoint under another name before it renames it, and deletes the one before the last."""
    learned = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({"step": step, "rows": rows.get_state(), **learned}, folder / "draft.pt")
    (folder / "draft.pt").rename(path(step))
    path(step - KEPT * EACH).unlink(missing_ok=True)


begun_at = max((int(file.stem[5:]) for file in folder.glob("step-*.pt")), default=0)
if begun_at:
    state = torch.load(path(begun_at), map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    rows.set_state(state["rows"].cpu())

loss = torch.tensor(0.0)
for step in range(begun_at + 1, steps + 1):
    x = torch.randn(ROWS, 16, generator=rows)
    y = torch.sin(x @ teacher)
    loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % EACH == 0:
        save(step)
        print(f"step {step}: loss {loss.item():.5f}", flush=True)

result = {"steps": steps, "begun_at": begun_at, "loss": loss.item(), "device": device.type}
Path("result.json").write_text(json.dumps(result))
