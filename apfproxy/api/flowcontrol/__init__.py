"""The group flowcontrol.apiserver.k8s.io, versions v1 and v1beta3."""
