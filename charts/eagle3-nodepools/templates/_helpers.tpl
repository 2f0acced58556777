{{/*
A pool with what it leaves out taken from poolDefaults. An explicit null or empty list of the pool stays.
Usage: {{ $pool := include "eagle3-nodepools.pool" (dict "pool" $item "root" $) | fromJson }}
*/}}
{{- define "eagle3-nodepools.pool" -}}
{{- $pool := dict "zones" .root.Values.zones "subnet_ids" .root.Values.subnetIds -}}
{{- range $key, $value := .root.Values.poolDefaults -}}
{{- $_ := set $pool $key $value -}}
{{- end -}}
{{- range $key, $value := .pool -}}
{{- $_ := set $pool $key $value -}}
{{- end -}}
{{- if $pool.one_zone -}}
{{- if and $pool.zones (not (has $pool.one_zone $pool.zones)) -}}
{{- fail (printf "pool %s: one_zone must be one of its zones (%s); got %s" $pool.name (join ", " $pool.zones) $pool.one_zone) -}}
{{- end -}}
{{- $_ := set $pool "zones" (list $pool.one_zone) -}}
{{- end -}}
{{- toJson $pool -}}
{{- end -}}

{{/*
Refuses what would not launch, would cost without bound, or would never drain. Types and keys are the schema's matter.
Usage: {{ include "eagle3-nodepools.check" $ }}
*/}}
{{- define "eagle3-nodepools.check" -}}
{{- $values := .Values -}}
{{- if not $values.pools -}}
{{- fail "pools is empty; name one node pool at least, such as pools[0].name=gpu with limits; `python -m infra.kubernetes.nodepool_values` prints values made from the stacks' settings" -}}
{{- end -}}
{{- if and $values.role $values.instanceProfile -}}
{{- fail (printf "role (%s) and instanceProfile (%s) are both given; nodes run as one of them: remove the other" $values.role $values.instanceProfile) -}}
{{- end -}}
{{- if not (or $values.role $values.instanceProfile) -}}
{{- fail "neither role nor instanceProfile is given; set role to the nodes' IAM role, or instanceProfile where the VPC has no NAT" -}}
{{- end -}}
{{- if not $values.securityGroupIds -}}
{{- fail "securityGroupIds is empty; give the id of the cluster's node security group" -}}
{{- end -}}
{{- range $key, $_ := $values.tags -}}
{{- if or (contains "karpenter" $key) (hasPrefix "kubernetes.io/cluster" $key) (hasPrefix "eks:" $key) -}}
{{- fail (printf "tags: Karpenter and EKS set %s themselves; take another tag" $key) -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range $item := $values.pools -}}
{{- $pool := include "eagle3-nodepools.pool" (dict "pool" $item "root" $) | fromJson -}}
{{- if has $pool.name $names -}}
{{- fail (printf "pool %s stands twice; names of pools must differ: rename one" $pool.name) -}}
{{- end -}}
{{- $names = append $names $pool.name -}}
{{- include "eagle3-nodepools.checkSettings" $pool -}}
{{- include "eagle3-nodepools.checkPlaces" $pool -}}
{{- end -}}
{{- end -}}

{{/*
Refuses a pool whose settings the stacks would refuse as well.
Usage: {{ include "eagle3-nodepools.checkSettings" $pool }}
*/}}
{{- define "eagle3-nodepools.checkSettings" -}}
{{- range $key := list "budget_share" "max_nodes" "zones_confirmed" -}}
{{- if hasKey $ $key -}}
{{- fail (printf "pool %s: %s is a setting of the CDKTF stacks, which know prices and zones; here give limits.gpus, limits.vcpus and zones (`python -m infra.kubernetes.nodepool_values` prints them)" $.name $key) -}}
{{- end -}}
{{- end -}}
{{- if not (regexMatch "^(al2023@v20[0-9]{6}|bottlerocket@v?[0-9]+\\.[0-9]+\\.[0-9]+)$" .ami_alias) -}}
{{- fail (printf "pool %s: ami_alias is pinned, al2023@vYYYYMMDD or bottlerocket@x.y.z; got %s; @latest would replace every node on the day of a new image" .name .ami_alias) -}}
{{- end -}}
{{- if kindIs "invalid" .termination_grace_s -}}
{{- fail (printf "pool %s: termination_grace_s is null, so the drain of an expired node could last for ever; give 120 to 86400 seconds" .name) -}}
{{- end -}}
{{- if lt (int .disk_gib) 200 -}}
{{- fail (printf "pool %s: disk_gib must be 200 at least, since images and weights lie on it; got %d" .name (int .disk_gib)) -}}
{{- end -}}
{{- if ne (has "reserved" .capacity_types) (not (empty .reservations)) -}}
{{- fail (printf "pool %s: capacity type 'reserved' and reservations go together; give both or neither" .name) -}}
{{- end -}}
{{- range $key, $_ := .labels -}}
{{- if regexMatch "^(karpenter\\.sh/|karpenter\\.k8s\\.aws/|kubernetes\\.io/hostname)" $key -}}
{{- fail (printf "pool %s: Karpenter sets the label %s itself; take another" $.name $key) -}}
{{- end -}}
{{- end -}}
{{- if not .limits -}}
{{- fail (printf "pool %s has no limits, so it may grow without bound; give limits.gpus and limits.vcpus" .name) -}}
{{- end -}}
{{- if not .narrow_reason -}}
{{- if lt (len .instance_types) 2 -}}
{{- fail (printf "pool %s: one instance type (%s) leaves no second choice when its capacity is gone; name two, or say in narrow_reason why one is enough" .name (join ", " .instance_types)) -}}
{{- end -}}
{{- if not (or (has "reserved" .capacity_types) (and (has "spot" .capacity_types) (has "on-demand" .capacity_types))) -}}
{{- fail (printf "pool %s: spot with an on-demand fallback needs both in one pool; got %s; name both, or say in narrow_reason why one is enough" .name (join ", " .capacity_types)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Refuses a pool without a place to start, or with a single one and no reason.
Usage: {{ include "eagle3-nodepools.checkPlaces" $pool }}
*/}}
{{- define "eagle3-nodepools.checkPlaces" -}}
{{- if not .zones -}}
{{- fail (printf "pool %s has no zone; set zones to the cluster's zones that offer %s" .name (join ", " .instance_types)) -}}
{{- end -}}
{{- if and (lt (len .zones) 2) (not .narrow_reason) -}}
{{- fail (printf "pool %s: one zone (%s) does not survive its loss; name two, or say in narrow_reason why one is enough" .name (join ", " .zones)) -}}
{{- end -}}
{{- if not .subnet_ids -}}
{{- fail (printf "pool %s has no subnet; set subnetIds to the private subnets of its zones" .name) -}}
{{- end -}}
{{- end -}}

{{/*
One gp3 disk, encrypted.
Usage: {{ include "eagle3-nodepools.disk" (dict "gib" 200 "key" $.Values.kmsKeyArn) | nindent 8 }}
*/}}
{{- define "eagle3-nodepools.disk" -}}
volumeSize: {{ int .gib }}Gi
volumeType: gp3
encrypted: true
{{- with .key }}
kmsKeyID: {{ . | quote }}
{{- end }}
deleteOnTermination: true
{{- end -}}

{{/*
A requirement that a label has one of some values.
Usage: {{ include "eagle3-nodepools.among" (dict "key" "kubernetes.io/os" "values" (list "linux")) | nindent 8 }}
*/}}
{{- define "eagle3-nodepools.among" -}}
- key: {{ .key }}
  operator: In
  values:
    {{- toYaml .values | nindent 4 }}
{{- end -}}
