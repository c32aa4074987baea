"""One call by the older SDK: a request of ``aliyunsdkecs.request.v20140526``, and its members as JSON.

``RegionId`` is that of the client. It runs in the environment of the clients, prints what the cloud said in
the format that is named (``json`` or ``xml``), and ends with 1 where that is an error.
"""

import importlib
import json
import os
import sys
from urllib.parse import urlsplit

from aliyunsdkcore.acs_exception.exceptions import ServerException
from aliyunsdkcore.client import AcsClient


def main(name: str, members: dict[str, object], form: str) -> int:
    """Makes the call."""
    environment = os.environ
    client = AcsClient(
        environment["ALIBABA_CLOUD_ACCESS_KEY_ID"],
        environment["ALIBABA_CLOUD_ACCESS_KEY_SECRET"],
        str(members.pop("RegionId", "us-east-1")),
        auto_retry=False,
    )
    module = importlib.import_module(f"aliyunsdkecs.request.v20140526.{name}Request")
    request = getattr(module, f"{name}Request")()
    request.set_accept_format(form)
    request.set_protocol_type("http")
    request.set_endpoint(urlsplit(environment["GPUCLOUD_ALIBABA_ENDPOINT"]).netloc)
    for member, value in members.items():
        getattr(request, f"set_{member}")(value)
    try:
        # The call that raises what is refused always asks for JSON.
        call = client.do_action if form == "xml" else client.do_action_with_exception
        print(call(request).decode())
    except ServerException as refusal:
        error = {"Code": refusal.error_code, "Status": refusal.http_status, "RequestId": refusal.request_id}
        print(json.dumps(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]))
