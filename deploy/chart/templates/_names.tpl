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

{{/* Fails if the driver would find an object of the chart where it makes one of its own. */}}
{{- define "boatswain.refuseNamesOfTheDriver" -}}
{{- $name := include "boatswain.fullname" . -}}
{{- $suffixes := include "boatswain.config" . | fromJson | dig "profiles" dict | keys | concat (list "app" "default" "executor") -}}
{{- if .Values.service.enabled -}}
{{- $suffixes = append $suffixes "driver" -}}
{{- end -}}
{{- $prefix := include "boatswain.prefix" . -}}
{{- range $suffixes -}}
{{- if eq $name (printf "%s-%s" $prefix .) -}}
{{- fail (printf "the driver makes objects of the name %s: set fullnameOverride to another one" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name of an object whose name is a DNS label, with a suffix: of a list, the chart's root and the suffix. */}}
{{- define "boatswain.suffixed" -}}
{{- $suffix := index . 1 -}}
{{- printf "%s-%s" (include "boatswain.fullname" (first .) | trunc (int (sub 62 (len $suffix))) | trimSuffix "-") $suffix -}}
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

{{- define "boatswain.secretName" -}}
{{- default (printf "%s-secrets" (include "boatswain.fullname" .)) .Values.secret.existingSecret -}}
{{- end -}}

{{- define "boatswain.selectorLabels" -}}
{{- dict "app.kubernetes.io/name" (include "boatswain.name" .) "app.kubernetes.io/instance" .Release.Name | toJson -}}
{{- end -}}

{{/* The labels of all objects, as JSON. */}}
{{- define "boatswain.labels" -}}
{{- $own := dict "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ = set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- merge $own (include "boatswain.selectorLabels" . | fromJson) .Values.commonLabels | toJson -}}
{{- end -}}

{{- define "boatswain.metadata" -}}
name: {{ include "boatswain.fullname" . | quote }}
namespace: {{ .Release.Namespace | quote }}
labels: {{ include "boatswain.labels" . }}
{{- end -}}

{{/* The labels by which the driver's pods are found, as JSON; the Service of the driver's sessions looks for its own. */}}
{{- define "boatswain.podSelector" -}}
{{- $ofService := include "boatswain.config" . | fromJson | dig "backend" "service_selector" dict -}}
{{- merge $ofService (include "boatswain.selectorLabels" . | fromJson) | toJson -}}
{{- end -}}

{{/*
The labels of a pod that is no driver's, as JSON: of a list, the chart's root and what the pod is. No Service, budget or
policy of the driver finds it, so it has not the release's own.
*/}}
{{- define "boatswain.otherPod" -}}
{{- $name := printf "%s-%s" (include "boatswain.name" (first .) | trunc 55) (index . 1) -}}
{{- merge (dict "app.kubernetes.io/name" $name) (first .).Values.commonLabels | toJson -}}
{{- end -}}

{{/* The beginning of the names of all objects that the driver makes, as the driver derives it (spec K-7). */}}
{{- define "boatswain.prefix" -}}
{{- $config := include "boatswain.config" . | fromJson -}}
{{- with dig "executors" "pod_name_prefix" "" $config -}}
{{- . -}}
{{- else -}}
{{- $name := dig "app" "name" "boatswain" $config -}}
{{- $label := regexReplaceAll "[^A-Za-z0-9]+" $name "-" | trimAll "-" | lower -}}
{{- if not $label -}}
{{- fail (printf "config.app.name, %q, has no letter or digit for the names of objects: set config.executors.pod_name_prefix" $name) -}}
{{- end -}}
{{- if regexMatch "^[0-9]" $label -}}
{{- $label = printf "app-%s" $label -}}
{{- end -}}
{{- if or (ne $label $name) (gt (len $label) 38) -}}
{{- $label = printf "%s-%s" ($label | trunc 31 | trimSuffix "-") (include "boatswain.digest" $name) -}}
{{- end -}}
{{- $label -}}
{{- end -}}
{{- end -}}

{{/*
The driver's digest of a name: the last 24 bits of FNV-1a. Bits above them have no influence on them, so that no number
overflows. Templates have no exclusive or: each bit is that of the sum of both.
*/}}
{{- define "boatswain.digest" -}}
{{- $hash := 2237221 -}}
{{- range $at := until (len .) -}}
{{- $byte := index $ $at | int -}}
{{- $low := mod $hash 256 -}}
{{- $hash = sub $hash $low -}}
{{- range $bit := list 1 2 4 8 16 32 64 128 -}}
{{- $hash = add $hash (mul $bit (mod (add (div $low $bit) (div $byte $bit)) 2)) -}}
{{- end -}}
{{- $hash = mod (mul $hash 435) 16777216 -}}
{{- end -}}
{{- printf "%06x" $hash -}}
{{- end -}}
