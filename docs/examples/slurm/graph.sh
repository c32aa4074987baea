#!/bin/sh
# A graph of jobs: prepare in parallel, train on two nodes when all of it is there, report in any case.
# Usage: graph.sh PARTITION
set -eu
prepare=$(sbatch --parsable --partition="$1" --array=1-4%2 --time=10 --wrap='echo part $SLURM_ARRAY_TASK_ID')
train=$(sbatch --parsable --partition="$1" --nodes=2 --time=10 --dependency="afterok:$prepare" \
  --wrap='srun sh -c "echo rank \$SLURM_PROCID"')
sbatch --parsable --partition="$1" --time=10 --dependency="afterany:$train" --wrap='echo report'
