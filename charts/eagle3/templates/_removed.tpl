{{/*
Keys that this chart does not have, or no longer has, each with the key to use. The schema lets them through so that
the error can say it. Usage: {{ include "eagle3.checkRemoved" $ }}
*/}}
{{- define "eagle3.checkRemoved" -}}
{{- $keys := .Files.Get "files/removed_keys.yaml" | fromYaml -}}
{{- range $key, $instead := $keys -}}
{{- if hasKey $.Values $key -}}
{{- fail (printf "%s is no key of this chart; use %s" $key $instead) -}}
{{- end -}}
{{- end -}}
{{- end -}}
