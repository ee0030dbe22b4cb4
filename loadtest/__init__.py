"""Load tests, and what tests share with them: certificates, objects, origins, clients.

Each program is a module that runs from the root of a checkout, such as `python -m loadtest.peers`;
`pip install '.[loadtest]'` installs what they need.
"""
