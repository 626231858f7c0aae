"""The NetworkAttachmentDefinition of an attachment. Pure.

A tenant may be able to write such objects, so nothing is ever programmed from one: its configuration is a pointer, and
the node takes everything else from the VPCAttachment that it names.
"""

from __future__ import annotations

import json
from typing import Final

from netclaim.api import cloud, resources
from netclaim.api.cloud import VPCAttachment
from netclaim.api.cni import NetworkAttachmentDefinition
from netclaim.api.meta import Raw
from vpc_controller import facts

PLUGIN: Final = "netclaim-cni"
CNI_VERSION: Final = "1.0.0"


def config(namespace: str, name: str, vpc: str, attachment: str) -> str:
    """The CNI configuration list as JSON text; `vpc` and `attachment` are the identifiers in base62."""
    plugin = {
        "type": PLUGIN,
        "vpc": vpc,
        "vpcAttachment": attachment,
        "attachment": {"namespace": namespace, "name": name},
    }
    listed = {"cniVersion": CNI_VERSION, "name": f"{namespace}.{name}", "plugins": [plugin]}
    return json.dumps(listed, separators=(",", ":"))


def labels(vpc: str, attachment: str) -> dict[str, str]:
    """The labels that carry an identity (base62) on a definition, an identifier and an advertisement."""
    return {cloud.VPC_LABEL: vpc, cloud.VPC_ATTACHMENT_LABEL: attachment}


def render(owner: VPCAttachment, vpc: str, attachment: str) -> Raw:
    """The definition of the attachment `owner`, of its name and owned by it."""
    return {
        "apiVersion": resources.NADS.api_version,
        "kind": resources.NADS.kind,
        "metadata": {
            "name": owner.name,
            "namespace": owner.namespace,
            "labels": labels(vpc, attachment),
            "ownerReferences": [owner.owner_reference().to_dict()],
        },
        "spec": {"config": config(owner.namespace, owner.name, vpc, attachment)},
    }


def is_ours(definition: NetworkAttachmentDefinition) -> bool:
    """Whether we made the definition: for an attachment of its name, of this or an earlier life."""
    return is_orphan(definition) or facts.is_of_namesake(definition, resources.ATTACHMENTS)


def is_orphan(definition: NetworkAttachmentDefinition) -> bool:
    """Whether nobody owns what is word for word ours: its attachment was deleted, and it was asked to stay."""
    vpc, mine = (definition.metadata.labels.get(label, "") for label in (cloud.VPC_LABEL, cloud.VPC_ATTACHMENT_LABEL))
    is_word_for_word = definition.spec.config == config(definition.namespace, definition.name, vpc, mine)
    return is_word_for_word and not definition.metadata.owner_references
