{{/* The network, entering a guest's namespace, and making /proc/sys/net writable for itself: nothing else of root. */}}
{{- define "agentSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
appArmorProfile: {type: Unconfined}
capabilities:
  drop: [ALL]
  add: [NET_ADMIN, SYS_ADMIN]
{{- end }}
