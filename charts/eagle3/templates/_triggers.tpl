{{/*
KEDA's triggers. A total over all replicas has metricType AverageValue (HPA divides it by their number); a value that is
one replica's, such as a mean, has metricType Value (HPA multiplies it by their number). Nothing missing counts as 0.
*/}}

{{/*
Label matchers of this release's metrics in Prometheus. Usage: {{ include "eagle3.metricSelector" (dict "root" $ "jobs" "eagle3") }}
*/}}
{{- define "eagle3.metricSelector" -}}
{{- $matchers := list -}}
{{- if .root.Values.monitoring.selector -}}
{{- range $name, $value := .root.Values.monitoring.selector -}}
{{- $matchers = append $matchers (printf "%s=%q" $name $value) -}}
{{- end -}}
{{- else -}}
{{- $matchers = list (printf "namespace=%q" .root.Release.Namespace) (printf "job=~%q" .jobs) -}}
{{- if eq .jobs (include "eagle3.fullname" .root) -}}
{{- $matchers = list (printf "namespace=%q" .root.Release.Namespace) (printf "job=%q" .jobs) -}}
{{- end -}}
{{- end -}}
{{- join "," $matchers -}}
{{- end -}}

{{/* A trigger on a Prometheus query. Usage: {{ include "eagle3.prometheusTrigger" (dict "root" $ "name" "x" "query" "sum(y)" "threshold" 4 "type" "AverageValue") }} */}}
{{- define "eagle3.prometheusTrigger" -}}
{{- $prometheus := .root.Values.autoscaling.prometheus -}}
{{- $login := $prometheus.authentication -}}
- type: prometheus
  name: {{ .name }}
  metricType: {{ .type }}
  metadata:
    serverAddress: {{ $prometheus.serverAddress | quote }}
    query: {{ .query | quote }}
    threshold: {{ .threshold | toString | quote }}
    {{- with .activation }}
    activationThreshold: {{ . | toString | quote }}
    {{- end }}
    ignoreNullValues: "false"
    {{- with $login.modes }}
    authModes: {{ join "," . | quote }}
    {{- end }}
  {{- if or $login.existing $login.secret }}
  authenticationRef:
    name: {{ $login.existing | default (printf "%s-prometheus" (include "eagle3.fullname" .root)) }}
  {{- end }}
{{- end -}}

{{/* A trigger on what KEDA reads from every ready pod. Usage: {{ include "eagle3.podsTrigger" (dict "root" $ "name" "x" "metric" "y" "target" 4) }} */}}
{{- define "eagle3.podsTrigger" -}}
{{- $port := (include "eagle3.settings" (dict "root" .root "component" "server") | fromJson).serving.port -}}
- type: metrics-api
  name: {{ .name }}
  metricType: AverageValue
  metadata:
    # The port is the pods', not the Service's: KEDA replaces the host by each endpoint's address.
    url: {{ printf "http://%s.%s.svc.cluster.local:%d/metrics" (include "eagle3.fullname" .root) .root.Release.Namespace (int $port) | quote }}
    format: prometheus
    valueLocation: {{ .metric }}
    aggregateFromKubeServiceEndpoints: "true"
    aggregationType: sum
    targetValue: {{ .target | toString | quote }}
{{- end -}}

{{/* A trigger on a CloudWatch metric. Usage: {{ include "eagle3.cloudwatchTrigger" (dict "root" $ "name" "x" "metric" (dict "namespace" "a" "name" "b" "dimensions" $d "statistic" "Sum") "target" 4 "type" "Value" "missingIsZero" false) }} */}}
{{- define "eagle3.cloudwatchTrigger" -}}
{{- $cloudwatch := .root.Values.autoscaling.cloudwatch -}}
{{- $names := list -}}
{{- $values := list -}}
{{- range $name, $value := .metric.dimensions -}}
{{- $names = append $names $name -}}
{{- $values = append $values $value -}}
{{- end -}}
- type: aws-cloudwatch
  name: {{ .name }}
  metricType: {{ .type }}
  metadata:
    awsRegion: {{ $cloudwatch.region }}
    namespace: {{ .metric.namespace | quote }}
    metricName: {{ .metric.name | quote }}
    dimensionName: {{ join ";" $names | quote }}
    dimensionValue: {{ join ";" $values | quote }}
    metricStat: {{ .metric.statistic }}
    metricStatPeriod: {{ int $cloudwatch.periodSeconds | quote }}
    metricCollectionTime: {{ int $cloudwatch.collectionSeconds | quote }}
    targetMetricValue: {{ .target | toString | quote }}
    {{- with .activation }}
    activationTargetMetricValue: {{ . | toString | quote }}
    {{- end }}
    minMetricValue: "0"
    ignoreNullValues: {{ .missingIsZero | toString | quote }}
  authenticationRef:
    name: {{ $cloudwatch.authentication.existing | default (printf "%s-cloudwatch" (include "eagle3.fullname" .root)) }}
{{- end -}}

{{/* Every trigger of the ScaledObject. Usage: {{ include "eagle3.triggers" $ | nindent 4 }} */}}
{{- define "eagle3.triggers" -}}
{{- $scaling := .Values.autoscaling -}}
{{- $name := include "eagle3.fullname" . -}}
{{- $busy := include "eagle3.busyTarget" . -}}
{{- $zero := eq (int $scaling.minReplicas) 0 -}}
{{- if eq $scaling.trigger "prometheus" -}}
{{- $selector := include "eagle3.metricSelector" (dict "root" . "jobs" $name) -}}
{{- $none := "" -}}
{{- if and $zero (not (include "eagle3.spansNodes" .)) -}}
{{- /* Without replicas there is no queue; missing numbers of replicas that should be there stay missing. */ -}}
{{- $none = printf " or max(kube_deployment_spec_replicas{namespace=%q,deployment=%q} == 0)" .Release.Namespace $name -}}
{{- end -}}
{{ include "eagle3.prometheusTrigger" (dict "root" . "name" "queue-depth" "query" (printf "sum(eagle3_queue_depth{%s})%s" $selector $none) "threshold" $scaling.queueDepth "type" "AverageValue") }}
{{- with $busy }}
{{ include "eagle3.prometheusTrigger" (dict "root" $ "name" "busy" "query" (printf "sum(eagle3_running{%s})%s" $selector $none) "threshold" . "type" "AverageValue") }}
{{- end }}
{{- else if eq $scaling.trigger "metrics-api" -}}
{{ include "eagle3.podsTrigger" (dict "root" . "name" "queue-depth" "metric" "eagle3_queue_depth" "target" $scaling.queueDepth) }}
{{- with $busy }}
{{ include "eagle3.podsTrigger" (dict "root" $ "name" "busy" "metric" "eagle3_running" "target" .) }}
{{- end }}
{{- else -}}
{{- $metrics := (include "eagle3.settings" (dict "root" . "component" "server") | fromJson).metrics -}}
{{- $of := dict "namespace" $metrics.namespace "dimensions" $metrics.dimensions "statistic" "Average" -}}
{{ include "eagle3.cloudwatchTrigger" (dict "root" . "name" "queue-depth" "metric" (merge (dict "name" "QueueDepth") $of) "target" $scaling.queueDepth "type" "Value" "missingIsZero" false) }}
{{- with $scaling.cloudwatch.tokensPerSecond }}
{{ include "eagle3.cloudwatchTrigger" (dict "root" $ "name" "busy" "metric" (merge (dict "name" "TokensPerSecond") $of) "target" . "type" "Value" "missingIsZero" false) }}
{{- end }}
{{- end }}
{{- if $scaling.gpuUtilization.enabled }}
{{- $gpu := $scaling.gpuUtilization }}
{{- $pods := printf "%s-[a-z0-9]+(-[a-z0-9]+)?" $name }}
{{ include "eagle3.prometheusTrigger" (dict "root" . "name" "gpu" "query" (printf "max(DCGM_FI_DEV_GPU_UTIL{%s=%q,%s=~%q})" $gpu.namespaceLabel .Release.Namespace $gpu.podLabel $pods) "threshold" $gpu.target "type" "Value") }}
{{- end }}
{{- if $zero }}
{{- $wake := $scaling.wake }}
{{- if eq $wake.type "prometheus" }}
{{ include "eagle3.prometheusTrigger" (dict "root" . "name" "wake" "query" $wake.prometheus.query "threshold" $wake.target "activation" $wake.activation "type" "AverageValue") }}
{{- else }}
{{- /* AWS publishes counts only where something was counted, so no data is an honest 0 here. */ -}}
{{- $of := $wake.cloudwatch }}
{{ include "eagle3.cloudwatchTrigger" (dict "root" . "name" "wake" "metric" (dict "namespace" $of.namespace "name" $of.metricName "dimensions" $of.dimensions "statistic" $of.statistic) "target" $wake.target "activation" $wake.activation "type" "AverageValue" "missingIsZero" true) }}
{{- end }}
{{- end }}
{{- end -}}
