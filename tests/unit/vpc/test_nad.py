"""The NetworkAttachmentDefinition points to its attachment and says nothing else (R26)."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from netclaim import identity
from netclaim.api.cloud import VPCAttachment
from vpc_controller import nad

OWNER = VPCAttachment.model_validate(
    {
        "metadata": {"name": "web-0-eth0", "namespace": "shop", "uid": "u-1"},
        "spec": {"vpc": {"name": "default-home"}, "interface": {"name": "eth0", "mode": "Netns"}},
    }
)


def test_the_configuration_is_the_pointer_that_the_specification_shows() -> None:
    """R26: the very text of the specification, so that the node finds what it expects."""
    assert nad.config("shop", "web-0-eth0", "10", "13") == (
        '{"cniVersion":"1.0.0","name":"shop.web-0-eth0","plugins":[{"type":"netclaim-cni","vpc":"10",'
        '"vpcAttachment":"13","attachment":{"namespace":"shop","name":"web-0-eth0"}}]}'
    )


def test_the_definition_carries_the_name_labels_and_owner_of_its_attachment() -> None:
    """R26: it goes with the attachment, and its labels carry the identity in base62."""
    made = nad.render(OWNER, "jU", "1a")
    assert made["metadata"] == {
        "name": "web-0-eth0",
        "namespace": "shop",
        "labels": {"cloud.datumapis.com/vpc": "jU", "cloud.datumapis.com/vpc-attachment": "1a"},
        "ownerReferences": [
            {
                "apiVersion": "cloud.datumapis.com/v1alpha1",
                "kind": "VPCAttachment",
                "name": "web-0-eth0",
                "uid": "u-1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, (1 << identity.VPC_BITS) - 2),
    st.integers(1, (1 << identity.ATTACHMENT_BITS) - 2),
    st.from_regex(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True),
)
def test_names_never_hold_base62_and_the_identity_is_read_back_from_the_fields(
    vpc: int, attachment: int, name: str
) -> None:
    """R32: object names are lower case whatever the identifiers are; identity travels in fields."""
    owner = OWNER.model_copy(update={"metadata": OWNER.metadata.model_copy(update={"name": name})})
    made = nad.render(owner, identity.to_base62(vpc), identity.to_base62(attachment))
    assert made["metadata"]["name"] == name
    plugin = json.loads(made["spec"]["config"])["plugins"][0]
    assert identity.from_base62(plugin["vpc"]) == vpc
    assert identity.from_base62(plugin["vpcAttachment"]) == attachment
    assert plugin["attachment"] == {"namespace": "shop", "name": name}
