"""Tests of workers, their parent and the link between them."""
