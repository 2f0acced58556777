"""An EKS cluster, its nodes and rights, and what installs software into it."""
