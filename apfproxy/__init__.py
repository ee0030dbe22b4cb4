"""A reverse proxy that gives any API server the flow control of kube-apiserver."""

__version__ = "0.1.0"
