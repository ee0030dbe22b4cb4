"""The structure of Kubernetes objects as data, and what follows from structure alone."""
