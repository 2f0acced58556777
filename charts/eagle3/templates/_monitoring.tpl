{{/* What Prometheus is told. Metrics are those of the runtime's catalogue; the job of a pod is the name of its Service. */}}

{{/* Refuses two scrapes of one pod, which would double every sum. Usage: {{ include "eagle3.checkMonitoring" $ }} */}}
{{- define "eagle3.checkMonitoring" -}}
{{- if and .Values.monitoring.serviceMonitor.enabled .Values.monitoring.podMonitor.enabled -}}
{{- fail "monitoring.serviceMonitor.enabled and monitoring.podMonitor.enabled are both true, so every pod would be scraped twice and sums be doubled; allowed: one of them; set the other to false" -}}
{{- end -}}
{{- end -}}

{{/* How the metrics are scraped. Usage: {{ include "eagle3.scrape" .Values.monitoring.podMonitor | nindent 6 }} */}}
{{- define "eagle3.scrape" -}}
port: http
path: /metrics
interval: {{ int .intervalSeconds }}s
scrapeTimeout: {{ min 5 (int .intervalSeconds) }}s
{{- end -}}

{{/*
An alarm of the catalogue: it fires while at least `datapoints` of the last `periods` evaluations were beyond the line,
as CloudWatch counts.
Usage: {{ include "eagle3.alarm" (dict "root" $ "name" "x" "severity" "page" "meaning" "..." "beyond" "a > 1" "seconds" 60 "periods" 6 "datapoints" 5) | nindent 8 }}
*/}}
{{- define "eagle3.alarm" -}}
{{- $rule := .root.Values.monitoring.prometheusRule -}}
- alert: {{ .name }}
  expr: |-
    count_over_time(({{ .beyond }})[{{ mul .seconds .periods }}s:{{ .seconds }}s]) >= {{ .datapoints }}
  {{- include "eagle3.alarmText" . | nindent 2 }}
{{- end -}}

{{/* Labels and annotations of an alarm. Usage: {{ include "eagle3.alarmText" (dict "root" $ "name" "x" "severity" "page" "meaning" "...") | nindent 10 }} */}}
{{- define "eagle3.alarmText" -}}
labels:
  severity: {{ .severity }}
  release: {{ .root.Release.Name }}
annotations:
  summary: {{ .meaning | quote }}
  runbook_url: {{ printf "%s/%s.md" .root.Values.monitoring.prometheusRule.runbookBaseUrl .name | quote }}
{{- end -}}
