{{/* Egress to the cluster's DNS, the node-local cache among it; a list of one rule. Usage: {{ include "eagle3.dnsRule" $ | nindent 4 }} */}}
{{- define "eagle3.dnsRule" -}}
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
  to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: kube-system
    - ipBlock:
        cidr: 169.254.20.10/32
{{- end -}}

{{/* Port of the CloudWatch agent, out of its address. Usage: {{ include "eagle3.agentPort" $settings }} */}}
{{- define "eagle3.agentPort" -}}
{{- $port := regexFind ":[0-9]+$" (.metrics.agent_endpoint | default "" | trimSuffix "/") -}}
{{- $port | default ":25888" | trimPrefix ":" -}}
{{- end -}}

{{/* Selects the pods of the stable version, with those of further nodes of a replica. Usage: {{ include "eagle3.groupSelector" $ | nindent 4 }} */}}
{{- define "eagle3.groupSelector" -}}
matchLabels:
{{- $labels := include "eagle3.selectorLabels" (dict "root" $ "component" "server") | fromYaml -}}
{{- if include "eagle3.spansNodes" . }}
  {{- unset $labels "app.kubernetes.io/component" | toYaml | nindent 2 }}
matchExpressions:
  - key: app.kubernetes.io/component
    operator: In
    values: [server, worker]
{{- else }}
  {{- toYaml $labels | nindent 2 }}
{{- end -}}
{{- end -}}
