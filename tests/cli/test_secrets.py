"""No secret is where it does not belong: each channel has one of its own, and all places are searched."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.processes import command_lines
from tests.shell import Shell

CREDENTIALS = {
    "aws": "AWS_SECRET_ACCESS_KEY",
    "azure": "AZURE_CLIENT_SECRET",
    "alibaba": "ALIBABA_CLOUD_ACCESS_KEY_SECRET",
}
TOKEN = "canary-variable-91c2e07d55aa4b1f"
DENIED = {"effect": "error", "code": "UnauthorizedOperation", "status": 403}


class CommandLines:
    """What ``ps`` would have shown, all the time."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> CommandLines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.02):
            self.seen.update(command_lines().values())


def _contents(home: Path, pattern: str) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in home.glob(pattern) if file.is_file()}


@pytest.mark.parametrize("cloud", CREDENTIALS)
def test_no_secret_is_found_anywhere_but_where_it_belongs(cli: Shell, cloud: str) -> None:
    (cli.home / "box.yaml").write_text('setup: test -n "$TOKEN"\n')
    line = ("run", "--gpu", "T4", "--cloud", cloud, "-f", "box.yaml", "--env", "TOKEN", "--name", "x", "-vv")
    said: list[str] = []
    with CommandLines() as processes:
        begun = ("--summary", "summary.md", "--", "sh", "-c", "echo begun; sleep 1")
        running = cli.start(*line, *begun, TOKEN=TOKEN)
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        [key] = cli.home.glob("state-sandbox/keys/*/id_ed25519")
        private = key.read_text().splitlines()[1]
        ran = cli.finish(running)
        said += [ran.out, ran.err]
        assert ran.code == 0, ran.err
        cli.sandbox.fault(cloud=cloud, times=None, action="*nstances", **DENIED)
        cli.sandbox.fault(cloud=cloud, times=None, action="PUT virtualMachines", **DENIED)
        for more in (line[1:-1], (*line[1:-1], "--json")):
            failed = cli("run", *more, "--", "true", TOKEN=TOKEN)
            assert failed.code == 125, failed.err
            said += [failed.out, failed.err]
        cli.sandbox.clear_faults()
        for command in (
            ("list", "--all", "--json"),
            ("audit", "--json"),
            ("show", "x", "-vv"),
            ("down", "--all"),
        ):
            done = cli(*command)
            said += [done.out, done.err]
    assert any(b"ssh" in each for each in processes.seen)
    credential = cli.endpoint.environ[CREDENTIALS[cloud]]
    ours = _contents(cli.home, "state-sandbox/**/*") | _contents(cli.home, "*.md")
    assert {"audit.jsonl", "journal.db", "summary.md"} <= {file.name for file in ours}
    theirs = _contents(cli.home, "sandbox/**/*")
    assert any(credential.encode() in content for content in theirs.values()), "where it does belong"
    for secret in (credential, TOKEN, private):
        places = ours if secret == credential else ours | theirs
        assert not [text for text in said if secret in text]
        assert not [file for file, content in places.items() if secret.encode() in content]
        assert not [each for each in processes.seen if secret.encode() in each]
