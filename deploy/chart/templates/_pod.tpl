{{- define "boatswain.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest | quote -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote -}}
{{- end -}}
{{- end -}}

{{- define "boatswain.env" -}}
- name: BOATSWAIN__DRIVER__POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
The security of a pod, as JSON. The files of a Secret are root's: the pod's own group makes them readable, unless another
is named, or the cluster chooses both.
*/}}
{{- define "boatswain.podSecurity" -}}
{{- $security := deepCopy .Values.podSecurityContext -}}
{{- $files := concat (include "boatswain.secretFiles" . | fromJsonArray) (include "boatswain.certificateFiles" . | fromJsonArray) -}}
{{- if and $files $security.runAsGroup (not (hasKey $security "fsGroup")) -}}
{{- $_ := set $security "fsGroup" $security.runAsGroup -}}
{{- end -}}
{{- toJson $security -}}
{{- end -}}

{{/* What a pod beside the driver's has: it runs once, where the driver may run, and knows nothing of the cluster. */}}
{{- define "boatswain.runsOnce" -}}
restartPolicy: Never
automountServiceAccountToken: false
securityContext: {{ toJson .Values.podSecurityContext }}
{{- include "boatswain.placement" . }}
{{- end -}}

{{- define "boatswain.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end -}}
