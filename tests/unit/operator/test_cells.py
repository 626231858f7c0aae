"""The check of a cell finds each kind of violation, and nothing in a sound cell (T04)."""

from collections.abc import Callable

import pytest

from netclaim.api import networking
from netclaimctl import cells
from tests.unit.operator.site import CLAIM, NAMESPACE, Site, going, ip_claim


def found(site: Site, project: str | None = None) -> list[str]:
    return sorted({each.invariant for each in cells.check(site.cell(), site.ipam().claims, project)})


def test_a_sound_cell_has_no_violation() -> None:
    """T04: claim and interface, interface and addresses, attachment and definition agree."""
    assert found(Site()) == []


BREAKAGES: list[tuple[Callable[[Site], object], list[str]]] = [
    (lambda s: s.ip_claim["spec"]["ownerRef"].update(uid="gone"), [cells.NO_OWNER, cells.NOT_HELD]),
    (lambda s: s.left_out.add("interface"), [cells.NO_INTERFACE]),
    (
        lambda s: s.interface["spec"].update(claimRef={"name": CLAIM, "uid": "earlier"}),
        [cells.NO_CLAIM, cells.NOT_MUTUAL],
    ),
    (lambda s: s.interface["spec"].pop("claimRef"), [cells.NOT_MUTUAL, cells.PHASE]),
    (lambda s: s.left_out.add("claim"), [cells.NO_CLAIM]),
    (lambda s: s.claim["status"].update(addresses=[]), [cells.OTHER_ADDRESS]),
    (lambda s: s.left_out.add("ip_claim"), [cells.NOT_HELD]),
    (lambda s: going(s.ip_claim), [cells.NOT_HELD]),
    (lambda s: s.left_out.add("attachment"), [cells.NO_ATTACHMENT]),
    (lambda s: s.left_out.add("definition"), [cells.NO_DEFINITION]),
    (lambda s: s.definition["metadata"].update(ownerReferences=[]), [cells.NO_ATTACHMENT, cells.NO_DEFINITION]),
    (
        lambda s: s.definition["metadata"]["labels"].update({"cloud.datumapis.com/vpc-attachment": "9"}),
        [cells.OTHER_IDENTITY],
    ),
    (lambda s: s.left_out.add("identifier"), [cells.NO_IDENTIFIER]),
    (lambda s: s.identifier["spec"]["holder"].update(uid="another"), [cells.NO_IDENTIFIER]),
]


@pytest.mark.parametrize(("breakage", "invariants"), BREAKAGES)
def test_each_kind_of_violation_is_found(breakage: Callable[[Site], object], invariants: list[str]) -> None:
    """T04."""
    site = Site()
    breakage(site)
    assert found(site) == invariants


def test_two_interfaces_of_one_claim_and_two_attachments_of_one_identity_are_found() -> None:
    """Claim and interface are 1:1; an identity is one attachment's."""
    one, other = Site(), Site()
    for raw in (other.interface, other.attachment):
        raw["metadata"] |= {"name": "web-1-eth0", "uid": f"{raw['metadata']['uid']}-1"}
    other.attachment["spec"]["interfaceRef"] = {"name": "web-1-eth0"}
    both = one.cell()
    both = type(both)(
        control_plane=both.control_plane,
        claims=both.claims,
        interfaces=(*both.interfaces, other.interface),
        attachments=(*both.attachments, other.attachment),
        definitions=both.definitions,
        identifiers=both.identifiers,
    )
    named = {(each.invariant, each.key) for each in cells.check(both, one.ipam().claims)}
    assert (cells.HELD_TWICE, (NAMESPACE, "web-1-eth0")) in named
    assert (cells.IDENTITY_TWICE, (NAMESPACE, "web-1-eth0")) in named


def test_what_is_on_its_way_out_is_not_accused() -> None:
    """A release in flight is no violation, whatever is gone already."""
    site = Site(left_out={"claim", "ip_claim", "definition", "identifier"})
    for raw in (site.interface, site.attachment):
        going(raw)
    assert found(site) == []


def test_a_retained_interface_without_a_claim_is_sound() -> None:
    """The retained interface with its IPClaims is the retention: its claim, which they name, is gone."""
    site = Site(left_out={"claim"})
    del site.interface["spec"]["claimRef"]
    site.interface["status"]["phase"] = "Available"
    assert found(site) == []


@pytest.mark.parametrize("kind", ["Network", "Subnet"])
def test_ranges_need_their_network_or_subnet(kind: str) -> None:
    """Each IPClaim has a live owner in its cell, the ranges' too."""
    site = Site()
    uid = (site.network if kind == "Network" else site.subnet)["metadata"]["uid"]
    claims = (*site.ipam().claims, ip_claim("range", uid, kind=kind, owner="default"))
    assert cells.check(site.cell(), claims) == []
    site.left_out.add(kind.lower())
    (violation,) = cells.check(site.cell(), claims)
    assert (violation.invariant, violation.key[1]) == (cells.NO_OWNER, "range")
    assert f"{kind} {NAMESPACE}/default" in violation.message


def test_ip_claims_of_other_cells_and_other_kinds_of_owners_are_left_alone() -> None:
    """Several cells share one IPAM, and a cell touches only its own."""
    site = Site()
    foreign = ip_claim("foreign", "unknown")
    foreign["spec"]["ownerRef"]["controlPlane"] = "another cell"
    database = ip_claim("database", "unknown", kind="Database")
    assert cells.check(site.cell(), (*site.ipam().claims, foreign, database)) == []


def test_a_check_of_one_project_says_nothing_about_interfaces_of_another() -> None:
    """Their IPClaims were not read."""
    site = Site(left_out={"ip_claim"})
    assert found(site, "project-beta") == []
    site.interface["metadata"]["annotations"][networking.PROJECT_ANNOTATION] = "project-beta"
    assert found(site, "project-beta") == [cells.NOT_HELD]
