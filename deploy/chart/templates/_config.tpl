{{/* The configuration as JSON, without keys that are null: values files unset a key so. */}}
{{- define "boatswain.config" -}}
{{- include "boatswain.withoutNulls" .Values.config -}}
{{- end -}}
{{- define "boatswain.withoutNulls" -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- $_ := set $kept $key (include "boatswain.withoutNulls" $value | fromJson) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $_ := set $kept $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $kept -}}
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
{{- range $name, $profile := include "boatswain.config" . | fromJson | dig "profiles" dict -}}
{{- if $profile.claims -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* The files of a Secret that the configuration names, as a JSON list of paths. */}}
{{- define "boatswain.secretFiles" -}}
{{- $config := include "boatswain.config" . | fromJson -}}
{{- list (dig "api" "token_file" "" $config) (dig "backend" "key_file" "" $config) (dig "metrics" "token_file" "" $config) | compact | uniq | toJson -}}
{{- end -}}
{{- define "boatswain.certificateFiles" -}}
{{- $config := include "boatswain.config" . | fromJson -}}
{{- list (dig "tls" "certificate_file" "" $config) (dig "tls" "key_file" "" $config) (dig "tls" "ca_file" "" $config) | compact | toJson -}}
{{- end -}}

{{/* The one directory of files that a Secret has. */}}
{{- define "boatswain.directory" -}}
{{- $directory := first . | dir -}}
{{- range . -}}
{{- if or (ne (dir .) $directory) (not (isAbs .)) (eq $directory "/etc/boatswain") -}}
{{- fail (printf "config names the file %s: one Secret has the files of config.tls and one has all others that are secret; name the files of each by absolute paths in one directory, such as /etc/boatswain-secrets, other than /etc/boatswain" .) -}}
{{- end -}}
{{- end -}}
{{- $directory -}}
{{- end -}}

{{/* The port of a listening address. */}}
{{- define "boatswain.port" -}}
{{- splitList ":" . | last -}}
{{- end -}}

{{/* The same if other pods can reach the address; empty otherwise. */}}
{{- define "boatswain.openPort" -}}
{{- if and . (not (regexMatch "^(127\\.|\\[::1\\])" .)) -}}
{{- include "boatswain.port" . -}}
{{- end -}}
{{- end -}}

{{/* Whether the API speaks HTTPS, as the scheme of its address. */}}
{{- define "boatswain.scheme" -}}
{{- $config := include "boatswain.config" . | fromJson -}}
{{- $tls := or (dig "tls" "generate" false $config) (dig "tls" "certificate_file" "" $config) -}}
{{- if and $tls (not (dig "api" "plain_http" false $config)) -}}https{{- else -}}http{{- end -}}
{{- end -}}
