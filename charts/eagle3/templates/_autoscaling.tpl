{{/* What changes the number of replicas, and from which numbers. Windows follow from the cold start alone. */}}

{{/* Refuses scaling that cannot work. Usage: {{ include "eagle3.checkAutoscaling" $ }} */}}
{{- define "eagle3.checkAutoscaling" -}}
{{- $scaling := .Values.autoscaling -}}
{{- $least := int $scaling.minReplicas -}}
{{- if gt $least (int $scaling.maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas is %d and autoscaling.maxReplicas %d; allowed: a minimum that is not above the maximum; raise maxReplicas or lower minReplicas" $least (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- $limits := (include "eagle3.settings" (dict "root" . "component" "server") | fromJson).limits -}}
{{- if and $limits.queue (gt (float64 $scaling.queueDepth) (float64 $limits.queue)) -}}
{{- fail (printf "autoscaling.queueDepth is %v, but a replica lets %v requests wait at most (config.limits.queue), so the queue never gets there; allowed: at most config.limits.queue; lower autoscaling.queueDepth" $scaling.queueDepth $limits.queue) -}}
{{- end -}}
{{- $stay := include "eagle3.downWindow" . | int -}}
{{- if lt $stay (int $scaling.coldStartSeconds) -}}
{{- fail (printf "autoscaling.scaleDown.stabilizationSeconds is %d s and a cold start takes %d s (autoscaling.coldStartSeconds), so replicas would go while those that were asked for still start; allowed: at least the cold start; raise it or leave it out" $stay (int $scaling.coldStartSeconds)) -}}
{{- end -}}
{{- if eq $least 0 -}}{{- include "eagle3.checkZero" . -}}{{- end -}}
{{- if eq $scaling.kind "keda" -}}{{- include "eagle3.checkKeda" . -}}{{- end -}}
{{- end -}}

{{/* Refuses zero replicas where nothing outside the pods starts the first one. Usage: {{ include "eagle3.checkZero" $ }} */}}
{{- define "eagle3.checkZero" -}}
{{- $scaling := .Values.autoscaling -}}
{{- $wake := $scaling.wake -}}
{{- $remedy := "allowed: 1 or more, or 0 with kind keda and a wake trigger on something outside the pods (a gateway's or load balancer's requests); set autoscaling.minReplicas to 1, or autoscaling.wake" -}}
{{- if eq $scaling.kind "hpa" -}}
{{- fail (printf "autoscaling.minReplicas is 0 and autoscaling.kind hpa, which never starts the first replica; %s" $remedy) -}}
{{- end -}}
{{- if not $wake.type -}}
{{- fail (printf "autoscaling.minReplicas is 0, but the queue's metric (trigger %s) comes from the pods themselves, so at zero nothing would start one; %s" $scaling.trigger $remedy) -}}
{{- end -}}
{{- if eq $wake.type "prometheus" -}}
{{- if not $wake.prometheus.query -}}
{{- fail "autoscaling.wake.type is prometheus and autoscaling.wake.prometheus.query is empty; allowed: a query that begins with sum( or max( and has a value without any pod; set it" -}}
{{- end -}}
{{- if regexMatch "\\b(eagle3_|vllm:|sglang:|DCGM_)" $wake.prometheus.query -}}
{{- fail (printf "autoscaling.wake.prometheus.query is %s, a metric of the pods themselves, which is gone at zero replicas; %s" $wake.prometheus.query $remedy) -}}
{{- end -}}
{{- else -}}
{{- $own := (include "eagle3.settings" (dict "root" . "component" "server") | fromJson).metrics.namespace -}}
{{- if eq $wake.cloudwatch.namespace $own -}}
{{- fail (printf "autoscaling.wake.cloudwatch.namespace is %s (config.metrics.namespace), whose metrics come from the pods themselves and are gone at zero replicas; %s" $own $remedy) -}}
{{- end -}}
{{- if not (and $wake.cloudwatch.namespace $wake.cloudwatch.metricName $wake.cloudwatch.dimensions) -}}
{{- fail "autoscaling.wake.type is aws-cloudwatch and its namespace, metricName or dimensions are missing; set all three in autoscaling.wake.cloudwatch" -}}
{{- end -}}
{{- end -}}
{{- if lt (include "eagle3.cooldown" . | int) (int $scaling.coldStartSeconds) -}}
{{- fail (printf "autoscaling.cooldownSeconds is %d s and a cold start takes %d s (autoscaling.coldStartSeconds), so the first replica could go before it has answered anything; allowed: at least the cold start; raise it or leave it out" (int $scaling.cooldownSeconds) (int $scaling.coldStartSeconds)) -}}
{{- end -}}
{{- end -}}

{{/* Refuses triggers that KEDA could not ask. Usage: {{ include "eagle3.checkKeda" $ }} */}}
{{- define "eagle3.checkKeda" -}}
{{- $scaling := .Values.autoscaling -}}
{{- $used := list $scaling.trigger -}}
{{- if $scaling.gpuUtilization.enabled -}}{{- $used = append $used "prometheus" -}}{{- end -}}
{{- if eq (int $scaling.minReplicas) 0 -}}{{- $used = append $used $scaling.wake.type -}}{{- end -}}
{{- if has "prometheus" $used -}}
{{- if not $scaling.prometheus.serverAddress -}}
{{- fail "autoscaling asks Prometheus (trigger, gpuUtilization or wake), and autoscaling.prometheus.serverAddress is empty; allowed: its address, such as http://prometheus-operated.monitoring:9090; set it, or choose another autoscaling.trigger" -}}
{{- end -}}
{{- include "eagle3.checkPrometheusLogin" . -}}
{{- end -}}
{{- if has "aws-cloudwatch" $used -}}
{{- $cloudwatch := $scaling.cloudwatch -}}
{{- if not $cloudwatch.region -}}
{{- fail "autoscaling asks CloudWatch (trigger or wake), and autoscaling.cloudwatch.region is empty; allowed: an AWS region; set it" -}}
{{- end -}}
{{- $period := int $cloudwatch.periodSeconds -}}
{{- if not (or (has $period (list 10 30)) (eq (mod $period 60) 0)) -}}
{{- fail (printf "autoscaling.cloudwatch.periodSeconds is %d; allowed: 10, 30, 60 or a multiple of 60" $period) -}}
{{- end -}}
{{- $back := int $cloudwatch.collectionSeconds -}}
{{- if or (le $back $period) (ne (mod $back $period) 0) -}}
{{- fail (printf "autoscaling.cloudwatch.collectionSeconds is %d and periodSeconds %d; allowed: more than a period and a whole number of them, since the newest period is often still empty; set it to %d" $back $period (mul 5 $period)) -}}
{{- end -}}
{{- end -}}
{{- if eq $scaling.trigger "aws-cloudwatch" -}}
{{- $metrics := (include "eagle3.settings" (dict "root" . "component" "server") | fromJson).metrics -}}
{{- if eq $metrics.emf "off" -}}
{{- fail "autoscaling.trigger is aws-cloudwatch, but config.metrics.emf is off, so no metric reaches CloudWatch; allowed: stdout or agent; set config.metrics.emf" -}}
{{- end -}}
{{- if not $metrics.dimensions -}}
{{- fail "autoscaling.trigger is aws-cloudwatch, but config.metrics.dimensions is empty, and KEDA asks for a metric by at least one; set it, such as ClusterName: my-cluster" -}}
{{- end -}}
{{- end -}}
{{- $fallback := $scaling.fallback.replicas -}}
{{- if not (kindIs "invalid" $fallback) -}}
{{- if or (lt (int $fallback) (int $scaling.minReplicas)) (gt (int $fallback) (int $scaling.maxReplicas)) -}}
{{- fail (printf "autoscaling.fallback.replicas is %d; allowed: %d to %d (minReplicas to maxReplicas); change it or leave it out" (int $fallback) (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses a login that KEDA would ignore or not understand. Usage: {{ include "eagle3.checkPrometheusLogin" $ }} */}}
{{- define "eagle3.checkPrometheusLogin" -}}
{{- $login := .Values.autoscaling.prometheus.authentication -}}
{{- if and $login.existing $login.secret -}}
{{- fail (printf "autoscaling.prometheus.authentication has existing %s and secret %s; allowed: one of them; leave one out" $login.existing $login.secret) -}}
{{- end -}}
{{- if and $login.ca (not $login.modes) -}}
{{- fail "autoscaling.prometheus.authentication.ca is true and modes is empty, and KEDA ignores a ca without a mode; allowed: bearer, basic, tls or custom; set modes" -}}
{{- end -}}
{{- if and (or $login.modes $login.ca) (not $login.secret) (not $login.existing) -}}
{{- fail (printf "autoscaling.prometheus.authentication.modes is %s, but nothing holds the credentials; set secret or existing" (join ", " $login.modes)) -}}
{{- end -}}
{{- if and $login.secret (not $login.modes) -}}
{{- fail (printf "autoscaling.prometheus.authentication.secret is %s and modes is empty, so KEDA would not use it; allowed: bearer, basic, tls or custom; set modes" $login.secret) -}}
{{- end -}}
{{- if and (has "bearer" $login.modes) (has "basic" $login.modes) -}}
{{- fail "autoscaling.prometheus.authentication.modes has bearer and basic, which exclude each other; leave one out" -}}
{{- end -}}
{{- end -}}

{{/* Seconds whose highest wish counts before replicas go. Usage: {{ include "eagle3.downWindow" $ | int }} */}}
{{- define "eagle3.downWindow" -}}
{{- $said := .Values.autoscaling.scaleDown.stabilizationSeconds -}}
{{- if kindIs "invalid" $said -}}
{{- mul 2 (int .Values.autoscaling.coldStartSeconds) | max 600 | min 3600 -}}
{{- else -}}
{{- int $said -}}
{{- end -}}
{{- end -}}

{{/* Seconds without activity before the last replica goes. Usage: {{ include "eagle3.cooldown" $ | int }} */}}
{{- define "eagle3.cooldown" -}}
{{- $said := .Values.autoscaling.cooldownSeconds -}}
{{- if kindIs "invalid" $said -}}{{- include "eagle3.downWindow" . -}}{{- else -}}{{- int $said -}}{{- end -}}
{{- end -}}

{{/* Requests in flight per replica that are aimed at; empty: not looked at. Usage: {{ include "eagle3.busyTarget" $ }} */}}
{{- define "eagle3.busyTarget" -}}
{{- $share := .Values.autoscaling.busyShare -}}
{{- if not (kindIs "invalid" $share) -}}
{{- $limits := (include "eagle3.settings" (dict "root" . "component" "server") | fromJson).limits -}}
{{- round (mulf $share $limits.concurrency) 3 -}}
{{- end -}}
{{- end -}}

{{/* What is scaled. Usage: {{ include "eagle3.scaleTarget" $ | nindent 4 }} */}}
{{- define "eagle3.scaleTarget" -}}
{{- if include "eagle3.spansNodes" . -}}
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
{{- else -}}
apiVersion: apps/v1
kind: Deployment
{{- end }}
name: {{ include "eagle3.fullname" . }}
{{- end -}}

{{/*
How fast replicas come and go. Up: the lowest wish of one cold start counts, and the number at most doubles in one, since
nothing asked for earlier has answered yet; a burst shorter than a cold start starts nothing, as it would be over before
a replica was there. Down: the highest wish of a longer time counts, and few go at a time.
Usage: {{ include "eagle3.scalingBehavior" $ | nindent 6 }}
*/}}
{{- define "eagle3.scalingBehavior" -}}
{{- $scaling := .Values.autoscaling -}}
scaleUp:
  stabilizationWindowSeconds: {{ int $scaling.coldStartSeconds }}
  selectPolicy: Max
  policies:
    - type: Percent
      value: 100
      periodSeconds: {{ int $scaling.coldStartSeconds }}
scaleDown:
  stabilizationWindowSeconds: {{ include "eagle3.downWindow" . }}
  selectPolicy: Max
  policies:
    - type: Pods
      value: {{ int $scaling.scaleDown.pods }}
      periodSeconds: {{ int $scaling.scaleDown.periodSeconds }}
{{- end -}}
