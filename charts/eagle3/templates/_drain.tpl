{{/*
Seconds of grace of a component's pods. What must fit: the preStop sleep, running requests (config.limits.drain_s), then
the runtime's own 3 s for the last metrics and responses and 20 s for the engine. Spot nodes are gone 120 s after their
notice. Usage: {{ include "eagle3.gracePeriod" $scope }}
*/}}
{{- define "eagle3.gracePeriod" -}}
{{- $drain := .root.Values.drain -}}
{{- $limits := (include "eagle3.settings" . | fromJson).limits -}}
{{- $sleep := $drain.preStopSleepSeconds -}}
{{- $flush := 3 -}}
{{- $stop := 20 -}}
{{- $most := 110 -}}
{{- $needed := addf $sleep $limits.drain_s $flush $stop -}}
{{- $grace := add 5 (ceil $needed | int) -}}
{{- if and $drain.spot (gt $grace $most) -}}{{- $grace = $most -}}{{- end -}}
{{- if not (kindIs "invalid" $drain.terminationGracePeriodSeconds) -}}
{{- $grace = int $drain.terminationGracePeriodSeconds -}}
{{- if and $drain.spot (gt $grace $most) -}}
{{- fail (printf "drain.terminationGracePeriodSeconds is %d s, but a spot node is gone 120 s after its notice (drain.spot is true); allowed: at most %d s; lower it, or set drain.spot to false and keep the pods off spot nodes" $grace $most) -}}
{{- end -}}
{{- end -}}
{{- if ge $needed (float64 $grace) -}}
{{- $room := subf (float64 $grace) $sleep $flush $stop -}}
{{- $remedy := "lower drain.preStopSleepSeconds and config.limits.drain_s" -}}
{{- if gt $room 0.0 -}}{{- $remedy = printf "lower config.limits.drain_s below %v" $room -}}{{- end -}}
{{- if not $drain.spot -}}{{- $remedy = printf "%s or raise drain.terminationGracePeriodSeconds above %v" $remedy $needed -}}{{- end -}}
{{- fail (printf "the drain does not fit: drain.preStopSleepSeconds %v + config.limits.drain_s %v + flush %d + engine stop %d = %v s, and the grace of the pod is %d s%s; allowed: a sum below the grace; %s" $sleep $limits.drain_s $flush $stop $needed $grace (ternary " (the most on spot nodes)" "" (and $drain.spot (eq $grace $most))) $remedy) -}}
{{- end -}}
{{- $grace -}}
{{- end -}}
