{{/* The network, entering a guest's namespace, and making /proc/sys/net writable for itself: nothing else of root. */}}
{{- define "agentSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
{{- if semverCompare ">=1.31.0-0" .Capabilities.KubeVersion.Version }}
appArmorProfile: {type: Unconfined}
{{- end }}
capabilities:
  drop: [ALL]
  add: [NET_ADMIN, SYS_ADMIN]
{{- end }}
