"""The side of the agent that container runtimes call: a unix socket server and the CNI verbs behind it."""
