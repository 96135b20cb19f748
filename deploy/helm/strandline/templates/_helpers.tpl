{{- define "strandline.labels" -}}
app.kubernetes.io/name: strandline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "strandline.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* The domain of the nodes' own addresses. */}}
{{- define "strandline.domain" -}}
{{ .Release.Name }}-nodes.{{ .Release.Namespace }}.svc
{{- end }}

{{- /* The addresses of the nodes that form the cluster. */}}
{{- define "strandline.addresses" -}}
{{- $domain := include "strandline.domain" . -}}
{{- range $i := until (int .Values.nodes) -}}
{{- if $i }},{{ end }}{{ $.Release.Name }}-{{ $i }}.{{ $domain }}:7171
{{- end -}}
{{- end }}

{{- /* The same with their names. */}}
{{- define "strandline.peers" -}}
{{- $domain := include "strandline.domain" . -}}
{{- range $i := until (int .Values.nodes) -}}
{{- if $i }},{{ end }}{{ $.Release.Name }}-{{ $i }}={{ $.Release.Name }}-{{ $i }}.{{ $domain }}:7171
{{- end -}}
{{- end }}

{{- define "strandline.securityContext" -}}
runAsNonRoot: true
runAsUser: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
