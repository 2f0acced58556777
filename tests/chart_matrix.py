"""The combinations of values that tests of whole renderings walk: every feature of the chart eagle3 is in one of them.

Knows no test. Invariant: each combination renders.
"""

from __future__ import annotations

from typing import Any

from chart_doubles import merged, values_file

CUDA: dict[str, Any] = {"config": {"device": "cuda", "dtype": "bfloat16"}}
MODEL: dict[str, Any] = {"config": {"target": "/models/target", "draft": "/models/draft"}, "model": {"weightsGiB": 16}}
VLLM: dict[str, Any] = {"config": {"engine": {"name": "vllm"}}}
S3: dict[str, Any] = {"modelCache": {"source": "s3://models/llama", "region": "us-east-1"}}
SERVER = {"serverAddress": "http://prometheus-operated.monitoring:9090"}
GATEWAY: dict[str, Any] = {"gateway": {"enabled": True, "parentRefs": [{"name": "public", "namespace": "gateways"}]}}


def keda(**values: Any) -> dict[str, Any]:
    """KEDA on a Prometheus query, with more values of `autoscaling`."""
    return {"autoscaling": merged({"kind": "keda", "trigger": "prometheus", "prometheus": SERVER}, values)}


WAKE_PROMETHEUS = {"type": "prometheus", "prometheus": {"query": 'sum(rate(envoy_requests_total{route="eagle3"}[1m]))'}}
WAKE_CLOUDWATCH = {
    "type": "aws-cloudwatch",
    "cloudwatch": {
        "namespace": "AWS/ApplicationELB",
        "metricName": "RequestCount",
        "dimensions": {"LoadBalancer": "app/a/1", "TargetGroup": "targetgroup/b/2"},
    },
}

MATRIX: dict[str, dict[str, Any]] = {
    "default": {},
    "values-cpu": values_file("values-cpu.yaml"),
    "values-g5": values_file("values-g5.yaml"),
    "values-g5 native": merged(values_file("values-g5.yaml"), {"config": {"engine": {"name": "native"}}}),
    "values-p4d": values_file("values-p4d.yaml"),
    "native on one GPU": merged(CUDA, MODEL),
    "TP 4": merged(CUDA, MODEL, VLLM, {"config": {"engine": {"tensor_parallel": 4}}}),
    "sglang TP 2": merged(CUDA, MODEL, {"config": {"engine": {"name": "sglang", "tensor_parallel": 2}}}),
    "weights on NVMe": merged(CUDA, MODEL, S3, {"modelCache": {"kind": "ephemeral"}}),
    "weights on the node": merged(
        CUDA, MODEL, S3, {"modelCache": {"kind": "ephemeral", "ephemeral": {"hostPath": "/mnt/models"}}}
    ),
    "weights on a claim": merged(CUDA, MODEL, S3, {"modelCache": {"kind": "pvc"}}),
    "weights on a claim that exists": merged(
        CUDA, MODEL, {"modelCache": {"kind": "pvc", "pvc": {"existingClaim": "weights"}}}
    ),
    "weights from S3": merged(CUDA, MODEL, S3, {"modelCache": {"kind": "s3"}}),
    "keda prometheus": keda(),
    "keda prometheus with login": keda(
        prometheus={"authentication": {"secret": "prometheus", "modes": ["bearer"], "ca": True}}
    ),
    "keda metrics-api": keda(trigger="metrics-api"),
    "keda cloudwatch": merged(
        {"config": {"metrics": {"emf": "stdout", "dimensions": {"ClusterName": "eagle3"}}}},
        keda(trigger="aws-cloudwatch", cloudwatch={"region": "us-east-1", "tokensPerSecond": 900}),
    ),
    "keda with GPUs": merged(CUDA, MODEL, keda(gpuUtilization={"enabled": True})),
    "scale to zero by prometheus": keda(minReplicas=0, wake=WAKE_PROMETHEUS),
    "scale to zero by cloudwatch": keda(minReplicas=0, wake=WAKE_CLOUDWATCH, cloudwatch={"region": "us-east-1"}),
    "hpa custom": {"autoscaling": {"kind": "hpa"}},
    "hpa external": {"autoscaling": {"kind": "hpa", "hpa": {"metrics": "external"}}},
    "hpa cpu": {"autoscaling": {"kind": "hpa", "hpa": {"metrics": "cpu"}}},
    "canary": merged(GATEWAY, {"canary": {"enabled": True, "weight": 5, "image": {"tag": "0.1.1-cpu"}}}),
    "canary apart": {"canary": {"enabled": True, "weight": 0, "config": {"speculation": {"depth": 3}}}},
    "gateway": GATEWAY,
    "ingress": {
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "hosts": ["api.example.com"],
            "tls": [{"secretName": "api", "hosts": ["api.example.com"]}],
            "annotations": {
                "nginx.ingress.kubernetes.io/proxy-read-timeout": "605",
                "nginx.ingress.kubernetes.io/proxy-buffering": "off",
            },
        }
    },
    "edge target group": {
        "targetGroupBinding": {
            "targetGroupARN": "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/eagle3/0123456789abcdef"
        }
    },
    "leader worker set": merged(
        CUDA,
        MODEL,
        VLLM,
        {
            "config": {"engine": {"tensor_parallel": 16}},
            "leaderWorkerSet": {"enabled": True, "size": 2, "workerCommand": ["vllm", "serve", "/models/target"]},
        },
    ),
    "monitored by service": {
        "monitoring": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": True, "gpuMemoryMiB": 23_028},
            "grafanaDashboard": {"enabled": True},
        }
    },
    "monitored by pod": {"monitoring": {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}},
    "no network policy": {"networkPolicy": {"enabled": False}},
    "network policy with more": {
        "networkPolicy": {
            "ingress": {"namespaces": ["gateways"], "metricsNamespaces": ["monitoring"]},
            "egress": {"aws": True, "awsCidrs": ["10.42.0.0/16"]},
        }
    },
    "api keys": {"apiKeys": {"existingSecret": "eagle3-keys"}},
    "pre-pulled": {"prePull": {"enabled": True}},
    "nothing optional": {
        "pdb": {"enabled": False},
        "tests": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "serviceAccount": {"create": False},
        "topologySpread": {"enabled": False},
    },
    "everything told": {
        "fullnameOverride": "llm",
        "image": {"digest": f"sha256:{'0' * 64}", "pullSecrets": ["registry"]},
        "replicas": 3,
        "pdb": {"minAvailable": 2},
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "search"},
        "priorityClassName": "high",
        "runtimeClassName": "nvidia",
        "schedulerName": "other",
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]
                }
            }
        },
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraEnvFrom": [{"configMapRef": {"name": "more", "optional": True}}],
        "extraVolumes": [{"name": "more", "emptyDir": {"sizeLimit": "1Gi"}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a": "b"}},
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
        "sharedMemory": {"size": "1Gi"},
        "serviceAccount": {"name": "runtime", "annotations": {"a": "b"}},
        "config": {"metrics": {"emf": "agent", "agent_endpoint": "tcp://cloudwatch-agent.amazon-cloudwatch:25888"}},
    },
    "spot": {"drain": {"spot": True}},
}
