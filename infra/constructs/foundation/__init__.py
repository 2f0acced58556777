"""Network, keys, buckets, repositories and records that every stack stands on."""
