"""The Pod webhook: attaches the claimed interfaces of an Instance to its Pod, or refuses the Pod with the reason."""
