"""Two command lines for each command, as ``--help`` shows them after ``gpucloud``.

A test parses every one, and refuses a command without.
"""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, str]] = {
    "offers": ("offers --gpu A100:8 --spot", "offers --gpu H100 --region 'us-*' --why"),
    "cost": ("cost --gpu A100:8 --hours 72", "cost --gpu A100:8 --tokens 2B --throughput 25k --explain"),
    "plan": ("plan --gpu T4 --spot", "plan -f box.yaml --save plan.json"),
    "images": ("images --gpu A100:8", "images --gpu T4 --image pytorch"),
    "equivalents": ("equivalents --gpu A100-80GB:8", "equivalents --gpu H100:4 --by fp16"),
    "prices": ("prices show", "prices history --gpu A100:8 --spot"),
    "prices show": ("prices show", "prices show --json"),
    "prices refresh": ("prices refresh", "prices refresh --gpu A100 --cloud aws"),
    "prices history": (
        "prices history --gpu A100:8 --spot",
        "prices history --gpu T4 --since 30d",
    ),
    "prices diff": ("prices diff 2026-11-01", "prices diff 2026-10-01 2026-11-01 --gpu A100"),
    "prices watch": (
        "prices watch --gpu T4 --spot --below 0.20",
        "prices watch --gpu T4 --spot --below 0.20 --once --exec ./train.sh",
    ),
    "commitments": ("commitments", "commitments --json"),
    "launch": ("launch --gpu A100:8 --count 3 --spread region", "launch --preset train --name trainer --yes"),
    "list": ("list", "list --all --live"),
    "show": ("show trainer", "show trainer --live --json"),
    "ssh": ("ssh trainer", "ssh trainer -- -L 8888:localhost:8888"),
    "ssh-config": ("ssh-config", "ssh-config --install"),
    "hosts": ("hosts trainer", "hosts trainer --format ansible"),
    "forward": ("forward trainer 8888", "forward trainer 8888:9999 6006"),
    "setup": ("setup trainer", "setup trainer --json"),
    "exec": ("exec trainer -- nvidia-smi", "exec trainer --detach -- python train.py"),
    "sync": ("sync ./src trainer:src", "sync trainer:results ./results"),
    "logs": ("logs trainer -f", "logs trainer --job run --since 1h"),
    "extend": ("extend trainer --ttl 12h", "extend trainer --ttl none"),
    "stop": ("stop trainer", "stop trainer --keep 30d --yes"),
    "start": ("start trainer", "start trainer --ttl 8h --max-price 1.20 --yes"),
    "move": ("move trainer --to azure", "move trainer --to us-west-2 --path results --yes"),
    "down": ("down trainer", "down --all --yes"),
    "snapshot": ("snapshot list", "snapshot create monday --of data"),
    "snapshot create": (
        "snapshot create monday --of data",
        "snapshot create my-image --of trainer --keep 90d --yes",
    ),
    "snapshot list": ("snapshot list", "snapshot list --all --json"),
    "snapshot show": ("snapshot show monday", "snapshot show monday --json"),
    "snapshot restore": (
        "snapshot restore monday --to data-2",
        "snapshot restore monday --to data-2 --zone use1-az2 --yes",
    ),
    "snapshot delete": ("snapshot delete monday", "snapshot delete monday --yes"),
    "volume": ("volume list", "volume create data --size 500 --near A100:8"),
    "volume create": (
        "volume create data --size 500 --near A100:8",
        "volume create data --size 1TB --region us-east-1 --keep 90d --yes",
    ),
    "volume list": ("volume list", "volume list --all --json"),
    "volume show": ("volume show data", "volume show data --json"),
    "volume delete": ("volume delete data", "volume delete data --yes"),
    "run": (
        "run --gpu T4 --ttl 1h -- pytest -m gpu",
        "run --gpu A100 --spot --restarts 5 --fetch out -- python train.py",
    ),
    "runs": ("runs list", "runs show nightly"),
    "runs list": ("runs list", "runs list --all --sort-by=-age"),
    "runs show": ("runs show nightly", "runs show nightly --json"),
    "runs cancel": ("runs cancel nightly", "runs cancel nightly --yes"),
    "runs logs": ("runs logs nightly", "runs logs nightly -f"),
    "tend": ("tend", "tend --every 60s"),
    "k8s": (
        "k8s manifests cluster.yaml --image registry.lab/gpucloud:0.1.0 --server https://10.0.0.5:6443",
        "k8s serve cluster.yaml --cert s.crt --key s.key --client-ca ca.crt --server https://10.0.0.5:6443",
    ),
    "k8s manifests": (
        "k8s manifests cluster.yaml --image registry.lab/gpucloud:0.1.0 --server https://10.0.0.5:6443",
        "k8s manifests cluster.yaml --image gpucloud:0.1.0 --server https://10.0.0.5:6443 --part kueue",
    ),
    "k8s serve": (
        "k8s serve cluster.yaml --cert s.crt --key s.key --client-ca ca.crt --server https://10.0.0.5:6443",
        "k8s serve lab.yaml --cert s.crt --key s.key --client-ca ca.crt --server https://k --token-file f",
    ),
    "sweep": ("sweep --dry-run", "sweep --older-than 2h --yes"),
    "recover": ("recover", "recover --json"),
    "spend": ("spend --since 30d", "spend --by month,cloud --csv"),
    "check": ("check", "check --policy aws"),
    "audit": ("audit --last 20", "audit --since 1h"),
    "sandbox": ("sandbox status", "sandbox stock 0 --type g4dn.xlarge"),
    "sandbox start": ("sandbox start", "sandbox start --review off"),
    "sandbox stop": ("sandbox stop", "sandbox stop --force"),
    "sandbox status": ("sandbox status", "sandbox status --json"),
    "sandbox reset": ("sandbox reset", "sandbox reset --json"),
    "sandbox pace": ("sandbox pace", "sandbox pace --latency 0.2"),
    "sandbox calls": ("sandbox calls", "sandbox calls --json"),
    "sandbox stock": ("sandbox stock", "sandbox stock 0 --type g4dn.xlarge"),
    "sandbox price": ("sandbox price", "sandbox price x1.5 --type g4dn.xlarge"),
    "sandbox fault": ("sandbox fault", "sandbox fault throttle --cloud aws --times 3"),
    "sandbox interrupt": ("sandbox interrupt trainer", "sandbox interrupt trainer --notice 30"),
    "sandbox gpu": ("sandbox gpu lost", "sandbox gpu memory --times 2"),
    "sandbox clock": ("sandbox clock", "sandbox clock 3600"),
    "sandbox address": ("sandbox address", "sandbox address 203.0.113.9"),
    "sandbox control": (
        "sandbox control aws commit per_hour=10 until=2027-05-31",
        "sandbox control aws deny actions='[\"ec2:RunInstances\"]'",
    ),
    "schema": ("schema", "schema offers"),
    "completion": ("completion bash", "completion zsh"),
    "version": ("version", "version --paths"),
}
"""The examples of each command, by its words."""
