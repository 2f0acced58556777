{{/*
What may be away at a time; at the least number of pods, one must be allowed to go, or no node can be drained.
Percentages of a budget are rounded up. Usage: {{ include "eagle3.budget" $ | nindent 2 }}
*/}}
{{- define "eagle3.budget" -}}
{{- $least := int .Values.replicas -}}
{{- $key := "replicas" -}}
{{- if include "eagle3.isScaled" . -}}
{{- $least = int .Values.autoscaling.minReplicas -}}
{{- $key = "autoscaling.minReplicas" -}}
{{- end -}}
{{- $pods := mul (max $least 1) (include "eagle3.nodeCount" .) -}}
{{- $stay := .Values.pdb.minAvailable -}}
{{- $away := .Values.pdb.maxUnavailable -}}
{{- if kindIs "invalid" $stay -}}
{{- if kindIs "invalid" $away -}}{{- $away = 1 -}}{{- end -}}
{{- if eq (trimSuffix "%" (toString $away) | int) 0 -}}
{{- fail (printf "pdb.maxUnavailable is %v, so no node with such a pod could ever be drained; allowed: 1 or more; set it to 1" $away) -}}
{{- end -}}
maxUnavailable: {{ $away }}
{{- else -}}
{{- $number := $stay -}}
{{- if kindIs "string" $stay -}}
{{- $number = divf (mul (trimSuffix "%" $stay | int) $pods) 100 | ceil -}}
{{- end -}}
{{- if ge (int $number) (int $pods) -}}
{{- fail (printf "pdb.minAvailable is %v, which is %d of the %d pods at the least (%s %d), so no node with such a pod could ever be drained; allowed: less than all; leave it out for pdb.maxUnavailable 1, or raise %s" $stay (int $number) (int $pods) $key $least $key) -}}
{{- end -}}
minAvailable: {{ $stay }}
{{- end -}}
{{- end -}}
