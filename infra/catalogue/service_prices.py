"""Prices of everything that is no instance: control plane, network, keys, storage, metrics, logs, edge.

Rows only; `infra/catalogue/prices.py` looks them up. First tiers only, without free allowances: an allowance belongs
to the account, not to a stack. What has no row has no public source that could be read: the delivery of flow logs to
S3, ingestion into log groups of the class Infrequent Access, data through SageMaker endpoints (but in eu-west-1).
"""

from __future__ import annotations

from infra.catalogue.price import EVERYWHERE, Source

EKS_PAGE = Source(name="AWS pricing page and announcement: Amazon EKS", date="2026-11-30")
VPC_PAGE = Source(name="AWS pricing pages: Amazon VPC and AWS PrivateLink", date="2026-11-30")
KMS_PAGE = Source(name="AWS pricing page: AWS Key Management Service", date="2026-11-30")
VPC_LIST = Source(name="AWS Price List of Amazon VPC in us-east-1, as public notes quote it", date="2025-10-28")
INFRACOST = Source(name="results of Infracost's tests (AWS Price List, us-east-1)", date="2024-07-01")
INFRACOST_TRANSFER = Source(name="results of Infracost's tests (AWS Price List, data transfer)", date="2024-09-25")
SSH_HELPER = Source(name="sample bill of aws-samples/sagemaker-ssh-helper", date="2023-12-31")

# item, region, unit, dollars, source
SERVICES: tuple[tuple[str, str, str, float, Source], ...] = (
    ("eks-cluster", EVERYWHERE, "hour", 0.10, EKS_PAGE),
    ("eks-cluster-extended-support", EVERYWHERE, "hour", 0.60, EKS_PAGE),
    ("nat-gateway", "us-east-1", "hour", 0.045, VPC_PAGE),
    ("nat-gateway", "us-east-2", "hour", 0.045, VPC_PAGE),
    ("nat-gateway", "us-west-2", "hour", 0.045, VPC_PAGE),
    ("nat-gateway-data", "us-east-1", "GB", 0.045, VPC_PAGE),
    ("nat-gateway-data", "us-east-2", "GB", 0.045, VPC_PAGE),
    ("nat-gateway-data", "us-west-2", "GB", 0.045, VPC_PAGE),
    ("interface-endpoint-zone", "us-east-1", "hour", 0.01, VPC_PAGE),
    ("interface-endpoint-data", EVERYWHERE, "GB", 0.01, VPC_PAGE),
    ("public-ipv4", "us-east-1", "hour", 0.005, VPC_LIST),
    ("cross-zone-data", EVERYWHERE, "GB", 0.01, INFRACOST_TRANSFER),
    ("kms-key", EVERYWHERE, "month", 1.00, KMS_PAGE),
    ("kms-requests", EVERYWHERE, "10,000 requests", 0.03, KMS_PAGE),
    ("ebs-gp3", "us-east-1", "GB-month", 0.08, INFRACOST),
    ("s3-storage", "us-east-1", "GB-month", 0.023, INFRACOST),
    ("ecr-storage", "us-east-1", "GB-month", 0.10, INFRACOST),
    ("sagemaker-volume", "eu-west-1", "GB-month", 0.154, SSH_HELPER),
    ("sagemaker-data", "eu-west-1", "GB", 0.016, SSH_HELPER),
    ("cloudwatch-alarm-metric", "us-east-1", "month", 0.10, INFRACOST),
    ("cloudwatch-alarm-metric-fast", "us-east-1", "month", 0.30, INFRACOST),
    ("cloudwatch-dashboard", "us-east-1", "month", 3.00, INFRACOST),
    ("cloudwatch-metric", "us-east-1", "month", 0.30, INFRACOST),
    ("log-ingestion", "us-east-1", "GB", 0.50, INFRACOST),
    ("log-storage", "us-east-1", "GB-month", 0.03, INFRACOST),
    ("cloudtrail-data-events", "us-east-1", "100,000 events", 0.10, INFRACOST),
    ("cloudtrail-second-copy", "us-east-1", "100,000 events", 2.00, INFRACOST),
    ("codebuild-small", "us-east-1", "minute", 0.005, INFRACOST),
    ("sqs-requests", "us-east-1", "1,000,000 requests", 0.40, INFRACOST),
    ("load-balancer", "us-east-1", "hour", 0.0225, INFRACOST),
    ("load-balancer-capacity", "us-east-1", "hour", 0.008, INFRACOST),
    # Served from the edge, and billed where the readers are: North America and Europe.
    ("cloudfront-data", EVERYWHERE, "GB", 0.085, INFRACOST),
    ("cloudfront-requests", EVERYWHERE, "10,000 requests", 0.01, INFRACOST),
    ("firewall", EVERYWHERE, "month", 5.00, INFRACOST),
    ("firewall-rule", EVERYWHERE, "month", 1.00, INFRACOST),
    ("firewall-requests", EVERYWHERE, "1,000,000 requests", 0.60, INFRACOST),
    ("internet-data", "us-east-1", "GB", 0.09, INFRACOST_TRANSFER),
    ("internet-data", "us-east-2", "GB", 0.09, INFRACOST_TRANSFER),
    ("internet-data", "us-west-2", "GB", 0.09, INFRACOST_TRANSFER),
    ("internet-data", "ca-central-1", "GB", 0.09, INFRACOST_TRANSFER),
    ("internet-data", "eu-central-1", "GB", 0.09, INFRACOST_TRANSFER),
    ("internet-data", "eu-west-1", "GB", 0.09, INFRACOST_TRANSFER),
    ("internet-data", "ap-northeast-1", "GB", 0.114, INFRACOST_TRANSFER),
    ("internet-data", "ap-northeast-2", "GB", 0.126, INFRACOST_TRANSFER),
    ("internet-data", "ap-southeast-1", "GB", 0.12, INFRACOST_TRANSFER),
    ("internet-data", "ap-southeast-2", "GB", 0.114, INFRACOST_TRANSFER),
    ("internet-data", "ap-south-1", "GB", 0.1093, INFRACOST_TRANSFER),
)
