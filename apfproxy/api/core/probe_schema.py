"""Structure of probes and of what a container does when it starts and ends."""

from __future__ import annotations

from apfproxy.api.core.structs import INT32, INT64, SIGNALS, STRING, STRINGS, chosen, struct
from apfproxy.api.schema.types import Field, List, Scalar, pointer, required

HTTP_HEADER = struct(
    "HTTPHeader",
    "A header of a probe's request.",
    required("name", STRING, "Name of the header."),
    required("value", STRING, "Its value."),
)

EXEC_ACTION = struct(
    "ExecAction",
    "A command to run in the container; exit status 0 is success.",
    Field("command", STRINGS, "Program and arguments; no shell is involved."),
)

HTTP_GET_ACTION = struct(
    "HTTPGetAction",
    "An HTTP request; a status from 200 to 399 is success.",
    Field("path", STRING, "Path of the request."),
    required("port", Scalar.INT_OR_STRING, "Number of the port, or its name in the container."),
    Field("host", STRING, "Where to connect to; the pod's address unless given."),
    Field("scheme", STRING, "HTTP unless given.", enum=("HTTP", "HTTPS")),
    Field("httpHeaders", List(HTTP_HEADER), "Headers to add."),
)

TCP_SOCKET_ACTION = struct(
    "TCPSocketAction",
    "A TCP connection; that it can be made is success.",
    required("port", Scalar.INT_OR_STRING, "Number of the port, or its name in the container."),
    Field("host", STRING, "Where to connect to; the pod's address unless given."),
)

GRPC_ACTION = struct(
    "GRPCAction",
    "A call of the gRPC health service.",
    required("port", INT32, "Number of the port."),
    Field(
        "service",
        STRING,
        "Service to ask for; the server as a whole unless given.",
        is_pointer=True,
        is_always_written=True,
        default="",
    ),
)

SLEEP_ACTION = struct(
    "SleepAction",
    "A wait.",
    required("seconds", INT64, "How long to wait."),
)

PROBE = struct(
    "Probe",
    "A check that the kubelet repeats on a container.",
    pointer("exec", EXEC_ACTION, "Runs a command."),
    pointer("httpGet", HTTP_GET_ACTION, "Sends an HTTP request."),
    pointer("tcpSocket", TCP_SOCKET_ACTION, "Opens a TCP connection."),
    pointer("grpc", GRPC_ACTION, "Calls the gRPC health service."),
    Field("initialDelaySeconds", INT32, "Seconds between the start and the first check."),
    Field("timeoutSeconds", INT32, "Seconds until a check counts as failed; 1 unless given."),
    Field("periodSeconds", INT32, "Seconds between checks; 10 unless given."),
    Field("successThreshold", INT32, "Successes in a row that end a failure; 1 unless given."),
    Field("failureThreshold", INT32, "Failures in a row that count; 3 unless given."),
    pointer(
        "terminationGracePeriodSeconds", INT64, "Overrides the pod's grace period on a failure."
    ),
)

LIFECYCLE_HANDLER = struct(
    "LifecycleHandler",
    "What to do at one point of a container's life.",
    pointer("exec", EXEC_ACTION, "Runs a command."),
    pointer("httpGet", HTTP_GET_ACTION, "Sends an HTTP request."),
    pointer("tcpSocket", TCP_SOCKET_ACTION, "Not supported any more."),
    pointer("sleep", SLEEP_ACTION, "Waits."),
)

LIFECYCLE = struct(
    "Lifecycle",
    "What to do when a container starts and ends.",
    pointer("postStart", LIFECYCLE_HANDLER, "Right after the start."),
    pointer("preStop", LIFECYCLE_HANDLER, "Before the container is told to end."),
    chosen("stopSignal", SIGNALS, "Signal that tells the container to end.", is_pointer=True),
)
