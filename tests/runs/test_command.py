"""Which script a command certainly reads, and would not find on its box."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucloud.errors import UsageError
from gpucloud.runs.command import refuse_absent
from gpucloud.sources.selection import SyncSource, select
from gpucloud.spec.model import Spec


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder has two scripts, and one in a folder."""
    (tmp_path / "code").mkdir()
    for name in ("train.py", "prepare.sh", "code/prepare.sh"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "python3 train.py",
        "python train.py --epochs 3 >log 2>&1 | tee all",
        "set -e; export A=b; nvidia-smi && echo 'on; it goes' && python -u ./train.py & wait",
        "pip install -q torch\nSEED=1 exec torchrun --nproc_per_node 8 \\\n train.py",
        "./train.py",
        "nohup bash prepare.sh && python elsewhere.py",
    ],
)
@pytest.mark.parametrize("shell", [("sh", "-c"), ("/bin/bash", "-e", "-lc"), None])
def test_a_shell_text_that_reads_a_script_from_here_is_refused(
    text: str, shell: tuple[str, ...] | None
) -> None:
    with pytest.raises(UsageError, match=r"\.(py|sh) is here, not on the box"):
        refuse_absent(text if shell is None else [*shell, text], Spec(), [])


@pytest.mark.parametrize(
    "text",
    [
        "curl -o train.py https://example.com/train.py; python train.py",
        "wget https://example.com/train.py && python train.py",
        "git clone https://example.com/x . && python train.py",
        "cd code && python train.py",
        "echo 'print(1)' >train.py; python train.py",
        "echo 'print(1)' | tee train.py; python train.py",
        "cat >train.py <<END\nprint(1)\nEND\npython train.py",
        "echo `wget https://example.com/train.py`; python train.py",
        'echo "$(wget https://example.com/train.py)"; python train.py',
        "pip install --target . made; python train.py",
        "python -m made; python train.py",
        'python -c \'open("train.py", "w")\'; python train.py',
        "test -f train.py && python train.py",
        "python train.py 2>/dev/null || python -m http.server",
        "if python train.py; then true; fi",
        "(cd code; python train.py)",
        "python made.py --out train.py",
        "echo ';' python train.py",
        "echo \\; python train.py",
        "echo '# python train.py'  # python train.py",
        "wget -O train.py https://example.com/train.py",
        "ls >train.py",
        "python 'train.py",
        "",
    ],
)
def test_what_a_shell_text_may_find_is_never_refused(text: str) -> None:
    refuse_absent(["sh", "-c", text], Spec(), [])


def test_a_shell_text_finds_what_travels() -> None:
    travelling = [select(SyncSource("code/", "code/", "."))]
    refuse_absent(["sh", "-c", "sh prepare.sh && python train.py"], Spec(), travelling)
    with pytest.raises(UsageError, match=r"train\.py is here, not on the box"):
        refuse_absent(["sh", "-c", "python train.py"], Spec(), travelling)


@pytest.mark.parametrize("words", [("sh",), ("sh", "-c"), ("sh", "-x", "none.sh"), ("bash", "-o", "errexit")])
def test_a_shell_without_a_text_is_left_alone(words: tuple[str, ...]) -> None:
    refuse_absent(words, Spec(), [])
