"""What the programs of netclaim share: API types, the Kubernetes runtime, identities and address arithmetic.

Nothing in here knows any of the programs.
"""
