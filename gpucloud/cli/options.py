"""The spec's flags, declared once. A command that takes them receives a finished spec::

@takes_spec
def offers(app: App, spec: Spec, *, why: Annotated[bool, typer.Option("--why")] = False) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gpucloud.resources import RUN_ID
from gpucloud.spec.file import load_spec
from gpucloud.spec.model import Spec


def read_run_id(text: str) -> str:
    """A run's id as it was given. An empty one would stand for everything that belongs to no run.

    Raises:
        typer.BadParameter: it is none.
    """
    if not RUN_ID.fullmatch(text):
        raise typer.BadParameter(
            f"{text[:80]!r} is none; allowed: 1-128 letters, digits and . _ : @ / = + % -"
        )
    return text


RunId = Annotated[
    str | None,
    typer.Option(
        "--run-id",
        help="Your own id for a run, by which `down` finds its boxes anywhere.",
        parser=read_run_id,
        metavar="ID",
    ),
]

_GPU, _PAY, _PLACE, _BOX = "What GPU", "How to pay", "Where", "What box"

Text = str | None
Texts = list[str] | None


def _option(panel: str, text: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)


def _spec_flags(
    *,
    gpu: Annotated[Text, _option(_GPU, "A100, A100-80GB:8, T4:1..4, A100:8,H100:4", metavar="GPU")],
    gpu_memory: Annotated[Text, _option(_GPU, "At least this many GiB on each GPU.", metavar="GIB")],
    total_gpu_memory: Annotated[Text, _option(_GPU, "At least this many GiB on all GPUs.", metavar="GIB")],
    interconnect: Annotated[Text, _option(_GPU, "At least: none, pcie, nvlink, nvswitch.", metavar="LINK")],
    rdma: Annotated[Text, _option(_GPU, "efa, infiniband or erdma.", metavar="NETWORK")],
    cpus: Annotated[Text, _option(_GPU, "At least this many vCPUs.", metavar="N")],
    memory: Annotated[Text, _option(_GPU, "At least this many GiB of main memory.", metavar="GIB")],
    arch: Annotated[Text, _option(_GPU, "x86_64 (default) or arm64.", metavar="ARCH")],
    on_demand: Annotated[bool, _option(_PAY, "Pay on demand (default).", "--on-demand")] = False,
    spot: Annotated[bool, _option(_PAY, "Allow spot.", "--spot")] = False,
    reserved: Annotated[bool, _option(_PAY, "Allow capacity that is held.", "--reserved")] = False,
    purchase: Annotated[Texts, _option(_PAY, "The same as a list: spot,on-demand.", metavar="WAYS")],
    max_price: Annotated[Text, _option(_PAY, "USD per hour and box, compute only.", metavar="USD")],
    budget: Annotated[Text, _option(_PAY, "USD in all; becomes a deadline.", metavar="USD")],
    clouds: Annotated[Texts, _option(_PLACE, "Repeatable; !x leaves out.", "--cloud", metavar="NAME")],
    regions: Annotated[
        Texts, _option(_PLACE, "us-*, eu, !us-east-1; repeatable.", "--region", metavar="NAME")
    ],
    zones: Annotated[Texts, _option(_PLACE, "As regions; repeatable.", "--zone", metavar="NAME")],
    file: Annotated[Path | None, _option(_BOX, "A spec in YAML; flags win.", "--file", "-f", metavar="FILE")],
    name: Annotated[Text, _option(_BOX, "1-40 of a-z 0-9 -; generated if absent.", metavar="NAME")],
    nodes: Annotated[Text, _option(_BOX, "Identical boxes, all or none.", metavar="N")],
    disk: Annotated[Text, _option(_BOX, "The root disk in GiB (default 100).", metavar="GIB")],
    image: Annotated[Text, _option(_BOX, "cuda-12.4, pytorch, ubuntu-22.04, image id.", metavar="IMAGE")],
    ttl: Annotated[Text, _option(_BOX, "When it ends: 90m, 24h, 1h30m, 2d, none.", metavar="TIME")],
    ttl_role: Annotated[Text, _option(_BOX, "A role to end it from outside, too.", metavar="ARN")],
    box_identity: Annotated[Text, _option(_BOX, "A role with which it deletes itself.", metavar="ROLE")],
    idle: Annotated[Text, _option(_BOX, "End after being idle this long.", metavar="TIME")],
    setup: Annotated[Text, _option(_BOX, "Shell commands that prepare the box.", metavar="COMMANDS")],
    run: Annotated[Text, _option(_BOX, "The command to run when it is ready.", metavar="COMMAND")],
    env: Annotated[Texts, _option(_BOX, "K=V, or K for your own value; repeatable.", metavar="K=V")],
    sync: Annotated[Texts, _option(_BOX, "LOCAL or LOCAL:REMOTE; repeatable.", metavar="PATH")],
    ports: Annotated[Texts, _option(_BOX, "TCP ports; repeatable.", "--ports", "--port", metavar="PORT")],
    tags: Annotated[Texts, _option(_BOX, "Tags of your own; repeatable.", "--tags", "--tag", metavar="K=V")],
    allow_from: Annotated[Texts, _option(_BOX, "Who is let in; default: you alone.", metavar="CIDR")],
    ssh_key: Annotated[Text, _option(_BOX, "A public key let in besides the box's own.", metavar="KEY")],
    checkpoint: Annotated[Text, _option(_BOX, "Run on the box before it is ended.", metavar="COMMAND")],
    accept_test: Annotated[
        bool | None, _option(_BOX, "Test its GPUs before it counts as ready.", "--accept-test")
    ] = None,
) -> None:
    """Declares the flags. They are read by the rules of spec files, so all of them are texts here."""


_PARAMETERS = [
    parameter.replace(default=None if parameter.default is parameter.empty else parameter.default)
    for parameter in inspect.signature(_spec_flags, eval_str=True).parameters.values()
]


def takes_spec(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Gives a command the spec's flags in place of its parameter that is annotated ``Spec``."""
    signature = inspect.signature(function, eval_str=True)
    receiver = next(each.name for each in signature.parameters.values() if each.annotation is Spec)
    own = [each for each in signature.parameters.values() if each.name != receiver]

    def command(**values: Any) -> int | None:
        flags = {each.name: values.pop(each.name) for each in _PARAMETERS}
        return function(**{receiver: spec_from(flags)}, **values)

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *_PARAMETERS)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {}
    command.__doc__ = inspect.getdoc(function)
    return command


def spec_from(flags: dict[str, Any]) -> Spec:
    """The spec that a command line asks for.

    Raises:
        UsageError: the file or a flag is wrong.
    """
    file: Path | None = flags.pop("file")
    switches = {way: flags.pop(way.replace("-", "_")) for way in ("on-demand", "spot", "reserved")}
    flags["purchase"] = [*(flags["purchase"] or ()), *(way for way, given in switches.items() if given)]
    return load_spec(file, flags)
