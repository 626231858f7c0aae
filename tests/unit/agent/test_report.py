"""What the node writes about itself and its attachments."""

from datetime import UTC, datetime
from ipaddress import IPv6Address, IPv6Network

from netclaim.api.network import BGPAdvertisement, BGPRouter
from node_agent.datapath.model import Sid
from node_agent.report import (
    Router,
    advertised_status,
    advertisement_object,
    labelled_identity,
    locator_holder,
    router_object,
)
from tests.unit.agent.objects import a_row

ROUTER = Router("node-a", IPv6Network("fd5f:0:0:a::/64"), IPv6Address("fd00:aa::1"), uid="router-uid")
SIDS = (
    Sid(4, IPv6Address("fd5f:0:0:a::24:4"), "End.DX4"),
    Sid(6, IPv6Address("fd5f:0:0:a::24:6"), "End.DX6"),
)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_the_router_is_owned_by_its_node() -> None:
    """api.md: a deleted Node takes its router, and with it every advertisement, along."""
    raw = router_object(ROUTER, "netclaim-system", "node-uid")
    assert raw["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    assert BGPRouter.model_validate(raw).spec.srv6_locator == "fd5f:0:0:a::/64"


def test_a_locator_that_another_node_has_told_is_taken() -> None:
    """Two routers with one locator would take each other's packets: the later one says so and tells nothing."""
    own = router_object(ROUTER, "netclaim-system", "node-uid")
    twin = router_object(Router("node-b", ROUTER.locator, ROUTER.next_hop), "netclaim-system", "other-uid")
    other = router_object(Router("node-c", IPv6Network("fd5f:0:0:c::/64"), ROUTER.next_hop), "netclaim-system", "uid")
    assert locator_holder([own, other], ROUTER) is None
    assert locator_holder([own, other, twin], ROUTER) == "node-b"


def test_an_advertisement_carries_identity_in_labels_and_reference_and_is_named_in_hex() -> None:
    """vpc.md: labels and attachmentRef carry the identity; R32: object names never contain base62."""
    raw = advertisement_object(a_row(), ROUTER, "netclaim-system", SIDS)
    model = BGPAdvertisement.model_validate(raw)
    assert model.name == "24-41"
    assert labelled_identity(raw) == (36, 65)
    assert raw["metadata"]["labels"]["cloud.datumapis.com/vpc"] == "A"
    assert model.spec.attachment_ref.model_dump() == {"namespace": "shop", "name": "web-0-eth0", "uid": "uid-1"}
    assert model.spec.container_id == "sandbox-1"
    assert model.spec.prefixes == ["fd20:0:1:2::/96", "10.128.0.2/32"]
    assert [(sid.family, sid.function) for sid in model.spec.sids] == [("IPv4", "End.DX4"), ("IPv6", "End.DX6")]
    assert model.metadata.owner_references[0].uid == "router-uid"


def test_one_sid_for_both_families_names_no_family() -> None:
    both = (Sid(0, IPv6Address("fd5f:0:0:a::24:46"), "End.DT46"),)
    raw = advertisement_object(a_row(), ROUTER, "netclaim-system", both)
    assert raw["spec"]["sids"] == [{"sid": "fd5f::a:0:0:24:46", "function": "End.DT46"}]


def test_the_transition_time_changes_only_when_advertised_flips() -> None:
    """api.md, Conditions: lastTransitionTime is changed only when status flips."""
    raw = advertisement_object(a_row(), ROUTER, "netclaim-system", SIDS)
    raw["metadata"]["generation"] = 4
    first = advertised_status(raw, "node-a", NOW)
    assert first["advertisedPrefixes"] == raw["spec"]["prefixes"]
    (condition,) = first["conditions"]
    assert (condition["status"], condition["observedGeneration"]) == ("True", 4)
    again = advertised_status({**raw, "status": first}, "node-a", NOW.replace(year=2027))
    assert again == first
    false = {"conditions": [{**condition, "status": "False"}]}
    flipped = advertised_status({**raw, "status": false}, "node-a", NOW.replace(year=2027))
    assert flipped["conditions"][0]["lastTransitionTime"] == "2027-01-02T03:04:05Z"
