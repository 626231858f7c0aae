"""What an uninstallation takes off, and what it leaves to others."""

from netclaim.api import resources
from netclaim.api.kinds import KINDS
from netclaimctl.leaving import CELL_KINDS, IPAM_KINDS, held_by, in_use, of_cell, stripped


def test_every_kind_of_ours_is_deleted_and_whoever_uses_goes_before_what_is_used() -> None:
    """T07: an object whose users are gone first finds nothing left that holds on to it."""
    listed = [*CELL_KINDS, *IPAM_KINDS]
    assert set(listed) == {kind.RESOURCE for kind in KINDS} - {resources.NADS}
    for first, then in (
        (resources.WORKLOADS, resources.CLAIMS),
        (resources.CLAIMS, resources.INTERFACES),
        (resources.INTERFACES, resources.ATTACHMENTS),
        (resources.INTERFACES, resources.NETWORKS),
        (resources.IP_CLAIMS, resources.IP_POOLS),
        (resources.IP_POOLS, resources.IP_CLASSES),
    ):
        assert listed.index(first) < listed.index(then)


def test_only_finalizers_of_ours_are_taken_off_and_only_of_the_version_that_was_seen() -> None:
    mixed = ["cloud.datumapis.com/attached", "example.com/backup", "networking.datumapis.com/release"]
    raw = {"metadata": {"resourceVersion": "7", "finalizers": mixed}}
    assert stripped(raw) == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": "/metadata/finalizers", "value": ["example.com/backup"]},
    ]
    assert stripped({"metadata": {"resourceVersion": "7", "finalizers": ["example.com/backup"]}}) == []
    assert stripped({"metadata": {"resourceVersion": "7"}}) == []


def test_an_attachment_is_in_use_as_long_as_a_node_reports_it() -> None:
    def attachment(name: str, status: dict[str, str]) -> dict[str, object]:
        return {"metadata": {"namespace": "shop", "name": name}, "status": status}

    assert in_use([attachment("a", {"node": "node1"}), attachment("b", {"vpc": "10"}), attachment("c", {})]) == [
        "shop/a on node1"
    ]


def test_a_cell_gives_back_its_own_addresses_and_nobody_elses() -> None:
    ours = {"metadata": {"uid": "1"}, "spec": {"ownerRef": {"controlPlane": "cell-a"}}}
    others = {"metadata": {"uid": "2"}, "spec": {"ownerRef": {"controlPlane": "cell-b"}}}
    nobodys = {"metadata": {"uid": "3"}, "spec": {}}
    assert of_cell([ours, others, nobodys], "cell-a") == [ours]
    allocations = [{"spec": {"claimRef": {"uid": uid}}} for uid in ("1", "2")] + [{"spec": {}}]
    assert held_by(allocations, [ours]) == allocations[:1]
