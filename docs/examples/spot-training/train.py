"""Counts to a number of steps, as a training would, also when its box is lost: `python3 train.py 200`."""

import json
import os
import sys
import time
from pathlib import Path

STEP_S = 0.1
folder = Path(os.environ["GPUCLOUD_CHECKPOINT_DIR"])
steps = int(sys.argv[1])
begun_at = max((int(file.suffix[1:]) for file in folder.glob("step.*")), default=0)

for step in range(begun_at + 1, steps + 1):
    time.sleep(STEP_S)
    if step % 10 == 0:
        written = folder / "unfinished"
        written.write_text("the weights")
        written.rename(folder / f"step.{step}")
        print("step", step, flush=True)

restarts = int(os.environ["GPUCLOUD_RESTARTS"])
Path("result.json").write_text(json.dumps({"steps": steps, "restarts": restarts, "begun_at": begun_at}))
