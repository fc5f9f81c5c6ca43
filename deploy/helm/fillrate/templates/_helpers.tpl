{{- define "fillrate.name" -}}
{{- if contains "fillrate" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-fillrate" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "fillrate.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{- define "fillrate.configMap" -}}
{{- .Values.existingConfigMap | default (include "fillrate.name" .) }}
{{- end }}

{{- /* Takes a list of the root and a component. */}}
{{- define "fillrate.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: fillrate
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "fillrate.labels" -}}
{{- $root := index . 0 -}}
{{ include "fillrate.selector" . }}
app.kubernetes.io/version: {{ $root.Values.image.tag | default $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: fillrate
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- end }}

{{- /* What the pods of all components have in common. */}}
{{- define "fillrate.pod" -}}
automountServiceAccountToken: false
# Otherwise a Service named `fillrate` sets FILLRATE_PORT=tcp://… in every pod.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "fillrate.container" -}}
image: {{ include "fillrate.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- with .Values.env }}
env: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "fillrate.mounts" -}}
volumeMounts:
  - { name: config, mountPath: /work, readOnly: true }
{{- end }}

{{- define "fillrate.volumes" -}}
volumes:
  - name: config
    configMap: { name: {{ include "fillrate.configMap" . }} }
{{- end }}
