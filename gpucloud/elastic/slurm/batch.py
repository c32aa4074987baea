"""Templates for ``sbatch``, one for each preset. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucloud.elastic.slurm.shapes import SlurmShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A batch script: what it is for, its options and its commands."""

    about: str
    options: Sequence[str]
    commands: Sequence[str]


TEMPLATES: Mapping[str, Template] = {
    "train": Template(
        about="A training on several nodes, which goes on from its checkpoint after an interruption.",
        options=("--nodes=2", "--ntasks-per-node=1", "--time=12:00:00", "--requeue", "--open-mode=append"),
        commands=(
            "# A node that its cloud takes back gets SIGTERM first: write a checkpoint then.",
            'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            'srun torchrun --nnodes="$SLURM_NNODES" --nproc-per-node="$SLURM_GPUS_ON_NODE" \\',
            '  --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d --rdzv-endpoint="$first:29500" \\',
            '  train.py --resume-from checkpoints "$@"',
        ),
    ),
    "infer": Template(
        about="A server on one node, until its time is over.",
        options=("--nodes=1", "--time=1-00:00:00", "--requeue"),
        commands=('srun python serve.py "$@"',),
    ),
    "render": Template(
        about="One frame per task of an array, at most 20 at a time; a frame that is lost is rendered again.",
        options=("--nodes=1", "--array=1-240%20", "--time=1:00:00", "--requeue"),
        commands=('srun blender --background "$1" --render-frame "$SLURM_ARRAY_TASK_ID"',),
    ),
    "science": Template(
        about="A computation with MPI on several nodes.",
        options=("--nodes=2", "--ntasks-per-node=4", "--time=4:00:00", "--requeue"),
        commands=('srun --mpi=pmix "$@"',),
    ),
}


def template(name: str, shapes: Sequence[SlurmShape]) -> str:
    """A batch script for a preset; its class is the first of the cluster, which the user changes."""
    chosen, shape = TEMPLATES[name], shapes[0]
    lines = [
        "#!/bin/bash",
        f"# {chosen.about}",
        f"# Classes of this cluster: {', '.join(each.node_class for each in shapes)}.",
        f"#SBATCH --job-name={name}",
        f"#SBATCH --partition={shape.node_class}",
        f"#SBATCH --gpus-per-node={shape.gres}:{shape.gpus}",
        *(f"#SBATCH {option}" for option in chosen.options),
        "# Refused when submitted if it may cost more: nodes x time x max_price of the class.",
        "##SBATCH --comment=max-usd=25",
        "",
        *chosen.commands,
        "",
    ]
    return "\n".join(lines)
