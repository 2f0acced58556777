{{/* Where the weights lie and how they come there. */}}

{{/* Refuses a model cache that nothing fills or that cannot be mounted. Usage: {{ include "eagle3.checkModelCache" $ }} */}}
{{- define "eagle3.checkModelCache" -}}
{{- $cache := .Values.modelCache -}}
{{- if and (has $cache.kind (list "ephemeral" "s3")) (not $cache.source) -}}
{{- fail (printf "modelCache.kind is %s and modelCache.source is empty, so no weights would come; set modelCache.source to s3://bucket/prefix, or kind to none or pvc" $cache.kind) -}}
{{- end -}}
{{- if and (eq $cache.kind "none") $cache.source -}}
{{- fail (printf "modelCache.source is %s and modelCache.kind is none, so nothing would read it; set modelCache.kind to ephemeral, pvc or s3" $cache.source) -}}
{{- end -}}
{{- $pods := ternary 2 (int .Values.replicas) (ne "" (include "eagle3.isScaled" .)) -}}
{{- if and (eq $cache.kind "pvc") (not $cache.pvc.existingClaim) (eq $cache.pvc.accessMode "ReadWriteOnce") (or (gt $pods 1) (ne (toString .Values.rollout.maxSurge) "0")) -}}
{{- fail (printf "modelCache.pvc.accessMode is ReadWriteOnce, which pods of one node share at most, with replicas %d, autoscaling.kind %s and rollout.maxSurge %v; allowed: one replica, nothing that scales it, and maxSurge 0 (with maxUnavailable 1); set them, or accessMode to ReadWriteMany" (int .Values.replicas) (dig "kind" "none" .Values.autoscaling) .Values.rollout.maxSurge) -}}
{{- end -}}
{{- if and (eq $cache.kind "ephemeral") $cache.ephemeral.hostPath $cache.ephemeral.sizeLimit -}}
{{- fail "modelCache.ephemeral.sizeLimit limits an emptyDir, and modelCache.ephemeral.hostPath takes its place; leave one of them out" -}}
{{- end -}}
{{- if and (ne $cache.kind "none") (hasSuffix ":latest" $cache.copy.image) -}}
{{- fail (printf "modelCache.copy.image is %s; latest means something else every day; give the tag of a release or a digest" $cache.copy.image) -}}
{{- end -}}
{{- end -}}

{{/* Whether an init container copies from S3: "true" or "". Usage: {{ if include "eagle3.copiesModel" $ }} */}}
{{- define "eagle3.copiesModel" -}}
{{- if and .Values.modelCache.source (has .Values.modelCache.kind (list "ephemeral" "pvc")) -}}true{{- end -}}
{{- end -}}

{{/* Weights and a tenth, in whole GiB. Usage: {{ include "eagle3.modelCacheSize" (merge (dict "for" "...") $scope) }} */}}
{{- define "eagle3.modelCacheSize" -}}
{{- include "eagle3.weightsGiB" . | float64 | mulf 1.1 | ceil | int -}}Gi
{{- end -}}

{{/* Name of the claim of the model cache; one read from S3 has another name for another source, as a claim cannot change. Usage: {{ include "eagle3.modelClaim" $ }} */}}
{{- define "eagle3.modelClaim" -}}
{{- $cache := .Values.modelCache -}}
{{- if and (eq $cache.kind "pvc") $cache.pvc.existingClaim -}}
{{- $cache.pvc.existingClaim -}}
{{- else if eq $cache.kind "s3" -}}
{{- printf "%s-models-%s" (include "eagle3.fullname" .) (printf "%s %s" $cache.source $cache.region | sha256sum | trunc 8) | trunc 63 -}}
{{- else -}}
{{- printf "%s-models" (include "eagle3.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* The volume of the model cache, a list of at most one. Usage: {{ include "eagle3.modelVolume" $scope | nindent 4 }} */}}
{{- define "eagle3.modelVolume" -}}
{{- $cache := .root.Values.modelCache -}}
{{- if include "eagle3.hasOwnWeights" .root -}}
- name: models
  emptyDir:
    sizeLimit: {{ $cache.ephemeral.sizeLimit | default (include "eagle3.modelCacheSize" (merge (dict "for" "modelCache.ephemeral.sizeLimit") .)) }}
{{- else if eq $cache.kind "ephemeral" -}}
- name: models
  hostPath:
    path: {{ $cache.ephemeral.hostPath | quote }}
    type: Directory
{{- else if has $cache.kind (list "pvc" "s3") -}}
- name: models
  persistentVolumeClaim:
    claimName: {{ include "eagle3.modelClaim" .root }}
{{- end -}}
{{- end -}}

{{/* Where a container mounts the model cache, a list of at most one. Usage: {{ include "eagle3.modelMount" (dict "root" $ "readOnly" true) | nindent 8 }} */}}
{{- define "eagle3.modelMount" -}}
{{- if ne .root.Values.modelCache.kind "none" -}}
- name: models
  mountPath: {{ .root.Values.modelCache.mountPath | quote }}
  readOnly: {{ .readOnly }}
{{- end -}}
{{- end -}}

{{/* The init container that copies the weights, a list of at most one. Credentials come from Pod Identity. Usage: {{ include "eagle3.modelCopy" $ | nindent 4 }} */}}
{{- define "eagle3.modelCopy" -}}
{{- if include "eagle3.copiesModel" . -}}
{{- $cache := .Values.modelCache -}}
- name: models
  image: {{ $cache.copy.image | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [aws]
  args: [s3, sync, --only-show-errors, {{ $cache.source | quote }}, {{ $cache.mountPath | quote }}]
  env:
    - name: HOME
      value: /tmp
    - name: AWS_RETRY_MODE
      value: standard
    - name: AWS_MAX_ATTEMPTS
      value: "10"
    {{- with $cache.region }}
    - name: AWS_REGION
      value: {{ . | quote }}
    {{- end }}
  resources:
    requests:
      cpu: {{ $cache.copy.cpu | quote }}
      memory: {{ $cache.copy.memory | quote }}
    limits:
      memory: {{ $cache.copy.memory | quote }}
  securityContext:
    {{- include "eagle3.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - name: tmp
      mountPath: /tmp
    {{- include "eagle3.modelMount" (dict "root" $ "readOnly" false) | nindent 4 }}
{{- end -}}
{{- end -}}
