{{/*
Names, labels and images. Helpers take either the root context ($) or a scope:
  root       the root context
  component  server, canary, ...
  image      (optional) keys that win over .Values.image
  config     (optional) keys that win over .Values.config
*/}}

{{/* Name of the chart. Usage: {{ include "eagle3.name" $ }} */}}
{{- define "eagle3.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/*
Name of the objects; short enough for a suffix. Usage: {{ include "eagle3.fullname" $ }}
A Service called vllm would set VLLM_PORT in every pod beside it, which vLLM reads as its port.
*/}}
{{- define "eagle3.fullname" -}}
{{- $name := include "eagle3.name" . -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $full = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- end -}}
{{- $full = $full | trunc 52 | trimSuffix "-" -}}
{{- if eq $full "vllm" -}}
{{- fail "the objects would be called vllm, and a Service of that name breaks vLLM (it sets VLLM_PORT); allowed: any other name; choose another release name or set fullnameOverride" -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{/* Name of a component's objects: the server's is the full name. Usage: {{ include "eagle3.componentName" $scope }} */}}
{{- define "eagle3.componentName" -}}
{{- $full := include "eagle3.fullname" .root -}}
{{- eq .component "server" | ternary $full (printf "%s-%s" $full .component) -}}
{{- end -}}

{{/* Labels that select a component's pods; they never change. Usage: {{ include "eagle3.selectorLabels" $scope }} */}}
{{- define "eagle3.selectorLabels" -}}
app.kubernetes.io/name: {{ include "eagle3.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of every object. Usage: {{ include "eagle3.labels" (dict "root" $ "component" "server") | nindent 4 }} */}}
{{- define "eagle3.labels" -}}
{{ include "eagle3.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: eagle3
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* Name of the service account. Usage: {{ include "eagle3.serviceAccountName" $ }} */}}
{{- define "eagle3.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "eagle3.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* The image of a component; a digest wins over a tag. Usage: {{ include "eagle3.image" $scope }} */}}
{{- define "eagle3.image" -}}
{{- $image := deepCopy .root.Values.image -}}
{{- with .image -}}
{{- if and .tag (not .digest) -}}{{- $_ := set $image "digest" "" -}}{{- end -}}
{{- range $key, $value := . -}}{{- if $value -}}{{- $_ := set $image $key $value -}}{{- end -}}{{- end -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- $kind := include "eagle3.gpuCount" . | int | eq 0 | ternary "cpu" "cuda13.0" -}}
{{- $tag := $image.tag | default (printf "%s-%s" .root.Chart.AppVersion $kind) -}}
{{- if eq $tag "latest" -}}
{{- fail (printf "the image %s has the tag latest, which means something else every day; allowed: the tag of a release or a digest; set image.tag or image.digest" $image.repository) -}}
{{- end -}}
{{- printf "%s:%s" $image.repository $tag -}}
{{- end -}}
{{- end -}}

{{/* Whether something else sets the number of pods: "true" or "". Usage: {{ if include "eagle3.isScaled" $ }} */}}
{{- define "eagle3.isScaled" -}}
{{- if ne (dig "kind" "none" .Values.autoscaling) "none" -}}true{{- end -}}
{{- end -}}

{{/* Whether a replica spans nodes: "true" or "". Usage: {{ if include "eagle3.spansNodes" $ }} */}}
{{- define "eagle3.spansNodes" -}}
{{- if dig "enabled" false .Values.leaderWorkerSet -}}true{{- end -}}
{{- end -}}

{{/* Nodes of one replica. Usage: {{ include "eagle3.nodeCount" $ | int }} */}}
{{- define "eagle3.nodeCount" -}}
{{- if include "eagle3.spansNodes" . -}}{{- int .Values.leaderWorkerSet.size -}}{{- else -}}1{{- end -}}
{{- end -}}

{{/* Refuses labels that would take the place of the chart's own. Usage: {{ include "eagle3.checkLabels" $ }} */}}
{{- define "eagle3.checkLabels" -}}
{{- $own := include "eagle3.labels" (dict "root" $ "component" "server") | fromYaml -}}
{{- range $place, $labels := dict "podLabels" .Values.podLabels "service.labels" .Values.service.labels -}}
{{- range $key, $value := $labels -}}
{{- if hasKey $own $key -}}
{{- fail (printf "%s sets %s, which the chart sets itself and selects by; allowed: other labels; take it out" $place $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Annotations that tell checkov which of its checks an object is not meant to pass, and why.
Usage: {{ include "eagle3.acceptedChecks" (list "CKV_K8S_11" "CKV_K8S_15") | nindent 4 }}
*/}}
{{- define "eagle3.acceptedChecks" -}}
{{- $reasons := dict
  "CKV_K8S_8" "answers no requests"
  "CKV_K8S_9" "answers no requests"
  "CKV_K8S_11" "a throttled server misses its latency, and requests already share the CPU fairly"
  "CKV_K8S_15" "a release tag or a digest keeps its meaning, and pulling again costs the cold start"
  "CKV_K8S_43" "image.digest takes one, where the registry has given it"
-}}
{{- range $index, $id := . -}}
{{- if $index }}{{ "\n" }}{{ end -}}
checkov.io/skip{{ add1 $index }}: {{ printf "%s=%s" $id (get $reasons $id) }}
{{- end -}}
{{- end -}}
