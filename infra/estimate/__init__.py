"""What a stack costs a month, before it is deployed: quantities from the settings, prices from a dated table."""
