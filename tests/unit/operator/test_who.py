"""Who holds an address: from the root pool down to the Pod, in every project."""

from dataclasses import replace

import pytest

from netclaimctl.who import FREE, RESERVED, Holding, holdings, read_address
from tests.unit.operator.site import ADDRESS, CLAIM, PROJECT, Site


def ask(site: Site, address: str, *, with_cell: bool = False) -> list[Holding]:
    return holdings(read_address(address), site.ipam(), [site.cell()] if with_cell else [])


@pytest.mark.parametrize("text", ["192.0.2.3", "192.0.2.3/32", " 192.0.2.3 "])
def test_the_holder_of_an_address_is_told(text: str) -> None:
    """However the address is written."""
    (held,) = ask(Site(), text)
    assert held.is_held
    assert (held.project, held.block, held.pool, held.held_by) == (PROJECT, ADDRESS, "pool", "IPClaim web")
    assert held.owner == f"NetworkInterfaceClaim shop/{CLAIM}"


def test_with_the_cell_also_its_interface_pod_and_node_are_told() -> None:
    """What an operator with a packet capture asks for."""
    (held,) = ask(Site(), "192.0.2.3", with_cell=True)
    assert held.owner.endswith(f"interface shop/{CLAIM}, Pod web-0 on node node1")


def test_a_holder_that_is_gone_is_told() -> None:
    """An orphan holds the address all the same."""
    (held,) = ask(Site(left_out={"ip_claim"}), "192.0.2.3")
    assert held.held_by == "IPClaim web (gone)"
    assert held.is_held


@pytest.mark.parametrize(("address", "purpose"), [("192.0.2.5", FREE), ("192.0.2.0", RESERVED)])
def test_an_address_that_nobody_holds_is_free_or_reserved(address: str, purpose: str) -> None:
    """The first block of the pool is kept from everybody."""
    (vacant,) = ask(Site(), address)
    assert (vacant.pool, vacant.purpose) == ("pool", purpose)
    assert vacant.is_held is (purpose == RESERVED)


def test_an_address_of_no_pool_is_nobodys() -> None:
    """Nothing is said about it."""
    assert ask(Site(), "203.0.113.9") == []


def test_a_carve_leads_to_the_pool_inside_in_which_the_address_is_held_or_free() -> None:
    """From the outside in; only the innermost says whether somebody has the address."""
    site = Site()
    carve = {
        "metadata": {**site.allocation["metadata"], "name": "carve", "uid": "uid-carve"},
        "spec": {
            "poolRef": {"name": "root"},
            "cidr": "192.0.2.0/29",
            "purpose": "Carve",
            "claimRef": {"name": "pool", "uid": site.pool["metadata"]["uid"]},
        },
    }
    root = {
        "metadata": {**site.pool["metadata"], "name": "root", "uid": "uid-root"},
        "spec": {"cidr": "192.0.2.0/24", "classNames": []},
        "status": {"cidr": "192.0.2.0/24", "conditions": []},
    }
    site.pool["spec"] = {"parentRef": {"name": "root"}, "prefixLength": 29, "classNames": ["single"]}
    seen = replace(site.ipam(), pools=(root, site.pool), allocations=(carve, site.allocation))
    held = holdings(read_address("192.0.2.3"), seen)
    assert [(each.block, each.held_by, each.is_held) for each in held] == [
        ("192.0.2.0/29", "IPPool pool", False),
        (ADDRESS, "IPClaim web", True),
    ]
    free = holdings(read_address("192.0.2.6"), seen)
    assert [(each.block, each.purpose) for each in free] == [("192.0.2.0/29", "Carve"), ("192.0.2.6/32", FREE)]


def test_the_same_address_in_two_projects_is_told_of_both() -> None:
    """R14: projects have separate address space."""
    site = Site()
    other = {**site.allocation, "metadata": {**site.allocation["metadata"], "namespace": "project-beta"}}
    seen = replace(site.ipam(), allocations=(site.allocation, other))
    assert {held.project for held in holdings(read_address("192.0.2.3"), seen)} == {PROJECT, "project-beta"}


def test_what_is_no_address_is_refused() -> None:
    """The command turns it into exit code 2."""
    with pytest.raises(ValueError, match="web-0"):
        read_address("web-0")
