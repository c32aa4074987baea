from typing import Any

class NodeProvider:
    provider_config: dict[str, Any]
    cluster_name: str
    def __init__(self, provider_config: dict[str, Any], cluster_name: str) -> None: ...
