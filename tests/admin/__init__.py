"""Tests of metrics, dumps and health pages."""
