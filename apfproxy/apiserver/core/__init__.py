"""Pods and namespaces: their structure, defaults and rules."""
