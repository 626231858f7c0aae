{{- define "name" -}}
{{ .Values.fullnameOverride | default .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Of what belongs to the whole cluster: another product may have a name as plain as ours. */}}
{{- define "clusterName" -}}
netclaim-{{ include "name" . }}
{{- end }}

{{- define "selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/part-of: netclaim
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "image" -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* The restricted profile: nothing of the node, nothing to write to. */}}
{{- define "restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "environment" -}}
{{- with .Values.kubernetesService }}
{{- if .host }}
- name: KUBERNETES_SERVICE_HOST
  value: {{ .host | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ .port | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* Where Pods of one component go: each on a node of its own, as far as there are any. */}}
{{- define "placement" -}}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "selector" . | nindent 6 }}
{{- end }}

{{/* The rules of files, joined. `which` is cluster or system. */}}
{{- define "rules" -}}
{{- $rules := list }}
{{- range .files }}
{{- $rules = concat $rules (index ($.root.Files.Get (printf "files/%s.yaml" .) | fromYaml) $.which | default list) }}
{{- end }}
{{- with .lease }}
{{- $ownLease := dict "apiGroups" (list "coordination.k8s.io") "resources" (list "leases") "resourceNames" (list .) "verbs" (list "get" "update") }}
{{- $rules = append $rules $ownLease }}
{{- end }}
{{- if $rules }}{{ toYaml $rules }}{{ else }}[]{{ end }}
{{- end }}

{{/* An account with the rules of files; `name` is its name, `clusterName` that of its cluster-wide role, and `lease` that
     of the Lease that it competes for, if it does. */}}
{{- define "account" -}}
{{- $labels := include "labels" (dict "root" .root "name" .label) }}
{{- $namespace := .root.Release.Namespace }}
{{- if .root.Values.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ $namespace }}
  labels: {{- $labels | nindent 4 }}
  {{- with .root.Values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if .root.Values.rbac.create }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .clusterName }}
  labels: {{- $labels | nindent 4 }}
rules: {{- include "rules" (dict "root" .root "files" .files "which" "cluster") | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .clusterName }}
  labels: {{- $labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .clusterName }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ $namespace }}
{{- $system := include "rules" (dict "root" .root "files" .files "which" "system" "lease" .lease) }}
{{- if ne $system "[]" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ $namespace }}
  labels: {{- $labels | nindent 4 }}
rules: {{- $system | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ $namespace }}
  labels: {{- $labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ $namespace }}
{{- end }}
{{- end }}
{{- end }}

{{/* What watches over Pods of one component: budget, network policy, scraping. */}}
{{- define "guards" -}}
{{- $root := .root }}
{{- $labels := include "labels" (dict "root" .root "name" .name) }}
{{- $selector := include "selector" (dict "root" .root "name" .name) }}
{{- if and .budget $root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- $selector | nindent 6 }}
{{- end }}
{{- if $root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- $selector | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
  - ports:
    - {port: metrics, protocol: TCP}
    {{- with $root.Values.networkPolicy.from }}
    from: {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- range .open }}
  - ports:
    - {port: {{ . }}, protocol: TCP}
  {{- end }}
{{- end }}
{{- if $root.Values.monitoring.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- merge (dict) $root.Values.monitoring.serviceMonitor.labels (fromYaml $labels) | toYaml | nindent 4 }}
spec:
  selector:
    matchLabels: {{- $selector | nindent 6 }}
  podMetricsEndpoints:
  - port: metrics
    path: /metrics
    interval: {{ $root.Values.monitoring.serviceMonitor.interval }}
{{- end }}
{{- end }}

{{/* Alert rules from files/alerts.yaml, and dashboards from files/dashboard.json. */}}
{{- define "monitoring" -}}
{{- $labels := include "labels" (dict "root" . "name" (include "name" .)) }}
{{- if .Values.monitoring.rules.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ include "clusterName" . }}
  namespace: {{ .Release.Namespace }}
  labels: {{- merge (dict) .Values.monitoring.rules.labels (fromYaml $labels) | toYaml | nindent 4 }}
spec:
{{ .Files.Get "files/alerts.yaml" | indent 2 }}
{{- end }}
{{- if .Values.monitoring.dashboard.enabled }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "clusterName" . }}-dashboard
  namespace: {{ .Release.Namespace }}
  labels: {{- merge (dict) .Values.monitoring.dashboard.labels (fromYaml $labels) | toYaml | nindent 4 }}
data:
  {{ include "clusterName" . }}.json: |
{{ .Files.Get "files/dashboard.json" | indent 4 }}
{{- end }}
{{- end }}
