{{/*
The deployment config of a component, and the settings that follow from it. Defaults are the runtime's own
(files/config.defaults.json is made from its schema), so none is typed here.
*/}}

{{/*
One layer of settings over another, as the runtime lays them: sections key by key, a mapping that is one setting whole.
Usage: {{ include "eagle3.layered" (dict "below" $a "above" $b) | fromJson }}
*/}}
{{- define "eagle3.layered" -}}
{{- $result := deepCopy .below -}}
{{- range $key, $value := .above -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $result $key)) -}}
{{- $section := get $result $key -}}
{{- range $inner, $setting := $value -}}{{- $_ := set $section $inner $setting -}}{{- end -}}
{{- else -}}
{{- $_ := set $result $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $result -}}
{{- end -}}

{{/*
What the component's config file says, as JSON: .Values.config, the component's own keys over it, and what the chart
adds where it is absent. Usage: {{ include "eagle3.config" $scope | fromJson | toYaml }}
*/}}
{{- define "eagle3.config" -}}
{{- $config := include "eagle3.layered" (dict "below" .root.Values.config "above" (.config | default dict)) | fromJson -}}
{{- $serving := get $config "serving" | default dict -}}
{{- if not (get $serving "host") -}}{{- $_ := set $serving "host" "0.0.0.0" -}}{{- end -}}
{{- if has (get $serving "host") (list "127.0.0.1" "localhost" "::1") -}}
{{- fail (printf "config.serving.host is %s, where neither probes nor the Service reach the server; allowed: 0.0.0.0 or ::; leave it out" (get $serving "host")) -}}
{{- end -}}
{{- $secret := .root.Values.apiKeys.existingSecret -}}
{{- if $secret -}}
{{- $path := printf "/etc/eagle3/api-keys/%s" .root.Values.apiKeys.key -}}
{{- $said := get $serving "api_keys_file" | default $path -}}
{{- if ne $said $path -}}
{{- fail (printf "config.serving.api_keys_file is %s, but apiKeys.existingSecret mounts the keys at %s; leave one of them out" $said $path) -}}
{{- end -}}
{{- $_ := set $serving "api_keys_file" $path -}}
{{- end -}}
{{- $_ := set $config "serving" $serving -}}
{{- toJson $config -}}
{{- end -}}

{{/* The component's config with every default of the runtime, as JSON. Usage: {{ include "eagle3.settings" $scope | fromJson }} */}}
{{- define "eagle3.settings" -}}
{{- $defaults := .root.Files.Get "files/config.defaults.json" | fromJson -}}
{{- $settings := include "eagle3.layered" (dict "below" $defaults "above" (include "eagle3.config" . | fromJson)) | fromJson -}}
{{- if eq (int $settings.serving.port) 0 -}}
{{- fail "config.serving.port is 0, a port that nobody knows beforehand; allowed: 1 to 65535; leave it out for 8080" -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{/* The component's ConfigMap. Usage: {{ include "eagle3.configMap" (dict "root" $ "component" "server") }} */}}
{{- define "eagle3.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "eagle3.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "eagle3.labels" . | nindent 4 }}
data:
  config.yaml: |
    {{- include "eagle3.config" . | fromJson | toYaml | nindent 4 }}
{{- end -}}

{{/* Refuses settings of the config among environment variables, which would win over what was checked. Usage: {{ include "eagle3.checkEnvironment" $ }} */}}
{{- define "eagle3.checkEnvironment" -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "EAGLE3_" .name -}}
{{- fail (printf "extraEnv sets %s, which would win over the config that this chart checks; allowed: other variables; put the setting into config" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
