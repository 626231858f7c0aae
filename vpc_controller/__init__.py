"""The VPC controller: realizes networks as VPCs and interfaces as attachments, and reports what the data plane says."""
