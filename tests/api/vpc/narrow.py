"""The VPC controller with 3 bits for attachments: six fill a VPC. ``python -m tests.api.vpc.narrow FLAGS...``."""

from netclaim import identity
from vpc_controller.__main__ import cli

BITS = 3

if __name__ == "__main__":
    identity.ATTACHMENT_BITS = BITS  # type: ignore[misc]
    cli()
