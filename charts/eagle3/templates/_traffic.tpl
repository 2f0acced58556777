{{/* What the world may reach: the API alone. Metrics, SageMaker's routes and everything else stay inside. */}}

{{/* Public paths, each with its kind of match. Usage: {{ range (include "eagle3.publicPaths" $ | fromYaml).paths }} */}}
{{- define "eagle3.publicPaths" -}}
paths:
  - {path: /v1, type: Prefix}
  - {path: /health, type: Exact}
  - {path: /ready, type: Exact}
  - {path: /openapi.json, type: Exact}
{{- end -}}

{{/* The scope of the second version. Usage: {{ include "eagle3.pod" (include "eagle3.canaryScope" $ | fromJson | merge (dict "root" $)) }} */}}
{{- define "eagle3.canaryScope" -}}
{{- dict "component" "canary" "image" .Values.canary.image "config" .Values.canary.config | toJson -}}
{{- end -}}

{{/* Refuses a second version that nothing can reach. Usage: {{ include "eagle3.checkCanary" $ }} */}}
{{- define "eagle3.checkCanary" -}}
{{- if include "eagle3.spansNodes" . -}}
{{- fail "canary.enabled and leaderWorkerSet.enabled are both true; allowed: one of them, since the canary is a Deployment; roll out a LeaderWorkerSet by itself" -}}
{{- end -}}
{{- if and (gt (int .Values.canary.weight) 0) (not .Values.gateway.enabled) -}}
{{- fail (printf "canary.weight is %d, but nothing splits requests: the weights are those of an HTTPRoute; set gateway.enabled, or canary.weight to 0 and ask the canary's own Service" (int .Values.canary.weight)) -}}
{{- end -}}
{{- if and (gt (int .Values.canary.weight) 0) (eq (int .Values.canary.replicas) 0) -}}
{{- fail (printf "canary.weight is %d and canary.replicas 0, so that share of the requests would fail; allowed: 1 or more pods, or weight 0" (int .Values.canary.weight)) -}}
{{- end -}}
{{- end -}}
