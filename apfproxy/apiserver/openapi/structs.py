"""The structs that no kind has: answers that are no objects, documents of discovery, and patches.

Sources: the types of meta/v1 that begin with `API`; apimachinery's `version.Info`.
"""

from __future__ import annotations

from apfproxy.apiserver.schema.shared_structs import META, TYPE_META, struct
from apfproxy.apiserver.schema.types import Field, List, Scalar, Struct, pointer, required

PATCH = Struct("Patch", (), META, "A change to an object; its content type says of which sort.")

VERSION_INFO = Struct(
    "Info",
    (
        required("major", Scalar.STRING, "Major version of Kubernetes."),
        required("minor", Scalar.STRING, "Minor version of Kubernetes."),
        Field("emulationMajor", Scalar.STRING, "Major version whose behaviour it has."),
        Field("emulationMinor", Scalar.STRING, "Minor version whose behaviour it has."),
        Field("minCompatibilityMajor", Scalar.STRING, "Oldest version beside which it can run."),
        Field("minCompatibilityMinor", Scalar.STRING, "The same, its minor part."),
        required("gitVersion", Scalar.STRING, "Both, with the version of this server behind."),
        required("gitCommit", Scalar.STRING, "The commit that was built."),
        required("gitTreeState", Scalar.STRING, "Whether it was built with changes."),
        required("buildDate", Scalar.STRING, "When it was built."),
        required("goVersion", Scalar.STRING, "The Go that it was built with; empty for none."),
        required("compiler", Scalar.STRING, "What runs it."),
        required("platform", Scalar.STRING, "System and machine that it runs on."),
    ),
    "io.k8s.apimachinery.pkg.version",
    "What a server is.",
)

VERSION_FOR_DISCOVERY = Struct(
    "GroupVersionForDiscovery",
    (
        required("groupVersion", Scalar.STRING, "Group and version, with a slash between them."),
        required("version", Scalar.STRING, "The version alone."),
    ),
    META,
    "A version of a group.",
)

SERVER_ADDRESS = Struct(
    "ServerAddressByClientCIDR",
    (
        required("clientCIDR", Scalar.STRING, "The clients that this is for."),
        required("serverAddress", Scalar.STRING, "Host and port."),
    ),
    META,
    "Where some clients can reach the server.",
)

API_VERSIONS = Struct(
    "APIVersions",
    (
        *TYPE_META,
        required("versions", List(Scalar.STRING), "The versions of the core."),
        required("serverAddressByClientCIDRs", List(SERVER_ADDRESS), "Where the server is."),
    ),
    META,
    "The versions of the core.",
)

API_GROUP = Struct(
    "APIGroup",
    (
        *TYPE_META,
        required("name", Scalar.STRING, "The group."),
        required("versions", List(VERSION_FOR_DISCOVERY), "Its versions."),
        Field("preferredVersion", VERSION_FOR_DISCOVERY, "The version to use."),
        Field("serverAddressByClientCIDRs", List(SERVER_ADDRESS), "Where the server is."),
    ),
    META,
    "A group and its versions.",
)

API_GROUP_LIST = Struct(
    "APIGroupList",
    (*TYPE_META, required("groups", List(API_GROUP), "The groups.")),
    META,
    "All groups but the core.",
)

API_RESOURCE = Struct(
    "APIResource",
    (
        required("name", Scalar.STRING, "Plural; with a slash and a subresource behind for such."),
        required("singularName", Scalar.STRING, "Singular."),
        required("namespaced", Scalar.BOOLEAN, "Whether objects belong to a namespace."),
        Field("group", Scalar.STRING, "Group of the objects; empty for that of the list."),
        Field("version", Scalar.STRING, "Version of the objects; empty for that of the list."),
        required("kind", Scalar.STRING, "Kind of the objects."),
        required("verbs", List(Scalar.STRING, list_type=None), "What clients may do."),
        Field("shortNames", List(Scalar.STRING), "Abbreviations."),
        Field("categories", List(Scalar.STRING), "Groups of resources to ask for at once."),
        Field("storageVersionHash", Scalar.STRING, "Equal for resources that are stored as one."),
    ),
    META,
    "A resource or a subresource.",
)

API_RESOURCE_LIST = Struct(
    "APIResourceList",
    (
        *TYPE_META,
        required("groupVersion", Scalar.STRING, "Group and version of the list."),
        required("resources", List(API_RESOURCE), "The resources."),
    ),
    META,
    "The resources of a version of a group.",
)

DISCOVERED = (API_VERSIONS, API_GROUP, API_GROUP_LIST, API_RESOURCE_LIST)
"""The kinds of documents that discovery answers with."""

SHARD_INFO = struct(
    "ShardInfo",
    "Which part of a collection a list shows.",
    required("selector", Scalar.STRING, "The shard selector of the request."),
)

LIST_META = struct(
    "ListMeta",
    "What lists, and other answers that are not stored, carry.",
    Field("selfLink", Scalar.STRING, "No longer set by servers."),
    Field("resourceVersion", Scalar.STRING, "The state of the store that the list shows."),
    Field("continue", Scalar.STRING, "Token for the next part of the list, if there is one."),
    pointer("remainingItemCount", Scalar.INT64, "Number of items that follow, where it is known."),
    pointer("shardInfo", SHARD_INFO, "Set if the list shows one part of the collection."),
)

STATUS_CAUSE = struct(
    "StatusCause",
    "One of the causes of a failure.",
    Field("reason", Scalar.STRING, "What is wrong, as a word for programs."),
    Field("message", Scalar.STRING, "What is wrong, for people."),
    Field("field", Scalar.STRING, "Path of the field that is at fault."),
)

STATUS_DETAILS = struct(
    "StatusDetails",
    "More about an answer, for programs.",
    Field("name", Scalar.STRING, "Name of the object concerned."),
    Field("group", Scalar.STRING, "Its group."),
    Field("kind", Scalar.STRING, "Its kind or resource."),
    Field("uid", Scalar.STRING, "Its UID."),
    Field("causes", List(STATUS_CAUSE), "Causes of the failure, one by one."),
    Field("retryAfterSeconds", Scalar.INT32, "Seconds to wait before trying again."),
)

STATUS = struct(
    "Status",
    "The answer of an operation that returns no object.",
    *TYPE_META,
    Field("metadata", LIST_META, "As of lists."),
    Field("status", Scalar.STRING, "Success or Failure."),
    Field("message", Scalar.STRING, "What happened, for people."),
    Field("reason", Scalar.STRING, "Why it failed, as a word for programs."),
    pointer("details", STATUS_DETAILS, "More about the reason."),
    Field("code", Scalar.INT32, "HTTP status."),
)

WATCH_EVENT = struct(
    "WatchEvent",
    "One change that a watch reports.",
    required("type", Scalar.STRING, "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."),
    required("object", Scalar.ANY, "The object, or a Status of type ERROR."),
)


def list_struct(item: Struct) -> Struct:
    """The struct of lists of an object, such as `FlowSchemaList`."""
    return Struct(
        f"{item.name}List",
        (
            *TYPE_META,
            Field("metadata", LIST_META, "Where the list stands in the history of the store."),
            required("items", List(item, list_type=None), "The objects."),
        ),
        item.package,
        f"A list of {item.name} objects.",
    )
