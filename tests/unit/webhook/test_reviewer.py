"""What the webhook looks up for a Pod, from stores that hold more than its own objects."""

import pytest

from netclaim.kube.cluster import Cluster
from netclaim.kube.store import Store
from tests.unit.webhook import pods
from webhook.inject import Admission
from webhook.review import Request
from webhook.reviewer import Reviewer


@pytest.mark.parametrize("first", ["the earlier", "the present"])
async def test_an_interface_that_an_earlier_claim_of_the_name_held_does_not_hide_the_present_one(first: str) -> None:
    """T06: both name the claim, one by the uid of its predecessor."""
    world = pods.observed(("web-0-eth0", "net1"))
    earlier = pods.interface("pinned", "net1")
    earlier["spec"]["claimRef"] = {"name": "web-0-eth0", "uid": "c-earlier"}
    present = world["interfaces"]["web-0-eth0"]
    # No request is made: whatever is needed is in the stores.
    cluster = Cluster(None)  # type: ignore[arg-type]
    reviewer = Reviewer(cluster, pods.NODE_LABELS)
    stores: dict[str, Store] = {each.resource.kind: each.store for each in cluster.reflectors}
    stores["Instance"].put(world["instance"])
    for raw in (earlier, present) if first == "the earlier" else (present, earlier):
        stores["NetworkInterface"].put(raw)
    stores["VPCAttachment"].put(world["attachments"]["web-0-eth0"])
    stores["NetworkAttachmentDefinition"].put(world["definitions"]["web-0-eth0"])
    assert isinstance(await reviewer.review(Request("r-1", "shop", pods.pod())), Admission)
