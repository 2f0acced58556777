{{/*
The pod template of everything that serves.

Usage: template: {{ include "eagle3.pod" (dict "root" $ "component" "server") | nindent 4 }}
Further keys of the argument: `image` and `config` (see _helpers.tpl); `args` (the server's arguments), `env` (a list of
EnvVar), `probes` (false: none, for pods that do not answer requests), `labels` (a dict).
The component needs its own ConfigMap: {{ include "eagle3.configMap" ... }} with the same argument.
*/}}
{{- define "eagle3.pod" -}}
{{- $values := .root.Values -}}
{{- $settings := include "eagle3.settings" . | fromJson -}}
{{- $gpus := include "eagle3.gpuCount" . | int -}}
{{- $shared := include "eagle3.sharedMemoryMiB" . | int -}}
{{- include "eagle3.checkRemoved" .root -}}
{{- include "eagle3.checkEnvironment" .root -}}
{{- include "eagle3.checkModelCache" .root -}}
{{- include "eagle3.checkLabels" .root -}}
metadata:
  annotations:
    checksum/config: {{ include "eagle3.config" . | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "eagle3.selectorLabels" . | nindent 4 }}
    app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
    app.kubernetes.io/part-of: eagle3
    {{- with merge (dict) (.labels | default dict) $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  serviceAccountName: {{ include "eagle3.serviceAccountName" .root }}
  automountServiceAccountToken: {{ $values.serviceAccount.automountToken }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "eagle3.gracePeriod" . }}
  securityContext:
    {{- include "eagle3.podSecurity" .root | nindent 4 }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $values.schedulerName }}
  schedulerName: {{ . }}
  {{- end }}
  {{- with include "eagle3.placement" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with include "eagle3.spread" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- if include "eagle3.copiesModel" .root }}
  initContainers:
    {{- include "eagle3.modelCopy" .root | nindent 4 }}
  {{- end }}
  containers:
    - name: server
      image: {{ include "eagle3.image" . | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        {{- toYaml (.args | default (list "eagle3" "serve" "--config" "/etc/eagle3/config.yaml")) | nindent 8 }}
      env:
        - name: HOME
          value: /home/eagle3
        {{- if $gpus }}
        # Kernels compiled at run time would go beside the cache folder, where nothing can be written.
        - name: TRITON_CACHE_DIR
          value: /home/eagle3/.cache/triton
        - name: CUDA_CACHE_PATH
          value: /home/eagle3/.cache/nv
        {{- end }}
        {{- with concat (.env | default list) $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: http
          containerPort: {{ int $settings.serving.port }}
          protocol: TCP
      {{- if not (eq (toString .probes) "false") }}
      {{- include "eagle3.probes" . | nindent 6 }}
      {{- end }}
      {{- if gt (int $values.drain.preStopSleepSeconds) 0 }}
      lifecycle:
        preStop:
          sleep:
            seconds: {{ int $values.drain.preStopSleepSeconds }}
      {{- end }}
      resources:
        {{- include "eagle3.resources" . | nindent 8 }}
      securityContext:
        {{- include "eagle3.containerSecurity" .root | nindent 8 }}
      terminationMessagePolicy: FallbackToLogsOnError
      volumeMounts:
        - name: config
          mountPath: /etc/eagle3/config.yaml
          subPath: config.yaml
          readOnly: true
        - name: tmp
          mountPath: /tmp
        - name: cache
          mountPath: /home/eagle3/.cache
        {{- if $shared }}
        - name: shm
          mountPath: /dev/shm
        {{- end }}
        {{- if $values.apiKeys.existingSecret }}
        - name: api-keys
          mountPath: /etc/eagle3/api-keys
          readOnly: true
        {{- end }}
        {{- with include "eagle3.modelMount" (dict "root" .root "readOnly" true) }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "eagle3.componentName" . }}
        defaultMode: 0444
    - name: tmp
      emptyDir:
        sizeLimit: 1Gi
    - name: cache
      emptyDir:
        sizeLimit: {{ include "eagle3.scratchGiB" . | int | add -1 }}Gi
    {{- if $shared }}
    - name: shm
      emptyDir:
        medium: Memory
        sizeLimit: {{ $shared }}Mi
    {{- end }}
    {{- with $values.apiKeys.existingSecret }}
    - name: api-keys
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with include "eagle3.modelVolume" . }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with $values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/*
Startup, readiness and liveness. Loading may take config.engine.start_timeout_s, after which the server itself gives up
and says why; the startup probe waits one period longer, and liveness begins after it.
Usage: {{ include "eagle3.probes" $scope | nindent 6 }}
*/}}
{{- define "eagle3.probes" -}}
{{- $probes := .root.Values.probes -}}
{{- $timeout := (include "eagle3.settings" . | fromJson).engine.start_timeout_s -}}
startupProbe:
  httpGet:
    path: /ready
    port: http
  periodSeconds: {{ int $probes.startup.periodSeconds }}
  timeoutSeconds: {{ int $probes.startup.timeoutSeconds }}
  failureThreshold: {{ divf $timeout $probes.startup.periodSeconds | ceil | int | add 1 }}
readinessProbe:
  httpGet:
    path: /ready
    port: http
  periodSeconds: {{ int $probes.readiness.periodSeconds }}
  timeoutSeconds: {{ int $probes.readiness.timeoutSeconds }}
  failureThreshold: {{ int $probes.readiness.failureThreshold }}
livenessProbe:
  httpGet:
    path: /health
    port: http
  periodSeconds: {{ int $probes.liveness.periodSeconds }}
  timeoutSeconds: {{ int $probes.liveness.timeoutSeconds }}
  failureThreshold: {{ int $probes.liveness.failureThreshold }}
{{- end -}}

{{/* Where pods may run: selectors, tolerations and affinity; with nodeOnly true, without the affinity to other pods. Usage: {{ include "eagle3.placement" $scope | nindent 2 }} */}}
{{- define "eagle3.placement" -}}
{{- $values := .root.Values -}}
{{- $tolerations := $values.tolerations -}}
{{- $affinity := ternary (pick $values.affinity "nodeAffinity") $values.affinity (eq (toString .nodeOnly) "true") -}}
{{- if include "eagle3.gpuCount" . | int -}}
{{- $tolerations = concat $tolerations $values.gpus.tolerations | uniq -}}
{{- end -}}
{{- with $values.nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with $tolerations -}}
tolerations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with $affinity -}}
affinity:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- end -}}

{{/* How pods of a component spread. Usage: {{ include "eagle3.spread" $scope | nindent 2 }} */}}
{{- define "eagle3.spread" -}}
{{- $values := .root.Values -}}
{{- if $values.topologySpread.enabled -}}
topologySpreadConstraints:
  - topologyKey: topology.kubernetes.io/zone
    maxSkew: {{ int $values.topologySpread.zoneMaxSkew }}
    whenUnsatisfiable: {{ $values.topologySpread.zoneWhenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "eagle3.selectorLabels" . | nindent 8 }}
  - topologyKey: kubernetes.io/hostname
    maxSkew: {{ int $values.topologySpread.nodeMaxSkew }}
    whenUnsatisfiable: {{ $values.topologySpread.nodeWhenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "eagle3.selectorLabels" . | nindent 8 }}
{{- end -}}
{{- end -}}

{{/* Security context of a pod, as the `restricted` standard asks. Usage: {{ include "eagle3.podSecurity" $ | nindent 4 }} */}}
{{- define "eagle3.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ int64 .Values.podSecurity.runAsUser }}
runAsGroup: {{ int64 .Values.podSecurity.runAsGroup }}
fsGroup: {{ int64 .Values.podSecurity.fsGroup }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Security context of a container. Usage: {{ include "eagle3.containerSecurity" $ | nindent 8 }} */}}
{{- define "eagle3.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/*
Seconds in which a rollout must make progress: loading, and ten minutes for a node, the image and a copy of the weights.
Usage: {{ include "eagle3.progressDeadline" $scope }}
*/}}
{{- define "eagle3.progressDeadline" -}}
{{- $timeout := (include "eagle3.settings" . | fromJson).engine.start_timeout_s -}}
{{- add 600 (ceil $timeout | int) (int .root.Values.minReadySeconds) -}}
{{- end -}}
