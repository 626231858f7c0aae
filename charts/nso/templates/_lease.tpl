{{/* The Lease's name as nso makes it of its controllers: Settings.lease in nso/settings.py. */}}
{{- define "lease" -}}
{{- $chosen := list }}
{{- range list "networks" "claims" "compute" "ipam" }}
{{- if has . $.Values.controllers }}{{ $chosen = append $chosen . }}{{ end }}
{{- end }}
{{- if eq (len $chosen) 4 }}nso{{ else }}{{ join "-" (prepend $chosen "nso") }}{{ end }}
{{- end }}
