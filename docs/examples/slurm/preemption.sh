#!/bin/sh
# Fair shares of two teams, and a QOS whose jobs requeue those of another. For slurm.conf, with slurmdbd:
#   PreemptType=preempt/qos
#   PreemptMode=REQUEUE
#   PriorityType=priority/multifactor
#   PriorityWeightFairshare=10000
#   AccountingStorageEnforce=associations,limits,qos
# Usage: preemption.sh USER
set -eu
sacctmgr -i add account research fairshare=80
sacctmgr -i add account teaching fairshare=20
sacctmgr -i add qos low
sacctmgr -i add qos high preempt=low priority=100
sacctmgr -i add user "$1" account=research qos=low,high defaultqos=low
sacctmgr -i add user "$1" account=teaching qos=low defaultqos=low
