"""How frameworks write checkpoints: the next box finds the newest whole one, and never half of one.

Each stand-in does the operations of its framework on files, and stops once in the middle of a save.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.templates.conftest import Box

SIZE = 100_000
"""More than what is copied in any case."""

Save = Callable[[Path, int], Iterator[None]]


def text(step: int, part: str) -> str:
    """What a file of a step holds."""
    return f"{part} of {step} ".ljust(SIZE, str(step))


def put(file: Path, step: int, part: str) -> None:
    file.write_text(text(step, part))


def half(file: Path, step: int, part: str) -> Iterator[None]:
    """Writes a file, and stops when half of it is there."""
    whole = text(step, part)
    with file.open("w") as out:
        out.write(whole[: SIZE // 2])
        out.flush()
        yield
        out.write(whole[SIZE // 2 :])


def takes_time(*paths: Path) -> None:
    """Has files and folders be of a second ago: what follows is later by the clock of the file system."""
    for path in paths:
        os.utime(path, (path.stat().st_mtime - 1,) * 2)


def torch_save(folder: Path, step: int) -> Iterator[None]:
    """PyTorch: ``torch.save`` to another name, then ``os.replace``."""
    yield from half(folder / "last.pt.tmp", step, "model")
    (folder / "last.pt.tmp").replace(folder / "last.pt")


def torch_dcp(folder: Path, step: int) -> Iterator[None]:
    """PyTorch: ``torch.distributed.checkpoint``, whose ``.metadata`` is renamed last."""
    own = folder / f"step-{step}"
    own.mkdir()
    put(own / "__0_0.distcp", step, "rank 0")
    yield
    put(own / "__1_0.distcp", step, "rank 1")
    put(own / ".metadata.tmp", step, "metadata")
    (own / ".metadata.tmp").rename(own / ".metadata")
    shutil.rmtree(folder / f"step-{step - 1}", ignore_errors=True)


def lightning(folder: Path, step: int) -> Iterator[None]:
    """Lightning's ``ModelCheckpoint`` writes under the final name, then deletes the older one."""
    yield from half(folder / f"epoch={step}.ckpt", step, "model")
    (folder / f"epoch={step - 1}.ckpt").unlink(missing_ok=True)


def hugging_face(folder: Path, step: int) -> Iterator[None]:
    """Hugging Face's ``Trainer``: a folder whose ``trainer_state.json`` comes last."""
    own = folder / f"checkpoint-{step}"
    own.mkdir()
    put(own / "model.safetensors", step, "model")
    yield
    for name in ("optimizer.pt", "rng_state.pth", "trainer_state.json"):
        put(own / name, step, name)
    shutil.rmtree(folder / f"checkpoint-{step - 1}", ignore_errors=True)


def deepspeed(folder: Path, step: int) -> Iterator[None]:
    """DeepSpeed's ``save_checkpoint``: a folder, then ``latest`` beside it, written in place."""
    own = folder / f"global_step{step}"
    own.mkdir()
    takes_time(*folder.rglob("*"))
    put(own / "mp_rank_00_model_states.pt", step, "model")
    yield
    put(own / "zero_pp_rank_0_mp_rank_00_optim_states.pt", step, "optimizer")
    shutil.rmtree(folder / f"global_step{step - 1}", ignore_errors=True)
    (folder / "latest").write_text(f"global_step{step}")


def orbax(folder: Path, step: int) -> Iterator[None]:
    """JAX's Orbax: a folder under a temporary name, renamed when it is whole."""
    draft = folder / f"{step}.orbax-checkpoint-tmp-1"
    (draft / "default" / "d").mkdir(parents=True)
    put(draft / "default" / "d" / "data", step, "model")
    yield
    put(draft / "_CHECKPOINT_METADATA", step, "metadata")
    takes_time(draft, *draft.rglob("*"))
    draft.rename(folder / str(step))
    shutil.rmtree(folder / str(step - 1), ignore_errors=True)


def tensorflow(folder: Path, step: int) -> Iterator[None]:
    """``tf.train.CheckpointManager``: data, index, and last ``checkpoint``, which is renamed."""
    if step > 1:
        takes_time(*folder.iterdir())
    put(folder / f"ckpt-{step}.data-00000-of-00001", step, "data")
    yield
    put(folder / f"ckpt-{step}.index", step, "index")
    (folder / "checkpoint.tmp").write_text(f'model_checkpoint_path: "ckpt-{step}"\n')
    (folder / "checkpoint.tmp").rename(folder / "checkpoint")
    for old in folder.glob(f"ckpt-{step - 1}.*"):
        old.unlink()


def keras(folder: Path, step: int) -> Iterator[None]:
    """Keras: ``model.save("model.keras")``, one file, written in place."""
    yield from half(folder / "model.keras", step, "model")


FRAMEWORKS: list[tuple[Save, str]] = [
    (torch_save, ""),
    (torch_dcp, "*/.metadata"),
    (lightning, ""),
    (hugging_face, "*/trainer_state.json"),
    (deepspeed, "latest"),
    (orbax, ""),
    (tensorflow, "checkpoint"),
    (keras, ""),
]


@pytest.mark.parametrize(("save", "marker"), FRAMEWORKS, ids=[save.__name__ for save, _ in FRAMEWORKS])
def test_the_next_box_finds_the_newest_whole_checkpoint_of(
    box: Callable[..., Box], save: Save, marker: str
) -> None:
    one = box("one")
    one.begin(1, marker=marker)
    list(save(one.saved, 1))
    one.upload()
    first = one.files()
    saving = save(one.saved, 2)
    next(saving)
    one.upload()
    during = box("during")
    during.begin(2)
    assert during.files() == first, "a save that goes on is no part of it"
    list(saving)
    one.upload()
    after = box("after")
    after.begin(3)
    assert after.files() == one.files()
    assert all("of 1 " not in text for text in after.files().values())
