"""The data plane: connections of clients and to the server, and the exchanges between them."""
