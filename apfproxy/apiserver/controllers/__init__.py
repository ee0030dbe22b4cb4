"""The controllers of the API server, each with the kinds that it watches."""
