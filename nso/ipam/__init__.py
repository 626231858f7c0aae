"""IPAM: classes, pools, claims and allocations of blocks of addresses, one Namespace per project."""

from nso.ipam.registration import register

__all__ = ["register"]
