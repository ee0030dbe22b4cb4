"""Requests to a real kube-apiserver and to the embedded one, to compare their answers."""
