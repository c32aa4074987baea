"""SDKs as they might be one day: the same calls through the front door, other rooms behind it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

ECS = "alibabacloud_ecs20140526"

AWS = """
from botocore.client import BaseClient, ClientCreator

BaseClient.send_by_another_name = BaseClient._make_api_call
del BaseClient._make_api_call

def method(self, name, operation, model):
    return lambda client, **parameters: client.send_by_another_name(operation, parameters)

ClientCreator._create_api_method = method
"""
"""A program that makes boto3 send by a method of another name."""

ALIBABA = """
from darabonba.core import DaraCore

made = DaraCore._get_session
DaraCore._get_session = classmethod(lambda cls, **settings: made(**settings))
"""
"""A program that makes Alibaba's SDK keep its connections in another way."""


def later_ecs(folder: Path, place: str = "models/__init__.py") -> None:
    """Alibaba's SDK of ECS in a folder, with its classes in modules of other names.

    Args:
        folder: belongs before all others on the path of a program.
        place: the file of the package with the classes.
    """
    spec = find_spec(ECS)
    assert spec is not None
    assert spec.origin is not None
    sdk, later = Path(spec.origin).parent, folder / ECS
    later.mkdir()
    for each in ("__init__.py", "client.py"):
        (later / each).symlink_to(sdk / each)
    (later / "kinds").symlink_to(sdk / "models")
    (later / place).parent.mkdir(exist_ok=True)
    (later / place).write_text(
        f"from {ECS} import (\n    kinds,\n)\n"
        "globals().update({kind.__name__: kind for kind in kinds.__all__})\n",
        "utf-8",
    )
