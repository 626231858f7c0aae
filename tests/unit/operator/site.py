"""A cell with one claim that carries traffic, and the project that its address is from; tests break it."""

from dataclasses import dataclass, field
from typing import Any

from netclaim.api import cloud, cni, ipam, networking
from netclaim.api.meta import Raw
from netclaimctl.chain import Facts
from netclaimctl.objects import CellObjects, IpamObjects
from nso.ipam.blocks import Block
from nso.ipam.names import allocation_name

NAMESPACE = "shop"
PROJECT = "project-alpha"
CELL = "uid-of-the-cell"
CLAIM = "web-0-eth0"
ADDRESS = "192.0.2.3/32"
VPC_ID, ATTACHMENT_ID = "1", "2"
IDENTITY_LABELS = {cloud.VPC_LABEL: VPC_ID, cloud.VPC_ATTACHMENT_LABEL: ATTACHMENT_ID}


def meta(name: str, namespace: str | None = NAMESPACE, **more: Any) -> Raw:
    """Metadata of a stored object; its uid follows from its name."""
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "uid": f"uid-{namespace}-{name}", "resourceVersion": "7", **more}


def conditions(**statuses: str) -> list[Raw]:
    """Conditions by type, each with a reason and a message that say so."""
    return [
        {"type": kind, "status": status, "reason": f"{kind}Said", "message": f"{kind} is {status}."}
        for kind, status in statuses.items()
    ]


def going(raw: Raw) -> None:
    """Somebody asked for its deletion."""
    raw["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["somebody/waits"]}


def ip_claim(name: str, owner_uid: str, *, kind: str = "NetworkInterfaceClaim", owner: str = CLAIM) -> Raw:
    """An IPClaim of this cell, not bound."""
    ref = {"controlPlane": CELL, "kind": kind, "namespace": NAMESPACE, "name": owner, "uid": owner_uid}
    return {
        "metadata": meta(name, PROJECT, finalizers=[ipam.CLAIM_FINALIZER]),
        "spec": {"ipFamily": "IPv4", "target": "Block", "scope": {}, "ownerRef": ref},
        "status": {"conditions": []},
    }


def hold(raw: Raw, cidr: str) -> Raw:
    """Bind the IPClaim to a block of the pool; returns the allocation."""
    name = allocation_name("pool", "", Block.parse(cidr))
    raw["status"] = {
        "phase": "Bound",
        "cidr": cidr,
        "poolRef": {"name": "pool"},
        "allocationRef": {"name": name},
        "conditions": conditions(Bound="True"),
    }
    holder = {key: raw["metadata"][key] for key in ("namespace", "name", "uid")}
    return {
        "metadata": meta(name, PROJECT),
        "spec": {"poolRef": {"name": "pool"}, "cidr": cidr, "space": "", "purpose": "Claim", "claimRef": holder},
    }


@dataclass
class Site:
    """Every object of the chain by a name of its own; `left_out` are those that are not there."""

    unread: dict[str, str] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.namespace: Raw = {"metadata": meta(NAMESPACE, None, labels={networking.PROJECT_LABEL: PROJECT})}
        self._make_ipam()
        self._make_cell()
        self._make_data_plane()

    def _make_ipam(self) -> None:
        self.ip_class: Raw = {
            "metadata": meta("single", PROJECT, annotations={ipam.DEFAULT_CLASS_ANNOTATION: "true"}),
            "spec": {"ipFamily": "IPv4", "prefixLength": 32},
            "status": {"conditions": conditions(Accepted="True")},
        }
        capacity = {"total": "8", "allocated": "1", "reserved": "1", "cooling": "0", "available": "6"}
        self.pool: Raw = {
            "metadata": meta("pool", PROJECT),
            "spec": {"cidr": "192.0.2.0/29", "classNames": ["single"], "reservations": {"leading": 1}},
            "status": {
                "cidr": "192.0.2.0/29",
                "capacity": capacity,
                "spaces": 1,
                "conditions": conditions(Ready="True"),
            },
        }
        self.ip_claim = ip_claim("web", f"uid-{NAMESPACE}-{CLAIM}")
        self.allocation = hold(self.ip_claim, ADDRESS)

    def _make_cell(self) -> None:
        said = conditions(Bound="True", Allocated="True", Prepared="True", Programmed="True", Ready="True")
        entry = {"family": "IPv4", "address": ADDRESS, "primary": True}
        self.network: Raw = {
            "metadata": meta("default"),
            "spec": {"ipFamilies": ["IPv4"]},
            "status": {"conditions": conditions(Ready="True")},
        }
        self.context: Raw = {
            "metadata": meta("default-here"),
            "spec": {"network": {"name": "default"}, "location": "here"},
            "status": {"conditions": conditions(Ready="True")},
        }
        self.subnet: Raw = {
            "metadata": meta("default-here-ipv4"),
            "spec": {"networkContext": {"name": "default-here"}, "ipFamily": "IPv4"},
            "status": {
                "startAddress": "192.0.2.0",
                "prefixLength": 29,
                "gateway": "192.0.2.1",
                "conditions": conditions(Ready="True"),
            },
        }
        self.claim: Raw = {
            "metadata": meta(CLAIM),
            "spec": {"network": {"name": "default"}, "reclaimPolicy": "Delete"},
            "status": {
                "project": PROJECT,
                "networkInterfaceRef": {"name": CLAIM},
                "addresses": [entry],
                "conditions": said,
            },
        }
        holder = {"name": CLAIM, "uid": self.claim["metadata"]["uid"]}
        annotations = {
            networking.ALLOCATED_FOR_ANNOTATION: f"{CLAIM}/{holder['uid']}",
            networking.PROJECT_ANNOTATION: PROJECT,
        }
        self.interface: Raw = {
            "metadata": meta(CLAIM, annotations=annotations),
            "spec": {"network": {"name": "default"}, "claimRef": holder, "addresses": [entry]},
            "status": {
                "phase": "Bound",
                "networkContextRef": {"name": "default-here"},
                "vpc": VPC_ID,
                "attachmentRef": {"name": CLAIM},
                "conditions": conditions(Allocated="True", Prepared="True", Programmed="True"),
            },
        }
        # A stored interface has a uid of its own.
        self.interface["metadata"]["uid"] = "uid-of-the-interface"

    def _make_data_plane(self) -> None:
        self.vpc: Raw = {
            "metadata": meta("default-here"),
            "spec": {"networkContextRef": {"name": "default-here"}},
            "status": {"vpc": VPC_ID, "conditions": conditions(Ready="True")},
        }
        self.attachment: Raw = {
            "metadata": {**meta(CLAIM), "uid": "uid-of-the-attachment"},
            "spec": {
                "vpc": {"name": "default-here"},
                "interfaceRef": {"name": CLAIM},
                "interface": {"name": "eth0", "mode": "Netns"},
            },
            "status": {
                "vpc": VPC_ID,
                "vpcAttachment": ATTACHMENT_ID,
                "node": "node1",
                "podName": "web-0",
                "podUID": "uid-shop-web-0",
                "containerID": "c-1",
                "hostInterface": "G000000001002H",
                "guestInterface": "eth0",
                "conditions": conditions(Ready="True", Programmed="True"),
            },
        }
        owner = {"kind": "VPCAttachment", "name": CLAIM, "uid": "uid-of-the-attachment"}
        self.definition: Raw = {"metadata": meta(CLAIM, labels=dict(IDENTITY_LABELS), ownerReferences=[owner])}
        holder = {"kind": "NetworkInterface", "namespace": NAMESPACE, "name": CLAIM, "uid": "uid-of-the-interface"}
        self.identifier: Raw = {"metadata": meta("att-1-2", "netclaim-system"), "spec": {"holder": holder}}
        self.pod: Raw = {
            "metadata": meta("web-0", annotations={cni.DEFAULT_NETWORK_ANNOTATION: f"shop/{CLAIM}"}),
            "spec": {"nodeName": "node1"},
            "status": {"phase": "Running"},
        }
        self.node: Raw = {"metadata": meta("node1", None), "status": {"conditions": conditions(Ready="True")}}
        self.router: Raw = {
            "metadata": meta("node1", "netclaim-system"),
            "spec": {"targetRef": {"name": "node1"}, "nextHop": "fd00::1", "srv6Locator": "fd00:0:0:1::/64"},
        }
        self.advertisement: Raw = {
            "metadata": meta("1-2", "netclaim-system"),
            "spec": {
                "attachmentRef": {"namespace": NAMESPACE, "name": CLAIM, "uid": "uid-of-the-attachment"},
                "containerID": "c-1",
                "prefixes": [ADDRESS],
            },
            "status": {"conditions": conditions(Advertised="True")},
        }

    def _there(self, *names: str) -> tuple[Raw, ...]:
        return tuple(getattr(self, name) for name in names if name not in self.left_out)

    def ipam(self) -> IpamObjects:
        """The project as a check reads it."""
        return IpamObjects(
            self._there("ip_class"), self._there("pool"), self._there("ip_claim"), self._there("allocation")
        )

    def cell(self) -> CellObjects:
        """The cell as a check reads it."""
        return CellObjects(
            control_plane=CELL,
            claims=self._there("claim"),
            interfaces=self._there("interface"),
            networks=self._there("network"),
            subnets=self._there("subnet"),
            attachments=self._there("attachment"),
            definitions=self._there("definition"),
            identifiers=self._there("identifier"),
        )

    def facts(self, *, project: str = PROJECT, is_there: bool | None = True) -> Facts:
        """The chain as `explain` reads it."""
        by_kind = {
            "Namespace": ("namespace",),
            "Network": ("network",),
            "NetworkContext": ("context",),
            "Subnet": ("subnet",),
            "NetworkInterface": ("interface",),
            "IPClass": ("ip_class",),
            "IPPool": ("pool",),
            "IPClaim": ("ip_claim",),
            "IPAllocation": ("allocation",),
            "VPC": ("vpc",),
            "VPCAttachment": ("attachment",),
            "NetworkAttachmentDefinition": ("definition",),
            "Identifier": ("identifier",),
            "Pod": ("pod",),
            "Node": ("node",),
            "BGPRouter": ("router",),
            "BGPAdvertisement": ("advertisement",),
        }
        found = {kind: () if kind in self.unread else self._there(*names) for kind, names in by_kind.items()}
        return Facts(self.claim, networking.PROJECT_LABEL, project, is_there, found, self.unread)
