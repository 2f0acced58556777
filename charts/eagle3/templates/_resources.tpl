{{/* What a pod asks for, made from the size of the model and the number of GPUs. Sizes are GiB. */}}

{{/* GPUs of a pod, checked against the config. Usage: {{ include "eagle3.gpuCount" $scope | int }} */}}
{{- define "eagle3.gpuCount" -}}
{{- $settings := include "eagle3.settings" . | fromJson -}}
{{- $shared := int $settings.engine.tensor_parallel -}}
{{- $nodes := include "eagle3.nodeCount" .root | int -}}
{{- $onGpu := hasPrefix "cuda" $settings.device -}}
{{- $count := .root.Values.gpus.count -}}
{{- if kindIs "invalid" $count -}}
{{- $count = ternary (divf $shared $nodes | ceil | int) 0 $onGpu -}}
{{- end -}}
{{- $count = int $count -}}
{{- if and $onGpu (eq $count 0) -}}
{{- fail (printf "config.device is %s and gpus.count is 0; allowed: 1 or more GPUs; leave gpus.count out, or set config.device to cpu" $settings.device) -}}
{{- end -}}
{{- if and (not $onGpu) (gt $count 0) -}}
{{- fail (printf "gpus.count is %d and config.device is %s, so the GPUs would idle; set config.device to cuda, or gpus.count to 0" $count $settings.device) -}}
{{- end -}}
{{- if and (gt $shared 1) (gt $shared (mul $count $nodes)) -}}
{{- fail (printf "config.engine.tensor_parallel is %d, but a replica has %d GPUs (gpus.count %d, nodes %d); allowed: at most as many as there are; set gpus.count to %d or lower config.engine.tensor_parallel" $shared (mul $count $nodes) $count $nodes (divf $shared $nodes | ceil | int)) -}}
{{- end -}}
{{- $count -}}
{{- end -}}

{{/* GiB of the weights; for="..." says in the error what they are needed for. Usage: {{ include "eagle3.weightsGiB" (merge (dict "for" "...") $scope) | float64 }} */}}
{{- define "eagle3.weightsGiB" -}}
{{- $target := (include "eagle3.settings" . | fromJson).target -}}
{{- if not (kindIs "invalid" .root.Values.model.weightsGiB) -}}
{{- .root.Values.model.weightsGiB -}}
{{- else if eq $target "embedded" -}}
0.6
{{- else -}}
{{- fail (printf "config.target is %s, and nothing says how large its weights are, which %s follows from; set model.weightsGiB" $target .for) -}}
{{- end -}}
{{- end -}}

{{/* Whether the weights lie in an emptyDir of the pod: "true" or "". Usage: {{ if include "eagle3.hasOwnWeights" $ }} */}}
{{- define "eagle3.hasOwnWeights" -}}
{{- if and (eq .Values.modelCache.kind "ephemeral") (not .Values.modelCache.ephemeral.hostPath) -}}true{{- end -}}
{{- end -}}

{{/* GiB of /tmp (1) and of caches, which with GPUs hold compiled kernels. Usage: {{ include "eagle3.scratchGiB" $scope | int }} */}}
{{- define "eagle3.scratchGiB" -}}
{{- if include "eagle3.gpuCount" . | int -}}9{{- else -}}2{{- end -}}
{{- end -}}

{{/* MiB of /dev/shm; 0: none of the pod's own. Usage: {{ include "eagle3.sharedMemoryMiB" $scope | int }} */}}
{{- define "eagle3.sharedMemoryMiB" -}}
{{- $size := .root.Values.sharedMemory.size -}}
{{- $gpus := include "eagle3.gpuCount" . | int -}}
{{- if hasSuffix "Gi" $size -}}
{{- trimSuffix "Gi" $size | int | mul 1024 -}}
{{- else if $size -}}
{{- trimSuffix "Mi" $size | int -}}
{{- else -}}
{{- gt $gpus 1 | ternary (mul $gpus 4096) 0 -}}
{{- end -}}
{{- end -}}

{{/*
Resources of the server.
  memory  on CPUs: overhead + weights + cache. With GPUs: overhead + 2 a GPU (a process with its CUDA context) + what
          the loader holds of the weights at a time (a shard of 5 at most) + /dev/shm, which counts as memory
  disk    image + weights and a tenth where they lie in the pod + temporary files
No limit on CPU time: a throttled server misses its latency without saving anything.
Usage: {{ include "eagle3.resources" $scope | nindent 6 }}
*/}}
{{- define "eagle3.resources" -}}
{{- $given := .root.Values.resources -}}
{{- $requests := deepCopy (get $given "requests" | default dict) -}}
{{- $limits := deepCopy (get $given "limits" | default dict) -}}
{{- $gpus := include "eagle3.gpuCount" . | int -}}
{{- if or (not $requests) (not $limits) -}}
{{- $model := .root.Values.model -}}
{{- $weights := include "eagle3.weightsGiB" (merge (dict "for" "the memory and disk of the pod") .) | float64 -}}
{{- $memory := addf $model.overheadGiB $weights $model.cacheGiB -}}
{{- if $gpus -}}
{{- $memory = addf $model.overheadGiB (mul 2 $gpus) (minf $weights 5) -}}
{{- end -}}
{{- $memory = add (mulf $memory 1024 | ceil | int) (include "eagle3.sharedMemoryMiB" . | int) -}}
{{- $image := ternary $model.imageGiB (ternary 20 2 (gt $gpus 0)) (not (kindIs "invalid" $model.imageGiB)) -}}
{{- $disk := addf $image (include "eagle3.scratchGiB" .) -}}
{{- if include "eagle3.hasOwnWeights" .root -}}{{- $disk = addf $disk (mulf $weights 1.1) -}}{{- end -}}
{{- $computed := dict "memory" (printf "%dMi" (int $memory)) "ephemeral-storage" (printf "%dMi" (mulf $disk 1024 | ceil | int)) -}}
{{- if not $limits -}}{{- $limits = deepCopy $computed -}}{{- end -}}
{{- if not $requests -}}
{{- $cpus := ternary $model.cpus (ternary (mul 4 $gpus) 2 (gt $gpus 0)) (not (kindIs "invalid" $model.cpus)) -}}
{{- $requests = merge (dict "cpu" (toString $cpus)) $computed -}}
{{- end -}}
{{- end -}}
{{- if $gpus -}}
{{- include "eagle3.checkGpuMemory" . -}}
{{- $resource := .root.Values.gpus.resource -}}
{{- if not (hasKey $limits $resource) -}}{{- $_ := set $limits $resource (toString $gpus) -}}{{- end -}}
{{- if not (hasKey $requests $resource) -}}{{- $_ := set $requests $resource (get $limits $resource) -}}{{- end -}}
{{- end -}}
{{- toYaml (dict "requests" $requests "limits" $limits) -}}
{{- end -}}

{{/* Refuses a model that the GPUs cannot hold, where gpus.memoryGiB says how large they are. Usage: {{ include "eagle3.checkGpuMemory" $scope }} */}}
{{- define "eagle3.checkGpuMemory" -}}
{{- $each := .root.Values.gpus.memoryGiB -}}
{{- if not (kindIs "invalid" $each) -}}
{{- $nodes := include "eagle3.nodeCount" .root | int -}}
{{- $count := mul $nodes (include "eagle3.gpuCount" . | int) -}}
{{- $weights := include "eagle3.weightsGiB" (merge (dict "for" "what the GPUs must hold") .) | float64 -}}
{{- $needed := addf $weights .root.Values.model.cacheGiB -}}
{{- $usable := mulf $count $each 0.9 -}}
{{- if gt $needed $usable -}}
{{- fail (printf "the model does not fit: weights %v + cache %v = %v GiB, and a replica's GPUs (%d times %v GiB) have %v GiB for it (nine tenths); raise gpus.count with config.engine.tensor_parallel, take larger GPUs, or lower model.cacheGiB" $weights .root.Values.model.cacheGiB $needed $count $each $usable) -}}
{{- end -}}
{{- end -}}
{{- end -}}
