"""The public edge: CloudFront, its firewall, the load balancer behind it."""
