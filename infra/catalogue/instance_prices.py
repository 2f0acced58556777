"""Prices of instances by the hour: EC2 on demand, spot and under Savings Plans, and SageMaker's endpoints.

Rows only; `infra/catalogue/prices.py` looks them up. SageMaker's p4d and p5 are missing on purpose: the only public
figures that could be found are older than the price cut of June 2025. Rates of Savings Plans are those of a standard
reservation without payment in advance, which an EC2 Instance Savings Plan shares; Compute Savings Plans cost more and
SageMaker's have no public table, so `eagle3 cost --live` asks for both.
"""

from __future__ import annotations

from infra.catalogue.price import Source

KARPENTER = Source(name="on-demand price table of Karpenter's AWS provider 1.14.1 (AWS Price List)", date="2026-07-20")
SKYPILOT = Source(name="SkyPilot catalog v8 for AWS (AWS Price List, DescribeSpotPriceHistory)", date="2026-11-30")
FMBENCH = Source(name="pricing.yml of aws-samples/foundation-model-benchmarking-tool 2.1", date="2025-01-26")
RESERVED_1Y = Source(
    name="instances.vantage.sh by way of tsaol/aws-gpu: standard reservation, 1 year", date="2025-11-30"
)
RESERVED_3Y = Source(
    name="instances.vantage.sh, read for a public comparison of GPU clouds: standard reservation, 3 years",
    date="2026-09-17",
)

US_EAST_1_HOURS: dict[str, float] = {
    "p4d.24xlarge": 21.957642,
    "p4de.24xlarge": 27.44705,
    "p5.4xlarge": 6.88,
    "p5.48xlarge": 55.04,
    "g5.xlarge": 1.006,
    "g5.2xlarge": 1.212,
    "g5.4xlarge": 1.624,
    "g5.8xlarge": 2.448,
    "g5.12xlarge": 5.672,
    "g5.16xlarge": 4.096,
    "g5.24xlarge": 8.144,
    "g5.48xlarge": 16.288,
    "g6.xlarge": 0.8048,
    "g6.2xlarge": 0.9776,
    "g6.4xlarge": 1.3232,
    "g6.8xlarge": 2.0144,
    "g6.12xlarge": 4.6016,
    "g6.16xlarge": 3.3968,
    "g6.24xlarge": 6.6752,
    "g6.48xlarge": 13.3504,
    "g6e.xlarge": 1.861,
    "g6e.2xlarge": 2.24208,
    "g6e.4xlarge": 3.00424,
    "g6e.8xlarge": 4.52856,
    "g6e.12xlarge": 10.49264,
    "g6e.16xlarge": 7.57719,
    "g6e.24xlarge": 15.06559,
    "g6e.48xlarge": 30.13118,
    "m5.large": 0.096,
    "m6a.large": 0.0864,
    "m6i.large": 0.096,
    "m6i.xlarge": 0.192,
    "m7g.large": 0.0816,
    "m7i-flex.large": 0.09576,
    "m7i.large": 0.1008,
    "m7i.xlarge": 0.2016,
    "t3.medium": 0.0416,
    "t3.large": 0.0832,
}

# type: region: (on demand, spot)
A100_HOURS: dict[str, dict[str, tuple[float, float | None]]] = {
    "p4d.24xlarge": {
        "ap-northeast-1": (30.09784, 11.705),
        "ap-northeast-2": (30.41028, 12.1201),
        "ap-south-1": (26.3444, None),
        "ap-southeast-2": (28.54493, 10.9579),
        "ca-central-1": (25.25174, None),
        "eu-central-1": (27.43298, 8.9749),
        "eu-west-1": (23.71569, 11.548),
        "us-east-1": (21.957642, 12.4991),
        "us-east-2": (21.95764, 7.66585),
        "us-west-2": (21.95764, 9.53),
    },
    "p4de.24xlarge": {
        "ap-northeast-1": (37.6223, 22.6096),
        "ap-southeast-1": (32.93646, None),
        "eu-central-1": (34.29122, 34.2912),
        "us-east-1": (27.44705, 10.59275),
        "us-west-2": (27.44705, 13.2897),
    },
}

# SageMaker hosting, us-east-1.
ENDPOINT_HOURS: dict[str, float] = {
    "ml.g5.xlarge": 1.4084,
    "ml.g5.2xlarge": 1.515,
    "ml.g5.4xlarge": 2.03,
    "ml.g5.8xlarge": 3.06,
    "ml.g5.12xlarge": 7.09,
    "ml.g5.24xlarge": 10.18,
    "ml.g5.48xlarge": 20.36,
    "ml.g6.2xlarge": 1.222,
    "ml.g6.12xlarge": 5.752,
    "ml.g6.16xlarge": 4.246,
    "ml.g6.24xlarge": 8.344,
    "ml.g6.48xlarge": 16.688,
}

# type: region: dollars an hour
PLAN_1Y_HOURS: dict[str, dict[str, float]] = {
    "p4d.24xlarge": {
        "ap-northeast-1": 19.579678,
        "ap-northeast-2": 19.280046,
        "ap-south-1": 17.02575,
        "ap-southeast-2": 18.097419,
        "ca-central-1": 16.009544,
        "eu-central-1": 17.392445,
        "eu-west-1": 15.08188,
        "us-east-1": 13.921094,
        "us-east-2": 13.921092,
        "us-west-2": 13.921092,
    },
    "p4de.24xlarge": {
        "ap-northeast-1": 24.474597,
        "ap-southeast-1": 20.881639,
        "eu-central-1": 21.740553,
        "us-east-1": 17.401365,
        "us-west-2": 17.401365,
    },
    "g5.xlarge": {"us-east-1": 0.63378},
    "g5.12xlarge": {"us-east-1": 3.57336},
    "g6.xlarge": {"us-east-1": 0.52392},
    "g6e.xlarge": {"us-east-1": 1.17243},
}

PLAN_3Y_HOURS: dict[str, dict[str, float]] = {
    "p4d.24xlarge": {"us-east-1": 9.374},
    "p5.48xlarge": {"us-east-1": 23.777},
    "g5.xlarge": {"us-east-1": 0.435},
    "g5.12xlarge": {"us-east-1": 2.450},
    "g6.xlarge": {"us-east-1": 0.369},
    "g6e.xlarge": {"us-east-1": 0.804},
}
