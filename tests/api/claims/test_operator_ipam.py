"""`netclaimctl ipam` against live control planes: check, repair and who."""

import secrets

import pytest

from netclaim.api import ipam as ipam_api
from netclaim.api import resources
from netclaim.kube.client import Client
from tests.api.claims.operator import Operator
from tests.api.claims.programs import Program
from tests.api.claims.shop import Shop
from tests.control_plane import ControlPlane
from tests.waiting import until


@pytest.fixture
def operator(control_plane: ControlPlane) -> Operator:
    return Operator(control_plane)


def of_project(shop: Shop) -> tuple[str, str]:
    return f"--project={shop.project}", "--grace=0.5"


async def test_a_live_project_and_its_cell_hold_together(shop: Shop, operator: Operator) -> None:
    """T04: nothing is found while claims of both policies are bound and released, and a retained one is unheld."""
    await shop.network()
    for name, policy in (("web-0-eth0", "Delete"), ("db-0-eth0", "Retain")):
        await shop.claim(name, reclaimPolicy=policy, addresses=[{"class": "public-unicast-ipv4"}])
    await shop.allocated("web-0-eth0")
    await shop.allocated("db-0-eth0")
    await shop.delete_claim("db-0-eth0")
    told = await operator.ipam("check", f"--project={shop.project}")
    assert told.code == 0, told
    assert told.found == []
    assert "0 violations" in told.remarks


async def test_an_orphaned_ip_claim_is_found_with_its_cell_and_given_back(
    shop: Shop, operator: Operator, cell: Client, ipam: Client
) -> None:
    """Only the cell knows that the owner is gone; a dry run changes nothing."""
    control_plane = (await cell.get(resources.NAMESPACES, None, "kube-system"))["metadata"]["uid"]
    owner = {"controlPlane": control_plane, "kind": "NetworkInterfaceClaim", "namespace": shop.namespace}
    orphan = {
        "metadata": {
            "name": "orphan",
            "namespace": shop.project,
            # Of another location than that of the running NSO, whose sweep would be faster than the operator.
            "labels": {ipam_api.LOCATION_LABEL: "elsewhere", ipam_api.CONTROL_PLANE_LABEL: control_plane},
            "finalizers": [ipam_api.CLAIM_FINALIZER],
        },
        "spec": {
            "className": "public-unicast-ipv4",
            "target": "Block",
            "ownerRef": {**owner, "name": "gone", "uid": "uid-gone"},
        },
    }
    await ipam.create(resources.IP_CLAIMS, orphan)

    async def bound() -> bool:
        raw = await ipam.get(resources.IP_CLAIMS, shop.project, "orphan")
        return (raw.get("status") or {}).get("phase") == "Bound"

    await until(bound, what="the orphan bound")
    assert (await operator.ipam("check", *of_project(shop), with_cell=False)).code == 0
    told = await operator.ipam("check", *of_project(shop))
    assert told.code == 1
    assert [line for line in told.found if line.startswith(f"NoOwner: IPClaim {shop.project}/orphan")], told

    dry = await operator.ipam("repair", "--dry-run", *of_project(shop))
    assert dry.code == 1
    assert [line for line in dry.found if line.startswith("would delete IPClaim")], dry
    assert await ipam.get(resources.IP_CLAIMS, shop.project, "orphan")

    done = await operator.ipam("repair", *of_project(shop))
    assert done.code == 0, done

    async def freed() -> bool:
        claims = await ipam.list(resources.IP_CLAIMS, shop.project)
        held = await ipam.list(resources.IP_ALLOCATIONS, shop.project)
        assert not claims, claims
        assert not [raw for raw in held if raw["spec"]["purpose"] == "Claim"], held
        return True

    await until(freed, what="the orphan and its block gone")


async def test_a_lost_allocation_is_found_and_made_again(
    shop: Shop, operator: Operator, ipam: Client, ipam_program: Program
) -> None:
    """Under the same name and for the same holder, so that the address stays its claim's.

    IPAM stands still meanwhile: at work, it takes such an allocation again before anybody can look.
    """
    await shop.network()
    await shop.claim()
    await shop.held_by_ipam(await shop.allocated())
    lost = next(iter((await shop.allocations()).values()))
    with ipam_program.paused():
        await ipam.delete(resources.IP_ALLOCATIONS, shop.project, lost["metadata"]["name"])
        told = await operator.ipam("check", *of_project(shop))
        assert told.code == 1
        assert any("holds no allocation" in line for line in told.found), told
        done = await operator.ipam("repair", *of_project(shop))
        assert [line for line in done.found if line.startswith("done: ")], done
        again = await ipam.get(resources.IP_ALLOCATIONS, shop.project, lost["metadata"]["name"])
        assert again["spec"] == lost["spec"]
    await shop.held_by_ipam(await shop.cell.get(resources.CLAIMS, shop.namespace, "web-0-eth0"))

    async def holds_together() -> bool:
        told = await operator.ipam("check", f"--project={shop.project}")
        assert told.code == 0, told
        return True

    await until(holds_together, timeout=60, what="nothing is found any more")


async def test_who_names_the_holder_of_an_address_and_of_nothing_else(shop: Shop, operator: Operator) -> None:
    """R14: the same address in another project is told as the other project's, or not at all."""
    await shop.network()
    await shop.claim()
    claim = await shop.allocated()
    for entry in claim["status"]["addresses"]:
        address = entry["address"].split("/")[0]
        told = await operator.ipam("who", address, f"--project={shop.project}")
        assert told.code == 0, told
        (holder,) = [line for line in told.found if f"NetworkInterfaceClaim {shop.namespace}/web-0-eth0" in line]
        assert holder.split()[:3] == [shop.project, entry["address"], "Claim"]
        assert f"interface {shop.namespace}/web-0-eth0" in holder
    free = await operator.ipam("who", "198.51.100.200", f"--project={shop.project}")
    assert free.code == 1
    assert free.found[-1].split()[1:3] == ["198.51.100.200/32", "free"]
    assert (await operator.ipam("who", "203.0.113.1", f"--project={shop.project}")).code == 1


async def test_a_question_that_cannot_be_answered_is_exit_code_2(operator: Operator) -> None:
    """No control plane, no configuration, no address: one line each, and never a verdict."""
    assert (await operator.ipam("who", "nobody")).code == 2
    missing = await operator.run("ipam", "check", "--kubeconfig=/nowhere")
    assert missing.code == 2
    assert "/nowhere" in missing.remarks
    stranger = operator.control_plane.cluster.kubeconfig_for(f"stranger-{secrets.token_hex(2)}", plane="ipam")
    refused = await operator.run("ipam", "check", f"--kubeconfig={stranger}")
    assert refused.code == 2
    assert "cannot be read" in refused.remarks
    assert refused.found == []
