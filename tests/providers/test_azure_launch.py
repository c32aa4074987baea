"""Buying, looking and ending on Azure, with the real SDK over TLS."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from azure.core.exceptions import AzureError, HttpResponseError

from gpucloud.clouds.abilities import ConsoleLog, Deadlines, Preflight
from gpucloud.clouds.cloud import Backoff, Cloud
from gpucloud.errors import RULES, ErrorClass, OutcomeUnknownError, Scope, UsageError
from gpucloud.resources import End, Machine, ResourceKind, Search, State
from gpucloud_azure import schedule
from gpucloud_azure.create import request_of
from gpucloud_azure.errors import ChangedRequestError, MalformedAnswerError, NotEndingError, classify
from gpucloud_azure.find import machine_of
from gpucloud_azure.ids import group_id, id_in, name_of
from gpucloud_azure.images import image_for
from gpucloud_azure.network import group_name, machine_names, set_name, wanted_rules
from gpucloud_azure.provider import AzureProvider
from gpucloud_azure.sizes import accelerates_networking
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.snapshot import Snapshot
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.azure_wire import SUBSCRIPTION, Answer, Remembered, Sent, Wire, order, ref, refusal

FIVE = {"gpucloud:owner", "gpucloud:box", "gpucloud:op", "gpucloud:run", "gpucloud:expires"}
GROUP = group_name(order())
[VM] = machine_names(order())
MACHINE = id_in(SUBSCRIPTION, GROUP, ResourceKind.INSTANCE, VM)


def machine_body(**changes: Any) -> dict[str, Any]:
    """The body of the only machine's PUT."""
    made = order(**changes)
    nics = [f"/nic/{name}" for name in machine_names(made)]
    image = image_for(made.image, made.arch, made.instance_type, lambda _: False)
    request = request_of(made, nics=nics, image=image, host_encryption=False)
    body: dict[str, Any] = request["machines"][0]["body"]
    return body


def bodies(sent: list[Sent]) -> list[dict[str, Any]]:
    return [json.loads(each.body) for each in sent]


def launch(azure: AzureProvider, **changes: Any) -> list[Machine]:
    wanted = order(**changes)
    record = Remembered()
    machines = list(azure.create(azure.prepare(wanted, record)))
    able(azure, Deadlines).ensure_end(machines, End(at=wanted.deadline), record.timers, record.armed)
    return machines


# --- what is asked for


def test_a_box_is_private_encrypted_tagged_and_dies_as_a_whole() -> None:
    body = machine_body()
    properties = body["properties"]
    disk = properties["storageProfile"]["osDisk"]
    assert (disk["deleteOption"], disk["diskSizeGB"]) == ("Delete", 100)
    [nic] = properties["networkProfile"]["networkInterfaces"]
    assert nic["properties"]["deleteOption"] == "Delete"
    assert set(body["tags"]) >= FIVE
    linux = properties["osProfile"]["linuxConfiguration"]
    assert linux["disablePasswordAuthentication"] is True
    assert base64.b64decode(properties["osProfile"]["customData"]) == order().user_data
    assert properties["diagnosticsProfile"]["bootDiagnostics"] == {"enabled": True}
    assert body["zones"] == ["1"]
    assert "priority" not in properties


def test_spot_ends_by_deletion_and_bids_the_limit_rounded_down() -> None:
    spot = machine_body(purchase=Purchase.SPOT, max_price_usd=Decimal("0.1234567"))["properties"]
    assert (spot["priority"], spot["evictionPolicy"]) == ("Spot", "Delete")
    assert spot["billingProfile"] == {"maxPrice": 0.12345}


def test_held_capacity_is_named_by_its_group() -> None:
    held = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/h"
    body = machine_body(purchase=Purchase.RESERVED, reservation=held)["properties"]
    assert body["capacityReservation"] == {"capacityReservationGroup": {"id": held}}


def test_a_region_without_zones_is_asked_for_none() -> None:
    assert "zones" not in machine_body(zone="")


def test_trusted_launch_goes_by_image_and_size_and_never_with_secure_boot() -> None:
    security = machine_body(image="ubuntu-22.04")["properties"]["securityProfile"]
    assert security["securityType"] == "TrustedLaunch"
    assert security["uefiSettings"] == {"secureBootEnabled": False, "vTpmEnabled": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"image": "cuda-12.4"},
        {"image": "/subscriptions/s/x/images/i"},
        {"image": "ubuntu-22.04", "instance_type": "Standard_ND96asr_v4"},
        {"image": "ubuntu-22.04", "instance_type": "Standard_NC128ds_xl_RTXPRO6000BSE_v6"},
    ],
)
def test_without_trusted_launch_the_standard_is_asked_for_which_is_no_default(
    changes: dict[str, Any],
) -> None:
    """Where nothing is asked for, Azure starts the machine with Secure Boot, and no driver of ours loads."""
    assert machine_body(**changes)["properties"]["securityProfile"] == {"securityType": "Standard"}


@pytest.mark.parametrize(
    ("size", "accelerated"),
    [
        ("Standard_NC4as_T4_v3", True),
        ("Standard_ND96isr_H200_v5", True),
        ("Standard_NC40ads_H100_v5", True),
        ("Standard_NCC40ads_H100_v5", False),
        ("Standard_NC24rs_v3", False),
        ("Standard_NC999_of_tomorrow", False),
    ],
)
def test_networking_is_accelerated_where_the_size_supports_it(
    azure_wire: Wire, size: str, accelerated: bool
) -> None:
    AzureProvider(own_profile()).prepare(order(instance_type=size), Remembered())
    [nic] = bodies(azure_wire.calls("PUT", f"/{VM}-nic"))
    assert nic["properties"]["enableAcceleratedNetworking"] is accelerated


def test_every_size_of_the_market_is_known_to_support_accelerated_networking_or_not() -> None:
    """NCv3 and NCC are all that Microsoft's pages of sizes list as without it."""
    sizes = {size for cloud, size in Snapshot.read().types if cloud == "azure"}
    without = {size for size in sizes if not accelerates_networking(size)}
    assert without == {size for size in sizes if re.fullmatch(r"Standard_NC\d+r?s_v3|Standard_NCC.*", size)}


@pytest.mark.parametrize(
    ("image", "size", "says"),
    [
        ("cuda-12.4", "Standard_NC4as_T4_v3", {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc"}),
        ("cuda-12.6", "Standard_ND96isr_H100_v5", {"publisher": "microsoft-dsvm"}),
        ("pytorch", "Standard_NC24ads_A100_v4", {"publisher": "microsoft-dsvm"}),
        ("cuda-12.4", "Standard_ND40rs_v2", {"publisher": "Canonical", "sku": "22_04-lts-gen2"}),
        ("ubuntu-22.04", "Standard_NC4as_T4_v3", {"publisher": "Canonical", "sku": "22_04-lts-gen2"}),
        ("ubuntu-24.04", "Standard_NC4as_T4_v3", {"offer": "ubuntu-24_04-lts"}),
        ("a:b:c:latest", "Standard_NC4as_T4_v3", {"publisher": "a", "offer": "b", "sku": "c"}),
        ("/subscriptions/s/x/images/i", "Standard_NC4as_T4_v3", {"id": "/subscriptions/s/x/images/i"}),
        (
            "/communityGalleries/g/i",
            "Standard_NC4as_T4_v3",
            {"communityGalleryImageId": "/communityGalleries/g/i"},
        ),
    ],
)
def test_a_gpu_boots_an_image_that_can_drive_it(image: str, size: str, says: dict[str, str]) -> None:
    reference = machine_body(image=image, instance_type=size)["properties"]["storageProfile"][
        "imageReference"
    ]
    assert says.items() <= reference.items()


def test_the_users_own_tags_cannot_replace_the_five() -> None:
    tags = machine_body(extra_tags={"team": "vision", "GPUcloud:Owner": "somebody"})["tags"]
    assert tags["team"] == "vision"
    assert tags["gpucloud:owner"] == order().tags.owner
    assert "GPUcloud:Owner" not in tags


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"user_data": b"#" * 65536}, "65536 bytes"),
        ({"extra_tags": {"a<key": "x"}}, "a<key"),
        ({"extra_tags": {"microsoft-x": "x"}}, "microsoft"),
        ({"extra_tags": {"x": "y" * 257}}, "value of tag"),
        ({"extra_tags": {f"t{n}": "" for n in range(43)}}, "43 are given"),
        ({"allow_from": ("0.0.0.0/0",)}, "whole world"),
        ({"allow_from": ("::/0",)}, "whole world"),
        ({"allow_from": ("203.0.113.7/33",)}, "not a network"),
        ({"image": "windows-95"}, "windows-95"),
        ({"purchase": Purchase.RESERVED}, "capacity reservation"),
    ],
)
def test_what_azure_would_refuse_is_refused_before_anything_is_made(
    azure_wire: Wire, changes: dict[str, Any], says: str
) -> None:
    record = Remembered()
    with pytest.raises(UsageError, match=says):
        AzureProvider(own_profile()).prepare(order(**changes), record)
    assert not record.told
    assert not azure_wire.sent


# --- what machines stand on


def test_only_the_caller_gets_in_on_ssh_and_the_boxs_ports() -> None:
    rules = [rule["properties"] for rule in wanted_rules(["203.0.113.7/32", "2001:db8::7/128"], [8080])]
    let_in = {(rule["sourceAddressPrefix"], rule["destinationPortRange"]) for rule in rules}
    assert let_in == {
        (source, port) for source in ("203.0.113.7/32", "2001:db8::7/128") for port in ("22", "8080")
    }
    assert {rule["access"] for rule in rules} == {"Allow"}
    priorities = [rule["priority"] for rule in rules]
    assert all(one < other for one, other in pairwise(priorities))


def test_the_address_is_standard_static_and_dies_with_the_interface(azure_wire: Wire) -> None:
    AzureProvider(own_profile()).prepare(order(), Remembered())
    [address] = bodies(azure_wire.calls("PUT", f"{VM}-ip"))
    assert address["sku"] == {"name": "Standard"}
    assert address["properties"]["publicIPAllocationMethod"] == "Static"
    assert address["zones"] == ["1"]
    [nic] = bodies(azure_wire.calls("PUT", f"{VM}-nic"))
    [configuration] = nic["properties"]["ipConfigurations"]
    assert configuration["properties"]["publicIPAddress"]["properties"] == {"deleteOption": "Delete"}
    assert nic["properties"]["networkSecurityGroup"]["id"].endswith(f"/networkSecurityGroups/{order().name}")


def test_everything_is_tagged(azure_wire: Wire) -> None:
    AzureProvider(own_profile()).prepare(order(extra_tags={"team": "vision"}), Remembered())
    made = bodies(azure_wire.calls("PUT"))
    assert len(made) == 5
    assert all(set(body["tags"]) >= FIVE | {"Name", "team"} for body in made)


def test_the_address_is_told_before_it_is_made_and_each_thing_after(azure_wire: Wire) -> None:
    class Asks(Remembered):
        def making(self, kind: ResourceKind, name: str, /) -> None:
            super().making(kind, name)
            if kind is ResourceKind.ADDRESS:
                assert not azure_wire.calls("PUT", "-ip")

    record = Asks()
    AzureProvider(own_profile()).prepare(order(), record)
    kinds = [kind for event, kind, _ in record.told if event == "making"]
    assert kinds == [
        ResourceKind.RESOURCE_GROUP,
        ResourceKind.NETWORK,
        ResourceKind.GROUP,
        ResourceKind.ADDRESS,
        ResourceKind.NIC,
    ]
    assert {kind for event, kind, _ in record.told if event == "made"} == set(kinds)


def test_what_was_refused_is_told_by_its_id_as_well_so_that_it_can_be_proven_gone(azure_wire: Wire) -> None:
    azure_wire.say("PUT", f"/networkSecurityGroups/{order().name}", Answer(refusal("Conflict"), 409))
    record = Remembered()
    with pytest.raises(HttpResponseError):
        AzureProvider(own_profile()).prepare(order(), record)
    made = {kind for event, kind, _ in record.told if event == "made"}
    assert made == {
        ResourceKind.RESOURCE_GROUP,
        ResourceKind.NETWORK,
        ResourceKind.GROUP,
        ResourceKind.ADDRESS,
    }
    assert not azure_wire.calls("PUT", "-nic")


def test_what_is_put_again_is_not_announced_again(azure_wire: Wire) -> None:
    """The journal would wait for a second one that never comes."""
    provider, record = AzureProvider(own_profile()), Remembered()
    azure_wire.say("PUT", "-ip", Answer(hang_up=True), Answer({"id": "x", "properties": {}}, 200))
    with pytest.raises(AzureError):
        provider.prepare(order(), record)
    provider.prepare(order(), record)
    announced = [(kind, name) for event, kind, name in record.told if event == "making"]
    assert len(announced) == len(set(announced)) == 5


def test_the_next_attempt_announces_what_may_have_been_deleted_since(azure_wire: Wire) -> None:
    """A network that was deleted between two attempts is created again: its intent is written down again."""
    provider, first, second = AzureProvider(own_profile()), Remembered(), Remembered()
    provider.prepare(order(), first)
    provider.prepare(order(key="gpc-other"), second)
    announced = [[kind for event, kind, _ in record.told if event == "making"] for record in (first, second)]
    assert announced[0] == announced[1]


def test_the_request_is_plain_json_without_any_key_and_the_same_for_the_same_order(azure_wire: Wire) -> None:
    request = AzureProvider(own_profile()).prepare(order(), Remembered())
    assert json.loads(json.dumps(request)) == request
    assert AzureProvider(own_profile()).prepare(order(), Remembered()) == request
    assert "ssh-rsa" not in json.dumps(request)


def test_the_next_attempt_has_machines_of_other_names() -> None:
    assert not set(machine_names(order(nodes=2))) & set(machine_names(order(nodes=2, key="gpc-other")))


# --- several machines together


def test_several_machines_are_in_one_set_of_their_own_which_is_shown_and_goes_with_them(
    azure: AzureProvider,
) -> None:
    machines = launch(azure, nodes=2, zone="", account=azure.account())
    ids = {
        azure.own_account.clients.compute().virtual_machines.get(group, name).availability_set.id.lower()
        for group, name in (name_of(each.ref.id) for each in machines)
    }
    found = azure.find(Search(owner="u-1")).resources
    [placement] = [each for each in found if each.ref.kind is ResourceKind.PLACEMENT_GROUP]
    assert {placement.ref.id.lower()} == ids
    assert placement.tags == order().tags
    assert azure.get(placement.ref).tags == order().tags
    with pytest.raises(HttpResponseError, match="does not contain any VM"):
        azure.delete(placement.ref)
    [whole] = [each.ref for each in found if each.ref.kind is ResourceKind.RESOURCE_GROUP]
    azure.delete(whole)
    while azure.find(Search(owner="u-1")).resources:
        pass


HELD = {"purchase": Purchase.RESERVED, "reservation": "/subscriptions/s/held"}


@pytest.mark.parametrize("changes", [{"nodes": 1}, {"purchase": Purchase.SPOT}, {"zone": "1"}, HELD])
def test_machines_that_azure_takes_into_no_set_are_put_without_one(changes: dict[str, Any]) -> None:
    assert "availabilitySet" not in machine_body(**{"nodes": 2, "zone": "", **changes})["properties"]


def test_a_later_attempt_has_a_set_that_no_machine_has_pinned() -> None:
    two: dict[str, Any] = {"nodes": 2, "zone": ""}
    assert set_name(order(**two)) != set_name(order(**two, key="gpc-other"))


INFINIBAND: dict[str, Any] = {
    "nodes": 2,
    "zone": "",
    "instance_type": "Standard_ND96asr_v4",
    "image": "cuda",
    "fabric": "infiniband",
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"purchase": Purchase.SPOT}, "takes no machine on Spot"),
        (HELD, "takes no machine in held capacity"),
        ({"zone": "1"}, "takes no machine of a zone"),
        ({"image": "ubuntu-22.04"}, "has no drivers for infiniband"),
        ({"instance_type": "Standard_ND40rs_v2"}, "has no drivers for infiniband"),
        ({"nodes": 201}, "takes 200 machines"),
    ],
)
def test_infiniband_that_would_not_join_the_nodes_is_refused_before_anything_is_sent(
    azure_wire: Wire, changes: dict[str, Any], said: str
) -> None:
    provider = AzureProvider(own_profile())
    able(provider, Preflight).check(order(**INFINIBAND))
    with pytest.raises(UsageError, match=said):
        provider.prepare(order(**{**INFINIBAND, **changes}), Remembered())
    assert azure_wire.sent == []


# --- the call


def accepted(wire: Wire) -> None:
    def vm(name: str) -> dict[str, Any]:
        return {
            "id": id_in(SUBSCRIPTION, GROUP, ResourceKind.INSTANCE, name),
            "name": name,
            "location": "eastus",
            "properties": {
                "provisioningState": "Creating",
                "hardwareProfile": {"vmSize": "Standard_NC4as_T4_v3"},
            },
        }

    wire.say("PUT", f"/virtualMachines/{VM}", Answer(vm(VM), 201))


def test_a_machine_is_put_only_where_there_is_none_with_a_key_that_nobody_has(azure_wire: Wire) -> None:
    [machine] = launch(AzureProvider(own_profile()))
    assert machine.ref.id == MACHINE
    [put] = azure_wire.calls("PUT", f"/virtualMachines/{VM}")
    assert put.headers["if-none-match"] == "*"
    [key] = json.loads(put.body)["properties"]["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"]
    assert key["keyData"].startswith("ssh-rsa ")
    assert key["path"] == "/home/azureuser/.ssh/authorized_keys"


def test_a_refused_machine_is_removed_in_the_same_breath(azure_wire: Wire) -> None:
    azure_wire.say("PUT", f"/virtualMachines/{VM}", Answer(refusal("SkuNotAvailable"), 409))
    azure_wire.say("DELETE", f"/virtualMachines/{VM}", Answer(None, 202))
    with pytest.raises(HttpResponseError) as caught:
        launch(AzureProvider(own_profile()))
    verdict = classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.CAPACITY
    [deleted] = azure_wire.calls("DELETE")
    assert deleted.query["forceDeletion"].lower() == "true"


def test_an_answer_about_another_machine_says_nothing_of_the_one_that_was_asked_for(azure_wire: Wire) -> None:
    """Taken for it, a node would be two in the journal, and one that is billed in none."""
    other = {**shown("Succeeded"), "id": id_in(SUBSCRIPTION, GROUP, ResourceKind.INSTANCE, "other")}
    azure_wire.say("PUT", f"/virtualMachines/{VM}", Answer(other, 201))
    with pytest.raises(MalformedAnswerError, match=f"the creation of {VM} is about") as caught:
        launch(AzureProvider(own_profile()))
    verdict = classify(caught.value)
    assert verdict is None or not RULES[verdict.error_class].definite, "it may be there"
    assert azure_wire.calls("DELETE") == []


def test_one_refusal_removes_all_nodes(azure_wire: Wire) -> None:
    _, second = machine_names(order(nodes=2))
    azure_wire.say("PUT", f"/virtualMachines/{second}", Answer(refusal("ZonalAllocationFailed"), 409))
    azure_wire.say("DELETE", "-0", Answer(None, 202))
    with pytest.raises(HttpResponseError):
        launch(AzureProvider(own_profile()), nodes=2)
    assert len(azure_wire.calls("DELETE")) == 2


@pytest.mark.parametrize(
    "unclear",
    [
        Answer(refusal("TooManyRequests"), 429),
        Answer(refusal("InternalServerError"), 500),
        Answer(hang_up=True),
    ],
)
def test_a_machine_whose_outcome_is_not_known_is_not_removed(azure_wire: Wire, unclear: Answer) -> None:
    azure_wire.say("PUT", f"/virtualMachines/{VM}", unclear)
    with pytest.raises(Exception) as caught:  # noqa: PT011  (whichever the SDK raises)
        launch(AzureProvider(own_profile()))
    assert classify(caught.value) is not None
    assert not azure_wire.calls("DELETE")


def exists(wire: Wire, tags: dict[str, str], state: str = "Succeeded") -> None:
    shown = {
        "id": MACHINE,
        "name": VM,
        "location": "eastus",
        "tags": tags,
        "properties": {"provisioningState": state, "hardwareProfile": {"vmSize": "Standard_NC4as_T4_v3"}},
    }
    wire.say("PUT", f"/virtualMachines/{VM}", Answer(refusal("PreconditionFailed"), 412))
    wire.say("GET", f"/virtualMachines/{VM}", Answer(shown))


def test_a_machine_that_exists_is_the_same_if_it_was_asked_for_alike(azure_wire: Wire) -> None:
    provider = AzureProvider(own_profile())
    request = provider.prepare(order(), Remembered())
    exists(azure_wire, request["machines"][0]["body"]["tags"])
    [machine] = provider.create(request)
    assert machine.ref.id == MACHINE
    exists(azure_wire, {**request["machines"][0]["body"]["tags"], "gpucloud:request": "another"})
    with pytest.raises(ChangedRequestError) as caught:
        provider.create(request)
    verdict = classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.CONFLICT
    assert not azure_wire.calls("DELETE")


# --- what ends it

DEADLINE = datetime.now(UTC) + timedelta(hours=5)
SUBMIT = "/locations/eastus/virtualMachinesSubmitDeallocate"
NO_ROLE = "00000000-0000-0000-0000-000000000000"
CANCEL = "/locations/eastus/virtualMachinesCancelOperations"


def submitted(error: str | None = None, **of: Any) -> Answer:
    """The answer about a deallocation: accepted with ``of`` in its operation, or refused with an error."""
    operation = {
        "operationId": "o",
        "resourceId": MACHINE,
        "opType": "Deallocate",
        "subscriptionId": SUBSCRIPTION,
        "deadline": DEADLINE.isoformat(),
        "deadlineType": "InitiateAt",
        "state": "PendingScheduling",
        **of,
    }
    result = (
        {"resourceId": MACHINE, "errorCode": error}
        if error
        else {"resourceId": MACHINE, "operation": operation}
    )
    return Answer({"description": "d", "type": "VirtualMachine", "location": "eastus", "results": [result]})


def order_of(wire: Wire) -> list[str]:
    ends = (f"/virtualMachines/{VM}", SUBMIT, f"/shutdown-computevm-{VM}")
    return [
        next(end.rpartition("/")[2].removesuffix(VM) for end in ends if sent.path.endswith(end))
        for sent in wire.sent
        if sent.method in {"PUT", "POST"} and sent.path.endswith(ends)
    ]


def test_the_end_is_armed_before_the_machine_exists(azure_wire: Wire) -> None:
    azure_wire.say("POST", SUBMIT, submitted())
    launch(AzureProvider(own_profile()), deadline=DEADLINE)
    assert order_of(azure_wire) == ["virtualMachinesSubmitDeallocate", "", "shutdown-computevm-"]
    [asked] = bodies(azure_wire.calls("POST", SUBMIT))
    assert asked["resources"] == {"ids": [MACHINE]}
    assert datetime.fromisoformat(asked["schedule"]["deadline"]) == DEADLINE.replace(microsecond=0)
    assert asked["schedule"]["deadlineType"] == "InitiateAt"


def test_where_that_is_not_taken_it_is_armed_right_after(azure_wire: Wire) -> None:
    azure_wire.say("POST", SUBMIT, submitted("ResourceNotFound"), submitted())
    assert launch(AzureProvider(own_profile()), deadline=DEADLINE)
    assert len(azure_wire.calls("POST", SUBMIT)) == 2


def test_the_record_knows_the_timer_so_that_another_process_does_not_set_a_second_one(
    azure_wire: Wire,
) -> None:
    """The provider itself keeps nothing between calls: whoever goes on has what the record was told."""
    azure_wire.say("POST", SUBMIT, submitted())
    wanted, record = order(deadline=DEADLINE), Remembered()
    machines = AzureProvider(own_profile()).create(AzureProvider(own_profile()).prepare(wanted, record))
    assert record.timers == [f"{VM}/o"]
    able(AzureProvider(own_profile()), Deadlines).ensure_end(
        machines, End(at=wanted.deadline), record.timers, record.armed
    )
    assert record.timers == [f"{VM}/o"]
    assert len(azure_wire.calls("POST", SUBMIT)) == 1


def test_a_timer_is_told_also_where_the_rest_of_the_end_fails(azure_wire: Wire) -> None:
    """Else nothing would take it back when the end is moved."""
    azure_wire.say("POST", SUBMIT, submitted("ResourceNotFound"), submitted())
    azure_wire.say("GET", f"/virtualMachines/{VM}", Answer(refusal("AuthorizationFailed"), 403))
    wanted, record = order(deadline=DEADLINE), Remembered()
    azure = AzureProvider(own_profile())
    machines = azure.create(azure.prepare(wanted, record))
    assert record.timers == []
    with pytest.raises(HttpResponseError):
        able(azure, Deadlines).ensure_end(
            machines, End(at=wanted.deadline, box_identity=NO_ROLE), (), record.armed
        )
    assert record.timers == [f"{VM}/o"]


@pytest.mark.parametrize("timer", [f"{VM}/o", "o"])
def test_a_timer_is_taken_back_by_its_operation(azure_wire: Wire, timer: str) -> None:
    """Journals of before have the operation alone."""
    over = {"results": [{"operation": {"operationId": "o", "state": "Cancelled"}}]}
    azure_wire.say("POST", CANCEL, Answer(over))
    schedule.cancel(AzureProvider(own_profile()).own_account.clients, "eastus", [timer])
    [asked] = bodies(azure_wire.calls("POST", CANCEL))
    assert asked["operationIds"] == ["o"]


def test_a_days_shutdown_alone_will_do(azure_wire: Wire) -> None:
    azure_wire.say("POST", SUBMIT, Answer(refusal("MissingSubscriptionRegistration"), 409))
    azure_wire.say("GET", "/providers/Microsoft.DevTestLab", Answer({"registrationState": "Registered"}))
    assert launch(AzureProvider(own_profile()), deadline=DEADLINE)
    [daily] = bodies(azure_wire.calls("PUT", f"/shutdown-computevm-{VM}"))
    assert daily["properties"]["dailyRecurrence"] == {"time": f"{DEADLINE:%H%M}"}
    assert daily["properties"]["targetResourceId"] == MACHINE
    assert set(daily["tags"]) >= FIVE


def with_code(answer: Answer, code: str) -> Answer:
    """An answer with an error code on the result and on its operation."""
    [result] = answer.body["results"]
    error = {"errorCode": code, "errorDetails": code}
    operation = {**result["operation"], "resourceOperationError": error}
    return replace(answer, body={**answer.body, "results": [{**result, **error, "operation": operation}]})


@pytest.mark.parametrize("code", ["", "null", "Success"])
@pytest.mark.parametrize("state", ["PendingScheduling", "Scheduled", "PendingExecution", "Executing"])
def test_a_deallocation_that_is_due_is_accepted_whatever_code_stands_for_no_error(
    azure_wire: Wire, state: str, code: str
) -> None:
    """Microsoft's own examples of accepted deallocations have these codes."""
    azure_wire.say("POST", SUBMIT, with_code(submitted(state=state), code))
    wanted, record = order(deadline=DEADLINE + timedelta(days=3)), Remembered()
    AzureProvider(own_profile()).prepare(wanted, record)
    assert record.timers == [f"{VM}/o"]


@pytest.mark.parametrize(
    "answer",
    [
        submitted("Forbidden"),
        submitted("null"),
        submitted(state="Failed"),
        submitted(state="Blocked"),
        submitted(state="Unknown"),
        submitted(state=None),
        submitted(operationId=""),
        with_code(submitted(state="Cancelled"), "Success"),
        Answer({"results": []}),
    ],
)
def test_a_machine_that_nothing_would_end_is_told_of(azure_wire: Wire, answer: Answer) -> None:
    """The answer has status 200: what is in it counts."""
    azure_wire.say("POST", SUBMIT, answer)
    with pytest.raises(NotEndingError) as caught:
        launch(AzureProvider(own_profile()), deadline=DEADLINE + timedelta(days=3))
    verdict = classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.scope) == (ErrorClass.UNSUPPORTED, Scope.ACCOUNT)
    assert not azure_wire.calls("PUT", f"/shutdown-computevm-{VM}")


def test_a_timer_that_azure_answers_with_nothing_is_neither_set_nor_cancelled(azure_wire: Wire) -> None:
    azure_wire.say("POST", SUBMIT, Answer(""))
    azure_wire.say("POST", CANCEL, Answer(""))
    azure = AzureProvider(own_profile())
    with pytest.raises(MalformedAnswerError, match="SubmitDeallocate"):
        launch(azure, deadline=DEADLINE + timedelta(days=3))
    with pytest.raises(MalformedAnswerError, match="CancelOperations"):
        schedule.cancel(azure.own_account.clients, "eastus", [f"{VM}/o"])


def test_a_machine_whose_create_azure_answers_with_nothing_may_exist(azure_wire: Wire) -> None:
    azure_wire.say("PUT", f"/virtualMachines/{VM}", Answer(""))
    azure = AzureProvider(own_profile())
    request = azure.prepare(order(), Remembered())
    with pytest.raises(OutcomeUnknownError, match="not JSON"):
        Cloud(provider=azure, backoff=Backoff(budget_s=0)).bill(
            "create the instance", partial(azure.create, request), lambda: None
        )


def test_where_nothing_may_ever_end_it_no_machine_is_made(azure_wire: Wire) -> None:
    azure_wire.say("POST", SUBMIT, Answer(refusal("MissingSubscriptionRegistration"), 409))
    with pytest.raises(HttpResponseError) as caught:
        launch(AzureProvider(own_profile()), deadline=DEADLINE + timedelta(days=3))
    verdict = classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.AUTH
    assert order_of(azure_wire) == ["virtualMachinesSubmitDeallocate"]


def test_where_neither_timer_is_registered_no_machine_is_made(azure_wire: Wire) -> None:
    """Azure is left out as a whole: it is so in each of its regions."""
    azure_wire.say("POST", SUBMIT, Answer(refusal("MissingSubscriptionRegistration"), 409))
    azure_wire.say("GET", "/providers/Microsoft.DevTestLab", Answer({"registrationState": "NotRegistered"}))
    with pytest.raises(HttpResponseError) as caught:
        launch(AzureProvider(own_profile()), deadline=DEADLINE)
    verdict = classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.scope) == (ErrorClass.AUTH, Scope.ACCOUNT)
    assert order_of(azure_wire) == ["virtualMachinesSubmitDeallocate"]


def test_an_end_that_no_timer_reaches_is_refused_before_a_call(azure_wire: Wire) -> None:
    """It is found when the launch is planned; an end that a budget sets, and a later one, as well."""
    far = order(deadline=datetime.now(UTC) + timedelta(hours=400))
    azure = AzureProvider(own_profile())
    with pytest.raises(UsageError, match="at most 336 h ahead, and this one would end in 400 h") as told:
        able(azure, Preflight).check(far)
    assert "--ttl" in str(told.value.hint)
    with pytest.raises(NotEndingError) as caught:
        azure.prepare(far, Remembered())
    verdict = classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.scope) == (ErrorClass.UNSUPPORTED, Scope.ACCOUNT)
    assert azure_wire.sent == []
    able(azure, Preflight).check(order(deadline=datetime.now(UTC) + timedelta(days=14)))


def test_a_box_without_a_deadline_has_no_timer(azure_wire: Wire) -> None:
    launch(AzureProvider(own_profile()))
    assert order_of(azure_wire) == [""]


@pytest.mark.parametrize(
    ("now", "deadline", "daily"),
    [
        ("12:00:10", "18:30:40", "1830"),
        ("12:00:10", "12:00:05+1", "1159"),  # today's 1200 would be now
        ("12:00:10", "11:59:59+1", "1159"),
        ("12:00:10", "12:00:11+1", None),
        ("12:00:10", "12:00:09", None),
        ("23:59:00", "00:01:30+1", "0001"),
    ],
)
def test_a_days_shutdown_never_comes_at_once(now: str, deadline: str, daily: str | None) -> None:
    def at(text: str) -> datetime:
        clock, _, days = text.partition("+")
        return datetime.fromisoformat(f"2026-01-05T{clock}+00:00") + timedelta(days=int(days or 0))

    assert schedule.daily_time(at(deadline), at(now)) == daily


# --- what Azure shows


def shown(provisioning: str = "Succeeded", *codes: str, **properties: Any) -> dict[str, Any]:
    return {
        "id": MACHINE.upper(),
        "location": "eastus",
        "zones": ["2"],
        "tags": {"GPUCLOUD:OWNER": "u", "gpucloud:box": "b"},
        "properties": {
            "provisioningState": provisioning,
            "hardwareProfile": {"vmSize": "Standard_NC4as_T4_v3"},
            "instanceView": {"statuses": [{"code": code, "message": "Why."} for code in codes]},
            **properties,
        },
    }


@pytest.mark.parametrize(
    ("provisioning", "codes", "state"),
    [
        ("Creating", (), State.PENDING),
        ("Creating", ("PowerState/starting",), State.PENDING),
        ("Creating", ("PowerState/running",), State.RUNNING),
        ("Succeeded", ("ProvisioningState/succeeded", "PowerState/running"), State.RUNNING),
        ("Updating", ("PowerState/running",), State.RUNNING),
        ("Succeeded", ("PowerState/deallocating",), State.STOPPING),
        ("Succeeded", ("PowerState/deallocated",), State.STOPPED),
        ("Succeeded", ("PowerState/stopped",), State.STOPPED),
        ("Deleting", ("PowerState/running",), State.STOPPING),
        ("Failed", ("ProvisioningState/failed/OSProvisioningTimedOut", "PowerState/running"), State.RUNNING),
        ("Failed", ("ProvisioningState/failed/AllocationFailed",), State.GONE),
        ("Failed", (), State.GONE),
    ],
)
def test_a_machines_state_is_that_of_its_power_and_its_making(
    provisioning: str, codes: tuple[str, ...], state: State
) -> None:
    machine = machine_of(shown(provisioning, *codes), SUBSCRIPTION, failed=State.GONE)
    assert machine.state is state


@pytest.mark.parametrize(
    ("power", "policy", "billed", "taken_back"),
    [
        ("running", "Deallocate", True, False),
        ("stopped", "Deallocate", True, False),
        ("deallocating", "Deallocate", False, True),
        ("deallocated", "Deallocate", False, True),
        ("deallocated", "Delete", False, False),  # by a timer, or by somebody: an eviction would delete it
    ],
)
def test_a_spot_machine_says_whether_it_is_billed_and_was_taken_back(
    power: str, policy: str, billed: bool, taken_back: bool
) -> None:
    vm = shown("Succeeded", f"PowerState/{power}", priority="Spot", evictionPolicy=policy)
    machine = machine_of(vm, SUBSCRIPTION, failed=State.GONE)
    assert (machine.billed, machine.preempted) == (billed, taken_back)
    on_demand = machine_of(shown("Succeeded", f"PowerState/{power}"), SUBSCRIPTION, failed=State.GONE)
    assert (on_demand.billed, on_demand.preempted) == (billed, False)


def test_a_machine_that_failed_late_says_why_and_is_there_for_who_cleans_up() -> None:
    vm = shown("Failed", "ProvisioningState/failed/AllocationFailed")
    assert machine_of(vm, SUBSCRIPTION, failed=State.GONE).reason == "AllocationFailed"
    assert machine_of(vm, SUBSCRIPTION, failed=State.STOPPED).state is State.STOPPED


def test_ids_and_tags_are_compared_without_regard_to_case() -> None:
    machine = machine_of(shown(), SUBSCRIPTION, failed=State.GONE)
    assert machine.ref.id == MACHINE
    assert Search(owner="u").admits(machine.tags)


def test_what_another_subscription_has_is_refused_and_not_taken_for_gone(azure_wire: Wire) -> None:
    provider = AzureProvider(own_profile())
    mine = ref(ResourceKind.INSTANCE, MACHINE)
    foreign = replace(mine, id=MACHINE.replace(SUBSCRIPTION, "99999999-2222-3333-4444-555555555555"))
    for other in (replace(mine, account="another"), foreign):
        for call in (provider.get, provider.delete, able(provider, ConsoleLog).console):
            with pytest.raises(UsageError, match="belongs to Azure subscription"):
                call(other)
    assert not azure_wire.calls("DELETE")


def test_a_resource_group_that_is_not_ours_is_left_alone(azure_wire: Wire) -> None:
    azure_wire.say(
        "GET", "/resourcegroups/theirs", Answer({"id": "x", "location": "eastus", "tags": {"a": "b"}})
    )
    with pytest.raises(UsageError, match="tags"):
        AzureProvider(own_profile()).delete(
            ref(ResourceKind.RESOURCE_GROUP, group_id(SUBSCRIPTION, "theirs"))
        )
    assert not azure_wire.calls("DELETE")


def test_an_empty_list_is_proof_only_with_the_permission_to_read_everything(azure_wire: Wire) -> None:
    azure_wire.say("GET", "/resources", Answer({"value": []}))
    azure_wire.say("GET", f"/{SUBSCRIPTION}/resourcegroups", Answer({"value": []}))
    azure_wire.say("GET", "/permissions", Answer({"value": []}))
    unread = AzureProvider(own_profile()).find(Search(owner="u", regions=("eastus",))).unread
    assert [each.region for each in unread] == ["eastus"]
    azure_wire.say("GET", "/permissions", Answer({"value": [{"actions": ["*/read"], "notActions": []}]}))
    assert not AzureProvider(own_profile()).find(Search(owner="u", regions=("eastus",))).unread


def test_machines_of_others_are_listed_and_never_read_one_by_one(azure_wire: Wire) -> None:
    ours = {"gpucloud:owner": "u", "gpucloud:box": "b", "gpucloud:token": "gpc-1"}
    tags = [None, {"team": "theirs"}, {**ours, "gpucloud:owner": "v"}, {**ours, "gpucloud:token": "gpc-2"}]
    listed = [
        {**shown(), "id": f"{MACHINE}-{number}", "type": "Microsoft.Compute/virtualMachines", "tags": each}
        for number, each in enumerate([*tags, ours])
    ]
    azure_wire.say("GET", "/resources", Answer({"value": listed}))
    azure_wire.say("GET", f"{MACHINE}-4", Answer({**listed[4], **shown("Succeeded", "PowerState/running")}))
    azure_wire.say("GET", "/permissions", Answer({"value": [{"actions": ["*/read"], "notActions": []}]}))
    found = AzureProvider(own_profile()).find(Search(owner="u", token="gpc-1"))
    assert [each.state for each in found.resources] == [State.RUNNING]
    looked_at = [sent.path for sent in azure_wire.calls("GET") if "/virtualMachines/" in sent.path]
    assert [path.lower() for path in looked_at] == [f"{MACHINE}-4".lower()]
    [asked] = azure_wire.calls("GET", "/resources")
    assert asked.query["$filter"] == "resourceType eq 'Microsoft.Compute/virtualMachines'"


def test_the_console_is_read_with_its_own_signature_and_without_our_token(azure_wire: Wire) -> None:
    blob = f"{azure_wire.url}/blob/serial.log?sig=x"
    azure_wire.say("POST", "/retrieveBootDiagnosticsData", Answer({"serialConsoleLogBlobUri": blob}))
    azure_wire.say("GET", "/blob/serial.log", Answer("login:", headers={"content-type": "text/plain"}))
    assert "login:" in able(AzureProvider(own_profile()), ConsoleLog).console(
        ref(ResourceKind.INSTANCE, MACHINE)
    )
    [asked] = azure_wire.calls("GET", "/blob/serial.log")
    assert "authorization" not in asked.headers
    azure_wire.say("POST", "/retrieveBootDiagnosticsData", Answer({}))
    assert able(AzureProvider(own_profile()), ConsoleLog).console(ref(ResourceKind.INSTANCE, MACHINE)) == ""
