"""Everything that a diagnosis can look at, in the order in which it is reported."""

from __future__ import annotations

from infra.diagnosis.alarm_state import AlarmCollector
from infra.diagnosis.builds import BuildCollector
from infra.diagnosis.cluster_wiring import WiringCollector
from infra.diagnosis.costs import CostCollector
from infra.diagnosis.endpoint_logs import EndpointLogCollector
from infra.diagnosis.endpoint_state import EndpointCollector
from infra.diagnosis.evidence import Collector
from infra.diagnosis.interruption_queue import QueueCollector
from infra.diagnosis.kubernetes_collectors import COLLECTORS as KUBERNETES_COLLECTORS
from infra.diagnosis.load_balancer import BalancerCollector
from infra.diagnosis.quotas import QuotaCollector
from infra.diagnosis.refused_calls import RefusedCallCollector
from infra.diagnosis.scaling import ScalingCollector
from infra.diagnosis.server_readings import ServerCollector
from infra.diagnosis.spot import SpotCollector

COLLECTORS: tuple[Collector, ...] = (
    AlarmCollector(),
    EndpointCollector(),
    ScalingCollector(),
    EndpointLogCollector(),
    BuildCollector(),
    BalancerCollector(),
    QueueCollector(),
    WiringCollector(),
    SpotCollector(),
    QuotaCollector(),
    RefusedCallCollector(),
    CostCollector(),
    ServerCollector(),
    *KUBERNETES_COLLECTORS,
)
