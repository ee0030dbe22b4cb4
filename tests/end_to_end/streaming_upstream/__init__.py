"""A server that speaks what kube-apiserver and the kubelet speak for streams: exec, logs.

It knows both protocols that kubectl has for them, WebSocket (RFC 6455) and SPDY/3.1, and of the
rest of the API only what kubectl asks on the way.  Every name is the name of a running pod.
"""
