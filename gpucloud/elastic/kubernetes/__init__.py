"""Nodes for Kubernetes: cluster-autoscaler decides how many, and asks for them in a protocol of its own."""
