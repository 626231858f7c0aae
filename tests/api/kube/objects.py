"""Objects for the tests of the runtime against a real API server."""

from typing import Any

from netclaim.api.meta import Raw

CLAIM = "web-0-eth0"


def config_map(namespace: str, name: str, **values: str) -> Raw:
    """A ConfigMap with these values."""
    return {"metadata": {"namespace": namespace, "name": name}, "data": values}


def claim(namespace: str) -> Raw:
    """A valid claim named `web-0-eth0`."""
    return {"metadata": {"namespace": namespace, "name": CLAIM}, "spec": {"network": {"name": "default"}}}


def status(namespace: str, *conditions: Raw, version: str = "", **fields: Any) -> Raw:
    """A status apply for `web-0-eth0`, over `version` when that is given."""
    metadata = {"namespace": namespace, "name": CLAIM, **({"resourceVersion": version} if version else {})}
    return {"metadata": metadata, "status": {**fields, "conditions": list(conditions)}}


def condition(kind: str, value: str, reason: str = "Because") -> Raw:
    """A condition."""
    return {"type": kind, "status": value, "reason": reason}


def condition_values(raw: Raw) -> dict[str, str]:
    """The status of each condition by type."""
    return {each["type"]: each["status"] for each in raw["status"]["conditions"]}
