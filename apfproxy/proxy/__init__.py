"""The data plane: connections of clients and of origins, and what runs between them."""
