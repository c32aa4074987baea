"""The console output of instances."""

from __future__ import annotations

import base64
import binascii

from gpucloud.clouds.abilities import ConsoleLog
from gpucloud.resources import Ref
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.errors import reading
from gpucloud_alibaba.models import ecs_models


class AlibabaConsoleLog(ConsoleLog):
    """The serial console, as ECS shows it."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    def console(self, ref: Ref, /) -> str:
        """The console output of the machine."""
        self._account.refuse_foreign(ref)
        asked = ecs_models().GetInstanceConsoleOutputRequest(region_id=ref.region, instance_id=ref.id)
        answer = self._account.clients.ecs(ref.region).get_instance_console_output(asked)
        with reading("GetInstanceConsoleOutput"):
            text = str(answer.body.console_output or "")
        try:
            return base64.b64decode(text, validate=True).decode(errors="replace")
        except (binascii.Error, ValueError):
            return text
