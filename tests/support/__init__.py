"""Fixtures, fakes and helpers of tests of several folders."""
