"""Bad input: each ends in a message that says what, for whom and why, and the rest goes on."""

import pytest

from tests.e2e.conftest import Tenant
from tests.e2e.stack import Stack, network, workload
from tests.waiting import until

CLAIM = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "NetworkInterfaceClaim",
    "metadata": {"name": "direct"},
    "spec": {"network": {"name": "default"}},
}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"network": {"name": "default"}, "interfaceName": "lo"}, "interfaceName"),
        ({"network": {"name": "default"}, "ipFamilies": ["IPv4", "IPv4"]}, "ipFamilies"),
        ({"network": {"name": "default"}, "reclaimPolicy": "Keep"}, "reclaimPolicy"),
        ({}, "network"),
    ],
    ids=["loopback", "family-twice", "unknown-policy", "no-network"],
)
async def test_a_claim_with_a_refused_field_is_refused_by_the_api_server_naming_the_field(
    stack: Stack, tenant: Tenant, spec: dict[str, object], said: str
) -> None:
    """T30: validation is the API server's, with a message of ours."""
    import yaml

    claim = {**CLAIM, "metadata": {"name": "direct", "namespace": tenant.namespace}, "spec": spec}
    answer = stack.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(claim), check=False)
    assert "is invalid" in answer
    assert said in answer


async def test_a_workload_whose_network_does_not_exist_says_so_and_comes_up_when_it_is_created(
    stack: Stack, tenant: Tenant
) -> None:
    """R12: the reason travels from claim to instance, another workload goes on, and the event cures it."""
    stack.apply(network("other", tenant.namespace), workload("web", tenant.namespace))
    stack.apply(workload("fine", tenant.namespace, network="other"))

    async def reason_shown() -> bool:
        found = await stack.instances(tenant.namespace, "web")
        ready = [c for i in found.values() for c in i.get("status", {}).get("conditions", []) if c["type"] == "Ready"]
        return any(c["reason"] == "NetworkNotFound" and "default" in c["message"] for c in ready)

    await until(reason_shown, timeout=20, what="NetworkNotFound on the instance")
    await stack.ready(tenant.namespace, "fine", 1)
    assert "NetworkNotFound" in stack.kubectl("get", "instances", "-n", tenant.namespace)
    stack.apply(network("default", tenant.namespace))
    await stack.ready(tenant.namespace, "web", 1)


async def test_an_opted_in_pod_that_no_instance_owns_is_refused_with_what_to_do(stack: Stack, tenant: Tenant) -> None:
    """R33: the API server asks our webhook, and kubectl prints our reason."""
    import yaml

    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "stray",
            "namespace": tenant.namespace,
            "labels": {"networking.datumapis.com/inject-interfaces": "true"},
        },
        "spec": {"containers": [{"name": "main", "image": "node.local/busybox:1"}]},
    }
    answer = stack.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(pod), check=False)
    assert "denied the request" in answer
    assert "stray" in answer
    assert "Instance" in answer
