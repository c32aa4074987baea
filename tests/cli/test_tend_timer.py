"""``tend --install``: a timer of the user's system, here with programs that stand for the system's own."""

from __future__ import annotations

import os
import plistlib
import subprocess
from pathlib import Path

import pytest

from tests.shell import Shell

RECORDS = """#!/bin/sh
echo "$(basename "$0") $*" >>"$SEEN"
"""
CRON = """#!/bin/sh
if [ "$1" = -l ]; then cat "$SEEN.crontab" 2>/dev/null; else cat >"$SEEN.crontab"; fi
"""
PROGRAMS = {
    "systemd": {"systemctl": RECORDS, "loginctl": RECORDS},
    "launchd": {"launchctl": RECORDS},
    "cron": {"crontab": CRON},
}


def system_of(cli: Shell, kind: str, **programs: str) -> dict[str, str]:
    """The variables of a shell that finds the programs of a system; SEEN has what they were told."""
    folder, seen = cli.home / "programs", cli.home / "seen"
    folder.mkdir()
    for name, text in {**PROGRAMS[kind], **programs}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    # Only these, and the shell's own: the machine's systemctl and crontab are somebody else's.
    for name in ("sh", "cat", "basename", "wc", "env", "python3", "ssh", "ssh-keygen", "rsync"):
        found = next((each for each in os.environ["PATH"].split(":") if (Path(each) / name).exists()), None)
        if found is not None and not (folder / name).exists():
            (folder / name).symlink_to(Path(found) / name)
    return {"PATH": str(folder), "SEEN": str(seen), "HOME": str(cli.home)}


def script_of(cli: Shell) -> Path:
    [script] = cli.home.glob("**/tend.sh")
    return script


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_timer_is_written_enabled_and_taken_back(cli: Shell, kind: str) -> None:
    own = system_of(cli, kind)
    seen = Path(own["SEEN"])
    installed = cli("tend", "--install", **own)
    assert (installed.code, f"Installed: {kind}" in " ".join(installed.err.split())) == (0, True), (
        installed.err
    )
    script = script_of(cli)
    assert script.stat().st_mode & 0o777 == 0o700
    match kind:
        case "systemd":
            units = cli.home / ".config/systemd/user"
            assert f'ExecStart="{script}"' in (units / "gpucloud-tend.service").read_text()
            assert seen.read_text().splitlines()[-3:] == [
                "systemctl --user daemon-reload",
                "systemctl --user enable --now gpucloud-tend.timer",
                "loginctl enable-linger",
            ]
        case "launchd":
            agent = cli.home / "Library/LaunchAgents/gpucloud.tend.plist"
            assert plistlib.loads(agent.read_bytes())["ProgramArguments"] == [str(script)]
            assert seen.read_text() == f"launchctl bootstrap gui/{os.getuid()} {agent}\n"
        case _:
            assert Path(f"{seen}.crontab").read_text() == f"*/2 * * * * {script} # gpucloud-tend\n"
    assert cli("tend", "--install", **own).code == 0, "again is the same"
    assert cli("tend", "--uninstall", **own).code == 0
    assert list(cli.home.glob("**/tend.sh")) == []
    assert list(cli.home.glob("**/gpucloud*tend.*")) == []
    if kind == "cron":
        assert Path(f"{seen}.crontab").read_text() == ""
    assert "There was no timer" in cli("tend", "--uninstall", **own).err


def test_the_script_of_the_timer_looks_after_the_runs(cli: Shell) -> None:
    own = system_of(cli, "cron")
    assert cli("tend", "--install", **own).code == 0
    done = subprocess.run([script_of(cli)], env={"PATH": own["PATH"]}, capture_output=True, check=False)
    [log] = cli.home.glob("**/tend.log")
    assert (done.returncode, done.stdout, "0 runs tended" in log.read_text()) == (0, b"", True), (
        log.read_text()
    )


def test_what_is_only_in_this_shell_refuses_a_timer_and_is_named(cli: Shell) -> None:
    """Until it is in the file that the timer reads."""
    own = system_of(cli, "cron")
    own["AWS_SECRET_ACCESS_KEY"] = "of nobody"
    refused = cli("tend", "--install", **own)
    assert (refused.code, "AWS_SECRET_ACCESS_KEY" in refused.err) == (2, True)
    assert "of nobody" not in refused.err
    assert list(cli.home.glob("**/tend.sh")) == []
    [place] = [word for word in refused.err.split() if word.endswith("tend.env,")]
    secrets = Path(place.removesuffix(","))
    secrets.parent.mkdir(parents=True, exist_ok=True)
    secrets.write_text("AWS_SECRET_ACCESS_KEY=kept\n")
    assert cli("tend", "--install", **own).code == 0
    assert "of nobody" not in script_of(cli).read_text()


def test_the_values_of_living_runs_are_named_too(cli: Shell) -> None:
    run = ("run", "--gpu", "T4", "--cloud", "aws", "--run-id", "r", "--detach", "--env", "WANDB=secret")
    ran = cli(*run, "--", "sleep", "600")
    assert "Now have a timer run gpucloud tend: gpucloud tend --install" in " ".join(ran.err.split())
    own = system_of(cli, "cron")
    refused = cli("tend", "--install", **own)
    assert (refused.code, "only in this shell: WANDB" in " ".join(refused.err.split())) == (2, True)
    assert cli("runs", "cancel", "r", "--yes").code == 0
    assert cli("tend", "--install", **own).code == 0, "nobody needs it any more"


def test_a_system_that_takes_no_timer_leaves_none(cli: Shell) -> None:
    own = system_of(cli, "cron", crontab="#!/bin/sh\necho 'you may not' >&2; exit 1\n")
    refused = cli("tend", "--install", **own)
    assert (refused.code, "you may not" in refused.err) == (1, True)
    assert list(cli.home.glob("**/tend.sh")) == []
