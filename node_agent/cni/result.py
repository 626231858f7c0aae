"""The CNI result of an attachment. Pure. Written as of 1.1.0; netclaim-cni converts it to the version asked for."""

from __future__ import annotations

from typing import Any

from node_agent.datapath.model import GATEWAY_MAC, Attachment, Mode

_DEFAULT_ROUTE = {4: "0.0.0.0/0", 6: "::/0"}


def cni_result(attachment: Attachment, netns: str) -> dict[str, Any]:
    """Interfaces (host end, then the guest's), addresses with their gateways (primary first), default routes.

    A tap has no interface inside a namespace: its addresses then belong to the host end.
    """
    host: dict[str, Any] = {"name": attachment.device, "mac": GATEWAY_MAC, "mtu": attachment.mtu}
    interfaces = [host]
    if attachment.mode is Mode.NETNS:
        guest = {
            "name": attachment.guest_ifname,
            "mac": attachment.guest_mac,
            "mtu": attachment.mtu,
            "sandbox": netns,
        }
        interfaces.append(guest)
    return {
        "cniVersion": "1.1.0",
        "interfaces": interfaces,
        "ips": [
            {"interface": len(interfaces) - 1, "address": str(address.interface), "gateway": str(address.gateway)}
            for address in attachment.addresses
        ],
        "routes": [
            {"dst": _DEFAULT_ROUTE[address.gateway.version], "gw": str(address.gateway)}
            for address in attachment.addresses
        ],
    }
