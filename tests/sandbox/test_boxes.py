"""Boxes from both ends: OpenSSH and rsync talk to them, and their user-data takes effect."""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import socket
import subprocess
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path

import pytest

from gpucloud.ssh.boot import boot_state, gpu_list, is_model, rotate_host_key
from gpucloud.ssh.client import (
    ConnectionFailedError,
    ConnectionFailure,
    Target,
    client,
    connect,
    disconnect,
    forget,
    lines,
    run,
)
from gpucloud.ssh.files import NotCopiedError, NotThereError, rsync_down, rsync_up
from gpucloud.ssh.guard import guard_status
from gpucloud.ssh.keys import BoxKeys, create_keys, pin, pinned
from gpucloud.ssh.relay import relay
from gpucloud_pricing.gpu_models import MODELS
from gpucloud_sandbox.boxes import NOTICE
from gpucloud_templates import Software
from tests.ports import free_port
from tests.processes import runs
from tests.sandbox.box_rental import CLIENTS_GO_AWAY, Rental
from tests.waiting import PATIENCE_S, until

pytestmark = CLIENTS_GO_AWAY


@pytest.fixture
def rental(tmp_path: Path) -> Generator[Rental]:
    made = Rental(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Generator[Target]:
    """A box for tests that only work on it; each has files of its own there."""
    made = Rental(tmp_path_factory.mktemp("shared"))
    yield made.boot(made.spec())
    made.close()


def test_a_box_runs_commands_with_exactly_the_arguments_and_gives_their_exit_codes(target: Target) -> None:
    words = ["a b", "", "$HOME", "'", '"', "`id`", "*", "\n", "ü\u202e", "-n", ";exit 9", "\\"]
    assert run(target, ["printf", "%s\\0", *words]).out.decode().split("\0")[:-1] == words
    for code in (0, 1, 7, 125, 255):
        assert run(target, ["sh", "-c", f"exit {code}"]).code == code
    assert run(target, ["sh", "-c", "echo out; echo err >&2"])[1:] == (b"out\n", b"err\n")
    assert run(target, ["cat"], stdin=b"\0\xff" * 50_000).out == b"\0\xff" * 50_000


def test_a_program_that_is_played_in_part_is_found_behind_another_folder_of_the_path(target: Target) -> None:
    script = 'PATH="$HOME/.local/bin:$PATH" exec timeout 20 python3 -c "print(1 + 1)"'
    assert run(target, ["sh", "-c", script])[:2] == (0, b"2\n")


def test_a_command_killed_by_a_signal_is_told_as_one(target: Target) -> None:
    assert run(target, ["sh", "-c", "kill -TERM $$"]).code in {143, 255}
    assert run(target, ["true"]).code == 0


@pytest.mark.parametrize(
    ("model", "count", "mib"), [("T4", 1, 15360), ("V100", 1, 16384), ("A100", 8, 40960), ("H200", 8, 143771)]
)
def test_nvidia_smi_shows_exactly_what_was_rented(rental: Rental, model: str, count: int, mib: int) -> None:
    target = rental.boot(rental.spec(gpu_model=model, gpu_count=count, gpu_memory_mib=mib))
    gpus = gpu_list(target)
    assert [gpu.index for gpu in gpus] == list(range(count))
    assert all(is_model(gpu.name, model) and gpu.memory_mib == mib for gpu in gpus)
    listed = run(target, ["nvidia-smi", "-L"]).out.decode().splitlines()
    assert len(listed) == len(set(listed)) == count
    table = run(target, ["nvidia-smi"]).out.decode()
    assert table.count(f"{mib}MiB") == count
    assert len({len(line) for line in table.splitlines() if line}) == 1
    assert run(target, ["nvidia-smi", "--query-gpu=horsepower", "--format=csv"]).code == 2


def test_a_box_without_a_gpu_has_none_that_a_driver_finds(rental: Rental) -> None:
    target = rental.boot(rental.spec(gpu_model="", gpu_count=0, gpu_memory_mib=0))
    said = run(target, ["nvidia-smi", "-L"])
    assert (said.code, b"couldn't communicate with the NVIDIA driver" in said.out + said.err) == (9, True)


@pytest.mark.parametrize("model", [each.name for each in MODELS])
def test_every_model_of_the_market_is_recognised_by_the_name_that_its_box_shows(model: str) -> None:
    from gpucloud_sandbox.boxes_nvidia import product_name

    for gib in next(each.memory_gib for each in MODELS if each.name == model):
        assert is_model(product_name(model, gib * 1024), model)


def test_an_image_without_driver_has_nvidia_smi_once_the_bootstrap_installed_it(rental: Rental) -> None:
    spec = rental.spec(plan={"software": Software(driver="580")}, driver="")
    target = rental.boot(spec)
    assert run(target, ["nvidia-smi", "-L"]).out.startswith(b"GPU 0: Tesla T4")
    assert set(boot_state(target).seconds) == {"driver"}


def test_an_image_without_driver_has_no_nvidia_smi_by_itself(rental: Rental) -> None:
    target = rental.boot(rental.spec(driver=""))
    assert gpu_list(target) == []
    assert run(target, ["nvidia-smi"]).code == 127


def test_the_host_key_of_the_user_data_is_worth_nothing_after_the_first_connection(rental: Rental) -> None:
    keys = rental.folder / "keys" / "i-1"
    spec = rental.spec()
    one_time = create_keys(keys, "i-1").host_public_key
    target = rental.boot(spec)
    (now,) = pinned(keys, "i-1")
    assert now != one_time
    assert not (keys / "host_ed25519").exists()
    disconnect(target)
    pin(keys, "i-1", [one_time])
    with pytest.raises(ConnectionFailedError) as error:
        connect(target)
    assert error.value.failure is ConnectionFailure.HOST_KEY


@pytest.mark.parametrize("lost", ["before the box changes", "after the box changed"])
def test_a_crash_while_the_host_key_is_replaced_locks_nobody_out(
    rental: Rental, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rental.boxes.boot(rental.spec())
    target = rental.target()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        # The crash itself is simulated: the calls after it never happen.
        name = "pin" if lost == "before the box changes" else "disconnect"
        patched.setattr(f"gpucloud.ssh.boot.{name}", crash)
        with pytest.raises(KeyboardInterrupt):
            rotate_host_key(target)
    disconnect(target)
    rotate_host_key(target)
    disconnect(target)
    assert run(target, ["true"]).code == 0
    assert len(pinned(target.keys, "i-1")) == 1


def test_an_impostor_with_another_host_key_gets_nothing(rental: Rental) -> None:
    victim, impostor = rental.spec("i-1"), rental.spec("i-2")
    target = rental.boot(victim)
    rental.boxes.boot(impostor)
    moved = replace(target, port=rental.target("i-2").port)
    disconnect(target)
    with pytest.raises(ConnectionFailedError) as error:
        run(moved, ["touch", "was-here"])
    assert error.value.failure is ConnectionFailure.HOST_KEY
    assert "nothing was sent" in (error.value.hint or "")
    assert not list((rental.folder / "boxes" / "i-2").rglob("was-here"))


def test_only_the_boxs_own_key_and_user_get_in(rental: Rental) -> None:
    target = rental.boot(rental.spec("i-1"))
    disconnect(target)
    rental.spec("i-2")
    stranger = rental.folder / "keys" / "i-2"
    pin(stranger, "i-1", pinned(target.keys, "i-1"))
    for wrong in (replace(target, user="root"), replace(target, keys=stranger)):
        with pytest.raises(ConnectionFailedError) as error:
            connect(wrong)
        assert error.value.failure is ConnectionFailure.AUTH


def test_files_there_and_back_are_byte_identical(target: Target, tmp_path: Path) -> None:
    here = tmp_path / "here"
    for name, data in {
        "plain": b"x",
        "odd 'name' $(id) \u00fc\nline": bytes(range(256)) * 5000,
        "empty": b"",
        "deep/er/file": b"\r\n",
        "-rf": b"option?",
    }.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_bytes(data)
    (here / "plain").chmod(0o640)
    (here / "link").symlink_to("plain")
    rsync_up(target, f"{here}/", "~/data")
    rsync_down(target, "data/", str(tmp_path / "back"))
    compared = filecmp.dircmp(here, tmp_path / "back")
    assert not compared.left_only
    assert not compared.right_only
    assert not filecmp.cmpfiles(here, tmp_path / "back", compared.common_files, shallow=False)[1]
    assert (tmp_path / "back" / "plain").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "back" / "deep/er/file").read_bytes() == b"\r\n"


def test_large_files_come_back_whole_every_time(target: Target, tmp_path: Path) -> None:
    source = tmp_path / "large"
    source.write_bytes(os.urandom(8_000_000))
    rsync_up(target, str(source), "large")
    for number in range(5):
        rsync_down(target, "large", str(tmp_path / f"{number}"))
        assert (tmp_path / f"{number}").read_bytes() == source.read_bytes()
        assert run(target, ["cat", "large"], most_bytes=10_000_000).out == source.read_bytes()


def test_piped_input_arrives_whole_however_late_the_command_reads_it(target: Target, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(20_000_000))
    digest = hashlib.sha256(large.read_bytes()).hexdigest()
    for _ in range(5):
        assert _piped(target, large, "sha256sum") == digest
    tail = tmp_path / "tail"  # less than ssh's window: its end arrives while the box's pipe is full
    tail.write_bytes(os.urandom(1_000_000))
    digest = hashlib.sha256(tail.read_bytes()).hexdigest()
    assert _piped(target, tail, "sh -c 'sleep 0.3; sha256sum'") == digest
    assert _piped(target, large, "sh -c 'head -c 1 >/dev/null; echo enough'") == "enough"


def _piped(target: Target, source: Path, command: str) -> str:
    """The first word that a command on the box prints, with a file as its input."""
    with source.open("rb") as stdin:
        done = subprocess.run(
            [*client(target), "-T", target.alias, "--", command],
            stdin=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
    return done.stdout.decode().split()[0]


def test_a_link_on_the_box_that_leads_out_of_the_tree_does_not_come_back(
    target: Target, tmp_path: Path
) -> None:
    run(target, ["sh", "-c", "mkdir d; ln -s /etc/passwd d/a; ln -s ../../x d/b; ln -s ok d/c; echo y >d/ok"])
    rsync_down(target, "d/", str(tmp_path / "back"))
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["c", "ok"]


@pytest.mark.parametrize("asked", ["d", "?", "~/d", "./d", "d/"])
def test_a_link_that_leads_one_folder_up_does_not_come_back(
    target: Target, tmp_path: Path, asked: str
) -> None:
    """Of a fetched folder; from the folder that it goes to, it would not lead out."""
    links = "ln -s .. d/up; ln -s ../.. d/sub/up; ln -s .. d/sub/in"
    run(target, ["sh", "-c", f"rm -rf * && mkdir -p d/sub && {links} && echo y >d/sub/file"])
    told = rsync_down(target, asked, str(tmp_path / "back")) or ""
    folder = tmp_path / "back" / ("" if asked == "d/" else "d")
    assert sorted(each.name for each in (folder / "sub").iterdir()) == ["file", "in"]
    assert [each.name for each in folder.iterdir()] == ["sub"]
    begin = "" if asked == "d/" else "d/"
    assert f"{begin}up -> .." in told
    assert f"{begin}sub/up -> ../.." in told


def test_a_pattern_brings_each_folder_into_its_own_and_a_new_one_has_its_mode(
    target: Target, tmp_path: Path
) -> None:
    """Names of folders may be patterns themselves, and have line breaks."""
    names = ["x[1]*", "x1a", "x\\[2]", "x\n", "x -q"]
    script = 'for n; do mkdir -p "p/$n"; printf %s "$n" >"p/$n/file"; chmod 750 "p/$n"; done; echo y >p/x'
    run(target, ["sh", "-c", script, "sh", *names])
    here = tmp_path / "back"
    here.mkdir()
    (here / "x1a").mkdir(mode=0o711)
    (here / "x -q").symlink_to(tmp_path)
    assert rsync_down(target, "p/x*", str(here)) is None
    assert sorted(each.name for each in here.iterdir()) == sorted([*names, "x"])
    for name in names:
        assert (here / name / "file").read_text() == name
        assert [each.name for each in (here / name).iterdir()] == ["file"]
        assert (here / name).lstat().st_mode & 0o777 == (0o711 if name == "x1a" else 0o750)
    rsync_down(target, "p/x[[]*", str(tmp_path / "new" / "deep"))
    assert [each.name for each in (tmp_path / "new" / "deep").iterdir()] == ["x[1]*"]


def test_a_folder_does_not_take_the_place_of_a_file_that_is_here(target: Target, tmp_path: Path) -> None:
    run(target, ["sh", "-c", "mkdir -p taken && echo y >taken/file"])
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(NotCopiedError, match="taken: Not a directory"):
        rsync_down(target, "taken", str(tmp_path))
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_missing_remote_path_is_told_in_rsyncs_words(target: Target, tmp_path: Path) -> None:
    with pytest.raises(NotThereError, match=r"rsync failed .*No such file"):
        rsync_down(target, "nowhere", str(tmp_path / "back"))


def test_sftp_scp_and_port_forwarding_work_with_the_plain_clients(target: Target, tmp_path: Path) -> None:
    options = client(target)[1:]
    source = tmp_path / "file"
    source.write_bytes(os.urandom(100_000))
    subprocess.run(["scp", *options, str(source), f"{target.alias}:copy"], check=True, capture_output=True)
    assert run(target, ["cat", "copy"]).out == source.read_bytes()
    batch = tmp_path / "batch"
    batch.write_text(f"get copy {tmp_path}/again\n")
    subprocess.run(["sftp", *options, "-b", str(batch), target.alias], check=True, capture_output=True)
    assert (tmp_path / "again").read_bytes() == source.read_bytes()
    port = free_port()
    forward = [*client(target), "-O", "forward", "-L", f"{port}:127.0.0.1:{target.port}", target.alias]
    subprocess.run(forward, check=True, capture_output=True)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        assert connection.recv(8).startswith(b"SSH-2.0")


def test_a_terminal_is_one_and_says_where_its_commands_run(target: Target) -> None:
    command = [*client(target), "-tt", target.alias]
    done = subprocess.run(
        [*command, "--", "test -t 0 && tty && stty size"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert b"/dev/pts/" in done.stdout
    shell = subprocess.run(command, input=b"echo $((6*7)); exit 5\n", capture_output=True, check=False)
    assert shell.returncode == 5
    assert b"42" in shell.stdout
    assert NOTICE.encode() in shell.stdout


def test_lines_arrive_while_the_command_runs_and_end_with_the_reader(target: Target) -> None:
    stream = lines(target, ["sh", "-c", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.01; done"])
    assert [next(stream) for _ in range(3)] == ["0", "1", "2"]
    stream.close()


def test_a_relayed_command_passes_its_output_and_its_exit_code(
    target: Target, capfd: pytest.CaptureFixture[str]
) -> None:
    assert relay(target, ["sh", "-c", "echo out; echo err >&2; exit 12"]) == 12
    assert capfd.readouterr() == ("out\n", "err\n")


def test_the_deadline_powers_the_box_off_by_the_sandboxes_clock(rental: Rental) -> None:
    target = rental.boot(rental.spec())
    rental.clock.ahead = timedelta(minutes=59)
    assert run(target, ["true"]).code == 0
    assert rental.powered_off == []
    rental.clock.ahead = timedelta(minutes=61)
    until(lambda: rental.powered_off == ["i-1"])
    assert rental.boxes.ssh_port("i-1") is None
    assert "powering off" in rental.boxes.console("i-1")


def test_a_box_without_deadline_stays(rental: Rental) -> None:
    target = rental.boot(rental.spec(plan={"deadline": None}))
    rental.clock.ahead = timedelta(days=3000)
    assert run(target, ["sleep", "0.5"]).code == 0
    assert rental.powered_off == []


@pytest.mark.parametrize(
    "command",
    [
        "sudo poweroff",
        "sudo systemctl poweroff",
        "sudo /usr/sbin/shutdown -h now",
        "sudo env X=1 /sbin/poweroff",
    ],
)
def test_a_box_that_is_told_to_powers_itself_off_and_never_this_machine(rental: Rental, command: str) -> None:
    target = rental.boot(rental.spec())
    with suppress(ConnectionFailedError):  # the box may be gone before it has answered
        run(target, ["sh", "-c", command])
    until(lambda: rental.powered_off == ["i-1"])


def test_an_ended_box_leaves_no_process_and_no_disk_but_its_console(rental: Rental) -> None:
    target = rental.boot(rental.spec())
    started = run(target, ["sh", "-c", "setsid nohup sleep 1000 >/dev/null 2>&1 & echo $!"])
    pid = int(started.out)
    os.kill(pid, 0)
    rental.boxes.end("i-1")
    rental.boxes.end("i-1")
    assert rental.boxes.ssh_port("i-1") is None
    until(lambda: not runs(pid) and not (rental.folder / "boxes" / "i-1" / "root").exists())
    assert "cloud-init: finished" in rental.boxes.console("i-1")
    forget(target.keys, "i-1")
    assert not target.keys.exists()


def test_a_restarted_sandbox_gives_every_box_back_as_it_was(rental: Rental) -> None:
    spec, log = rental.spec(), "/var/log/gpucloud/boot.log"
    target = rental.boot(spec)
    run(target, ["sh", "-c", "echo kept >file"])
    once = run(target, ["cat", log]).out
    disconnect(target)
    rental.boxes.close()
    rental.boxes = rental.open()
    rental.boxes.boot(spec)
    again = rental.target()
    assert run(again, ["cat", "file"]).out == b"kept\n"
    assert run(again, ["cat", log]).out == once
    rental.clock.ahead = timedelta(hours=2)
    until(lambda: rental.powered_off == ["i-1"])


def test_boxes_have_paths_and_files_of_their_own(rental: Rental) -> None:
    first, second = rental.boot(rental.spec("i-1")), rental.boot(rental.spec("i-2"))
    for path in ("/tmp/x", "/workspace/x", "/home/gpucloud/x"):  # noqa: S108  (the box's own)
        run(first, ["sh", "-c", f"echo mine >{path}"])
        assert run(second, ["test", "-e", path]).code == 1
        assert run(first, ["cat", path]).out == b"mine\n"
    rsync_up(first, "pyproject.toml", "/workspace/")
    assert run(first, ["cat", "/workspace/pyproject.toml"]).out == Path("pyproject.toml").read_bytes()


def test_nothing_of_the_callers_environment_is_in_a_box(
    rental: Rental, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    target = rental.boot(rental.spec())
    assert b"canary" not in run(target, ["env"]).out


def metadata(rental: Rental, path: str, *, token: bool = True) -> tuple[int, str]:
    url = run(rental.targets["i-1"], ["printenv", "GPUCLOUD_METADATA_URL"]).out.decode().strip()
    headers = {}
    if token:
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        headers["X-aws-ec2-metadata-token"] = ask(url, "PUT", "/latest/api/token", lifetime)[1]
    return ask(url, "GET", path, headers)


def ask(url: str, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_metadata_service_wants_a_token_and_tells_a_spot_box_of_its_end(rental: Rental) -> None:
    rental.boot(rental.spec(spot=True))
    assert metadata(rental, "/latest/meta-data/public-ipv4", token=False)[0] == 401
    assert metadata(rental, "/latest/meta-data/public-ipv4") == (200, "203.0.113.7")
    assert metadata(rental, "/latest/meta-data/tags/instance/gpucloud:box") == (200, "i-1")
    assert "instance-id" in metadata(rental, "/latest/meta-data/")[1].splitlines()
    notice = "/latest/meta-data/spot/instance-action"
    assert metadata(rental, notice)[0] == 404
    rental.boxes.notice_interruption("i-1", datetime(2030, 1, 31, 12, 2, tzinfo=UTC))
    status, body = metadata(rental, notice)
    assert (status, json.loads(body)) == (200, {"action": "terminate", "time": "2030-01-31T12:02:00Z"})


@pytest.mark.parametrize(
    "user_data",
    ["", "#!/bin/sh\necho hi", "#cloud-config\n: [", "#cloud-config\nusers: 7", "#cloud-config\n- x"],
)
def test_user_data_that_no_box_understands_is_told_on_the_console(rental: Rental, user_data: str) -> None:
    rental.boxes.boot(rental.spec(user_data=user_data))
    until(lambda: "cloud-init: finished" in rental.boxes.console("i-1"))
    assert "cloud-init: user-data" in rental.boxes.console("i-1")


def test_user_data_of_somebody_else_works_too(rental: Rental) -> None:
    keys: BoxKeys = create_keys(rental.folder / "keys" / "i-1", "i-1")
    text = json.dumps(
        {
            "users": ["default", {"name": "gpucloud", "ssh_authorized_keys": [keys.public_key]}],
            "ssh_keys": {"ed25519_private": keys.host_private_key},
            "write_files": [{"path": "/../../etc/gpucloud/x", "content": "y", "permissions": "0600"}],
            "runcmd": ["echo $((6*7)) >/workspace/answer", ["/bin/sh", "-c", "exit 4"]],
        }
    )
    rental.boxes.boot(rental.spec(user_data=f"#cloud-config\n{text}"))
    target = rental.target()
    until(lambda: "exit code 4" in rental.boxes.console("i-1"))
    assert run(target, ["cat", "/workspace/answer"]).out == b"42\n"
    assert run(target, ["cat", "/etc/gpucloud/x"]).out == b"y"


def test_nobody_behind_the_port_is_told_as_refused_and_a_silent_proxy_as_unreachable(rental: Rental) -> None:
    target = rental.boot(rental.spec())
    disconnect(target)
    rental.boxes.end("i-1")
    until(lambda: not (rental.folder / "boxes" / "i-1" / "root").exists())
    with pytest.raises(ConnectionFailedError) as error:
        connect(target)
    assert error.value.failure is ConnectionFailure.REFUSED
    dropped = replace(target, proxy_command="sh -c 'echo timed out, a firewall drops it >&2; exit 1' %h %p")
    with pytest.raises(ConnectionFailedError) as error:
        connect(dropped)
    assert error.value.failure is ConnectionFailure.UNREACHABLE


def test_an_id_that_is_no_folder_name_is_refused(rental: Rental) -> None:
    with pytest.raises(ValueError, match="not a box id"):
        rental.boxes.boot(replace(rental.spec(), id="../up"))
    assert rental.boxes.console("../up") == ""


def test_a_disk_of_another_box_brings_nothing_of_its_guard_and_its_keys(rental: Rental) -> None:
    """Neither its deadline, which has passed, nor what would run or log in a second time."""
    old = {"checkpoint": "true", "ttl_s": 3600}
    first = rental.boot(rental.spec("i-1", plan={**old, "box": "b-1"}))
    planted = "mkdir -p ~/.ssh ~/.gpucloud; echo old | tee ~/.ssh/authorized_keys ~/.ssh/id ~/.gpucloud/env"
    assert run(first, ["sh", "-c", planted]).code == 0
    rental.boxes.stop("i-1")
    rental.boxes.copy_root("i-1", "snap-1")
    rental.clock.ahead = timedelta(hours=2)
    new = {"box": "b-2", "ttl_s": 7200, "deadline": rental.clock.now() + timedelta(hours=2)}
    second = rental.boot(rental.spec("i-2", plan=new, root_volume="snap-1"))
    status = until(lambda: guard_status(second))
    assert 3600 < status["left_s"] <= 7200
    look = "find ~/.ssh ~/.gpucloud /etc/gpucloud -type f"
    left = run(second, ["sh", "-c", look]).out.decode().splitlines()
    assert [line.rpartition("/")[2] for line in left] == ["id", "guard.json"]
    assert not rental.powered_off
    old_key, new_key = (pinned(each.keys, each.alias) for each in (first, second))
    assert old_key != new_key
