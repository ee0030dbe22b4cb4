"""`apfproxy demo`: what flow control changes, on this machine."""

import click


@click.command()
def demo() -> None:
    """Show what each client gets with and without flow control."""
