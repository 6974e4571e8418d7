{{- define "boatswain.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "boatswain.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "boatswain.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "boatswain.serviceAccountName" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "boatswain.fullname" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{- define "boatswain.selectorLabels" -}}
app.kubernetes.io/name: {{ include "boatswain.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "boatswain.metadata" -}}
name: {{ include "boatswain.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  {{- include "boatswain.selectorLabels" . | nindent 2 }}
{{- end -}}

{{/* The labels by which the driver's pods are found, as JSON; the Service of the driver's sessions looks for its own. */}}
{{- define "boatswain.podSelector" -}}
{{- $ofService := dig "backend" "service_selector" dict .Values.config -}}
{{- merge (deepCopy $ofService) (include "boatswain.selectorLabels" . | fromYaml) | toJson -}}
{{- end -}}

{{/* The prefix of the names of all objects of the application. */}}
{{- define "boatswain.prefix" -}}
{{- dig "executors" "pod_name_prefix" (dig "app" "name" "boatswain" .Values.config) .Values.config -}}
{{- end -}}

{{/* A value in TOML: a table in one line, a list, or a scalar. TOML's strings have JSON's escapes. */}}
{{- define "boatswain.value" -}}
{{- if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $pairs = append $pairs (printf "%s = %s" (toJson $key) (include "boatswain.value" $value)) -}}
{{- end -}}
{{- end -}}
{ {{ join ", " $pairs }} }
{{- else if kindIs "slice" . -}}
{{- $items := list -}}
{{- range . -}}
{{- $items = append $items (include "boatswain.value" .) -}}
{{- end -}}
[{{ join ", " $items }}]
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* The configuration file. */}}
{{- define "boatswain.toml" -}}
{{- range $section, $values := .Values.config }}
[{{ $section }}]
{{- range $key, $value := $values }}
{{- if not (kindIs "invalid" $value) }}
{{ toJson $key }} = {{ include "boatswain.value" $value }}
{{- end }}
{{- end }}
{{ end }}
{{- end -}}

{{/* Whether any profile has claims. */}}
{{- define "boatswain.hasClaims" -}}
{{- range $name, $profile := dig "profiles" dict .Values.config -}}
{{- if dig "claims" false $profile -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* The files of a Secret that the configuration names, as a JSON list of paths. */}}
{{- define "boatswain.secretFiles" -}}
{{- $config := .Values.config -}}
{{- list (dig "api" "token_file" "" $config) (dig "backend" "key_file" "" $config) (dig "metrics" "token_file" "" $config) | compact | toJson -}}
{{- end -}}
{{- define "boatswain.certificateFiles" -}}
{{- $config := .Values.config -}}
{{- list (dig "tls" "certificate_file" "" $config) (dig "tls" "key_file" "" $config) (dig "tls" "ca_file" "" $config) | compact | toJson -}}
{{- end -}}

{{/* The port of a listening address. */}}
{{- define "boatswain.port" -}}
{{- splitList ":" . | last -}}
{{- end -}}
