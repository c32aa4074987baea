"""docs/slurm.md: its cluster and its commands, as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.engines.slurm.lab import laboratory
from tests.pages import ROOT
from tests.waiting import until

PAGE = ROOT / "docs" / "slurm.md"


def test_the_commands_of_the_page_do_what_it_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    [cluster], commands = (
        re.findall(r"```yaml\n(.*?)```", text, re.DOTALL),
        re.findall(r"```sh\n(.*?)```", text, re.DOTALL),
    )
    assert [command.split()[0] for command in commands] == ["gpucloud", "sbatch", "gpucloud"]
    with laboratory(cluster.replace("max: 8", "clouds: [aws], max: 8")) as lab:  # its paths are short
        path = f"{Path(sys.executable).parent}:{lab.variables['PATH']}"
        for command in commands:
            environment = {**lab.variables, "PATH": path}
            ran = subprocess.run(
                ["bash", "-c", command], env=environment, cwd=lab.shell.home, capture_output=True, check=False
            )
            assert ran.returncode == 0, f"{command}: {ran.stderr.decode()}"
        until(lambda: lab.state("1") == "CD", "the job")
        assert len((lab.shell.home / "slurm-1.out").read_text().splitlines()) == 2, "both ranks"
