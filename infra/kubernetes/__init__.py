"""What is put into the cluster: manifests, Helm values, and the scripts that install them. Pure functions."""
