"""``az`` logs in to the sandbox, sees what gpucloud launched, and takes it down."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpucloud_azure.create import throw_away_key
from tests.fidelity.clients import CLIENTS, SCRIPTS, documents
from tests.sandbox.running import TAGS
from tests.shell import Result, Shell

LAUNCH = ("--gpu", "T4", "--cloud", "azure", "--name", "x")


@dataclass(frozen=True, slots=True)
class Az:
    """The program with a configuration of its own."""

    cli: Shell
    folder: Path

    def __call__(self, *arguments: str) -> Any:
        """What a command that succeeds says; ``None`` where it says nothing."""
        ran = self.attempt(*arguments)
        assert ran.code == 0, ran.err
        return json.loads(ran.out) if ran.out.strip() else None

    def attempt(self, *arguments: str) -> Result:
        """How a command ends."""
        return self.cli.run(CLIENTS / "az", *arguments, "--output", "json", **self.settings)

    def together(self, *lines: str) -> list[Any]:
        """What several commands that succeed say, in one process: a start takes seconds."""
        script = SCRIPTS / "az_together.py"
        return documents(self.cli.run(CLIENTS / "python", script, *lines, **self.settings))

    @property
    def settings(self) -> dict[str, str]:
        """The variables of its own that it runs with."""
        return {
            "AZURE_CONFIG_DIR": str(self.folder),
            "AZURE_CORE_COLLECT_TELEMETRY": "no",
            "AZURE_CORE_INSTANCE_DISCOVERY": "no",
            "AZURE_CORE_ONLY_SHOW_ERRORS": "yes",
        }

    def log_in(self, secret: str) -> Result:
        """Signs in as the sandbox's application."""
        environment = self.cli.endpoint.environ
        who = ("-u", environment["AZURE_CLIENT_ID"], "--tenant", environment["AZURE_TENANT_ID"])
        return self.attempt("login", "--service-principal", *who, "-p", secret)


def introduce(program: Az) -> None:
    """Tells a program of the sandbox's cloud."""
    origin = program.cli.endpoint.endpoints["azure"]
    names = ("resource-manager", "active-directory", "vm-image-alias-doc")
    ids = ("active-directory-resource-id", "active-directory-graph-resource-id")
    places = [word for name in names for word in (f"--endpoint-{name}", origin)]
    places += [word for name in ids for word in (f"--endpoint-{name}", f"{origin}/")]
    program("cloud", "register", "--name", "sandbox", *places)
    program("cloud", "set", "--name", "sandbox")


def sign_in(program: Az) -> None:
    """Tells a program of the sandbox's cloud, and signs it in."""
    introduce(program)
    signed_in = program.log_in(program.cli.endpoint.environ["AZURE_CLIENT_SECRET"])
    assert signed_in.code == 0, signed_in.err


@pytest.fixture
def stranger(cli: Shell, tmp_path: Path) -> Az:
    """A program that knows the sandbox's cloud, and is not signed in."""
    program = Az(cli, tmp_path / "az")
    introduce(program)
    return program


@pytest.fixture
def az(cli: Shell, tmp_path: Path) -> Az:
    """A program that is signed in."""
    program = Az(cli, tmp_path / "az")
    sign_in(program)
    return program


def test_a_wrong_secret_does_not_sign_in(stranger: Az) -> None:
    refused = stranger.log_in("wrong")
    assert refused.code != 0
    assert "AADSTS7000215" in refused.err
    assert stranger.attempt("group", "list").code != 0


def test_the_environment_of_a_started_sandbox_is_enough(cli: Shell) -> None:
    ran = cli.run(CLIENTS / "az", "group", "list", "--output", "json")
    assert (ran.code, ran.out.strip()) == (0, "[]"), ran.err


def test_it_is_the_account_that_check_names(az: Az) -> None:
    account = az("account", "show")
    assert account["environmentName"] == "sandbox"
    assert account["id"] in az.cli("check", "--cloud", "azure", "--json").out


def test_lists_and_shows_what_gpucloud_launched(az: Az) -> None:
    box = az.cli.launch(*LAUNCH)
    [node] = box["nodes"]
    of_the_box = ("--tag", f"gpucloud:box={box['id']}")
    [group] = az("group", "list", *of_the_box)

    [machine] = az("vm", "list", "--show-details")
    assert machine["id"].lower() == node["instance_id"].lower()
    assert machine["powerState"] == "VM running"
    assert machine["publicIps"] == node["public_ip"]
    shown = az("vm", "show", "--show-details", "--ids", machine["id"])
    assert shown["hardwareProfile"]["vmSize"] == box["instance_type"]
    assert shown["storageProfile"]["osDisk"]["deleteOption"] == "Delete"
    assert shown["tags"]["gpucloud:box"] == box["id"]

    found = az("resource", "list", *of_the_box)
    assert {each["resourceGroup"].lower() for each in found} == {group["name"].lower()}
    assert sorted(each["type"].split("/")[-1] for each in found) == [
        "disks",
        "networkInterfaces",
        "networkSecurityGroups",
        "publicIPAddresses",
        "schedules",
        "virtualMachines",
        "virtualNetworks",
    ]
    [firewall] = az("network", "nsg", "list", "-g", group["name"])
    [rule] = az("network", "nsg", "rule", "list", "-g", group["name"], "--nsg-name", firewall["name"])
    assert (rule["access"], rule["destinationPortRange"]) == ("Allow", "22")
    assert rule["sourceAddressPrefix"].endswith("/32")


def test_smoke_deletes_what_gpucloud_launched(az: Az) -> None:
    az.cli.launch(*LAUNCH)
    [machine] = az("vm", "list")
    az("vm", "delete", "--ids", machine["id"], "--yes")
    assert az("vm", "list") == []
    assert az("resource", "list", "--resource-type", "Microsoft.Compute/disks") == []
    assert az.cli.billed() == []

    az("group", "delete", "--name", machine["resourceGroup"], "--yes")
    assert az("resource", "list") == []
    assert az.cli.sandbox.status()["billing"] == []
    assert az.cli("down", "x", "--yes").code == 0
    assert az.cli.boxes() == []


def test_what_somebody_else_made_is_left_alone(az: Az) -> None:
    az("group", "create", "--name", "theirs", "--location", "eastus")
    az("network", "nsg", "create", "-g", "theirs", "-n", "wall")
    where = ("--nsg-name", "wall", "-n", "ssh", "--priority", "100")
    what = ("--source-address-prefixes", "192.0.2.7/32", "--destination-port-ranges", "22")
    az("network", "nsg", "rule", "create", "-g", "theirs", *where, *what)
    az("network", "vnet", "create", "-g", "theirs", "-n", "net", "--subnet-name", "s")
    az.cli.launch(*LAUNCH)
    assert az.cli("down", "x", "--yes").code == 0
    assert [group["name"] for group in az("group", "list")] == ["theirs"]
    assert {each["name"] for each in az("resource", "list")} == {"wall", "net"}


def test_a_machine_that_is_switched_off_is_seen(az: Az) -> None:
    az.cli.launch(*LAUNCH)
    [machine] = az("vm", "list")
    az("vm", "deallocate", "--ids", machine["id"])
    view = az("vm", "get-instance-view", "--ids", machine["id"])["instanceView"]
    assert "PowerState/deallocated" in [status["code"] for status in view["statuses"]]
    [box] = az.cli.boxes("--live")
    assert [node["state"] for node in box["nodes"]] == ["stopped"]
    assert az.cli("down", "x", "--yes").code == 0
    assert az.cli.sandbox.status()["billing"] == []


HANDS = ("--admin-username", "them", "--nsg-rule", "NONE", "--public-ip-address", "")
IMAGE = ("--image", "Canonical:0001-com-ubuntu-server-jammy:22_04-lts-gen2:latest")
GOES_ALONG = ("--os-disk-delete-option", "Delete", "--nic-delete-option", "Delete")


def test_creates_a_machine_whose_disks_come_and_go(az: Az, tmp_path: Path) -> None:
    key = tmp_path / "key.pub"
    key.write_text(throw_away_key())
    tags = [f"{name}={value}" for name, value in {**TAGS, "gpucloud:owner": "them"}.items()]
    az("group", "create", "--name", "theirs", "--location", "eastus")
    what = (*IMAGE, "--size", "Standard_NC4as_T4_v3", "--ssh-key-values", str(key), "--tags", *tags)
    made = az("vm", "create", "-g", "theirs", "-n", "v", *what, *HANDS, *GOES_ALONG)
    assert made["powerState"] == "VM running"
    listed = az.cli("list", "--live", "--all-owners", "--json").json
    assert made["id"].lower() in str(listed["strangers"]).lower()
    assert sorted(entry["kind"] for entry in az.cli.sandbox.status()["billing"]) == ["disk", "instance"]

    az(
        "disk",
        "create",
        "-g",
        "theirs",
        "-n",
        "data",
        "--size-gb",
        "64",
        "--sku",
        "Premium_LRS",
        "--tags",
        *tags,
    )
    az("vm", "disk", "attach", "-g", "theirs", "--vm-name", "v", "--name", "data")
    [disk] = az("vm", "show", "-g", "theirs", "-n", "v")["storageProfile"]["dataDisks"]
    assert (disk["name"], disk["lun"], disk["diskSizeGB"]) == ("data", 0, 64)
    assert az.attempt("disk", "delete", "-g", "theirs", "-n", "data", "--yes").code != 0
    az("vm", "disk", "detach", "-g", "theirs", "--vm-name", "v", "--name", "data")
    az("disk", "delete", "-g", "theirs", "-n", "data", "--yes")
    az("vm", "delete", "-g", "theirs", "-n", "v", "--yes")
    assert az.cli.sandbox.status()["billing"] == []


def test_a_machine_that_finds_no_place_fails_its_deployment(az: Az, tmp_path: Path) -> None:
    key = tmp_path / "key.pub"
    key.write_text(throw_away_key())
    az.cli.sandbox.stock(count=0, cloud="azure")
    az("group", "create", "--name", "theirs", "--location", "eastus")
    what = (*IMAGE, "--size", "Standard_NC4as_T4_v3", "--ssh-key-values", str(key))
    refused = az.attempt("vm", "create", "-g", "theirs", "-n", "v", *what, *HANDS)
    assert refused.code != 0
    assert "AllocationFailed" in refused.err


ONE_GROUP = ("--orchestration-mode", "Uniform", "--single-placement-group", "true", "--disable-overprovision")
ALONE = ("--load-balancer", "", "--public-ip-address", "", "--upgrade-policy-mode", "Manual")


def test_creates_a_scale_set_and_scales_it(az: Az, tmp_path: Path) -> None:
    key = tmp_path / "key.pub"
    key.write_text(throw_away_key())
    az("group", "create", "--name", "theirs", "--location", "eastus")
    az("network", "vnet", "create", "-g", "theirs", "-n", "net", "--subnet-name", "s")
    where, one = ("--vnet-name", "net", "--subnet", "s"), ("-g", "theirs", "-n", "v")
    what = (*IMAGE, "--vm-sku", "Standard_NC4as_T4_v3", "--storage-sku", "Premium_LRS", "--security-type")
    who = ("Standard", "--admin-username", "them", "--ssh-key-values", str(key))
    az("vmss", "create", *one, "--instance-count", "2", *what, *who, *where, *ONE_GROUP, *ALONE)
    az("vmss", "scale", *one, "--new-capacity", "3")
    assert [each["instanceId"] for each in az("vmss", "list-instances", *one)] == ["0", "1", "2"]
    assert len(az("vmss", "nic", "list", "-g", "theirs", "--vmss-name", "v")) == 3
    az("vmss", "deallocate", *one, "--instance-ids", "0")
    billed = [entry["kind"] for entry in az.cli.sandbox.status()["billing"]]
    assert sorted(billed) == ["disk"] * 3 + ["instance"] * 2
    az("vmss", "delete", *one)
    assert az.cli.sandbox.status()["billing"] == []


def test_stores_and_fetches_blobs(az: Az, tmp_path: Path) -> None:
    tags = [f"{name}={value}" for name, value in {**TAGS, "gpucloud:owner": "them"}.items()]
    az("group", "create", "--name", "theirs", "--location", "eastus")
    free = ("storage", "account", "check-name", "--name")
    assert az(*free, "theirdata")["nameAvailable"] is True
    where = ("-g", "theirs", "-n", "theirdata")
    az("storage", "account", "create", *where, "--sku", "Standard_LRS", "--tags", *tags)
    assert az(*free, "theirdata")["reason"] == "AlreadyExists"
    found = az("storage", "account", "show-connection-string", *where)["connectionString"]
    here = ("--connection-string", found)
    blob = ("--container-name", "con", "--name", "weights.bin")
    sent, fetched = tmp_path / "sent", tmp_path / "fetched"
    sent.write_bytes(bytes(range(256)) * 256)
    az("storage", "container", "create", "--name", "con", *here)
    az("storage", "blob", "upload", *blob, "--file", str(sent), *here)
    listed = az("storage", "blob", "list", "--container-name", "con", *here)
    sizes = {each["name"]: each["properties"]["contentLength"] for each in listed}
    assert sizes == {"weights.bin": 65536}
    az("storage", "blob", "download", *blob, "--file", str(fetched), *here)
    assert fetched.read_bytes() == sent.read_bytes()
    assert [entry["kind"] for entry in az.cli.sandbox.status()["billing"]] == ["storage"]
    az("storage", "blob", "delete", *blob, *here)
    assert az.cli.sandbox.status()["billing"] == []


def test_sizes_and_quotas_can_be_read(az: Az) -> None:
    sizes = az("vm", "list-skus", "--location", "eastus", "--size", "Standard_NC4as_T4_v3")
    assert [size["family"] for size in sizes] == ["standardNCasT4v3Family"]
    usage = az("vm", "list-usage", "--location", "eastus")
    assert "lowPriorityCores" in {each["name"]["value"] for each in usage}
