"""The console output of instances."""

from __future__ import annotations

from gpucloud.clouds.abilities import ConsoleLog
from gpucloud.resources import Ref
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.errors import code_of


class AwsConsoleLog(ConsoleLog):
    """The serial console, as far as EC2 shows it."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    def console(self, ref: Ref, /) -> str:
        """The serial console's text: the newest if the type supports it, otherwise that of the boot."""
        self._account.refuse_foreign(ref)
        ec2 = self._account.clients.ec2_once(ref.region)
        try:
            answer = ec2.get_console_output(InstanceId=ref.id, Latest=True)
        except Exception as error:
            if code_of(error) != "UnsupportedOperation":
                raise
            answer = ec2.get_console_output(InstanceId=ref.id)  # types before Nitro
        return answer.get("Output") or ""
