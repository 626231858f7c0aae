"""The asyncio Kubernetes runtime that every program runs on.

Read it from the wire upwards: `credentials` and `transport` (connections, timeouts), `client` (verbs), `reflector` and
`store` (what a program knows), `queue` and `controller` (what it does about it), `cluster` and `apply` (how it writes),
`leader` and `process` (when it may).
"""
