"""The structs that no kind has: responses that are no objects, documents of discovery, patches.

Sources: the types of meta/v1 that begin with `API`; apimachinery's `version.Info`.
"""

from __future__ import annotations

from apfproxy.apiserver.schema.language import structs
from apfproxy.apiserver.schema.shared_structs import META, TYPE_META
from apfproxy.apiserver.schema.types import Field, List, Struct, required

STRUCTS = structs(
    META,
    """
Patch: A change to an object; its content type says of which sort.
APIVersions +typed: The versions of the core.
  versions                    []string +required                     The versions of the core.
  serverAddressByClientCIDRs  []ServerAddressByClientCIDR +required  Where the server is.
ServerAddressByClientCIDR: Where some clients can reach the server.
  clientCIDR     string +required  The clients that this is for.
  serverAddress  string +required  Host and port.
APIGroup +typed: A group and its versions.
  name                        string +required                      The group.
  versions                    []GroupVersionForDiscovery +required  Its versions.
  preferredVersion            GroupVersionForDiscovery              The version to use.
  serverAddressByClientCIDRs  []ServerAddressByClientCIDR           Where the server is.
GroupVersionForDiscovery: A version of a group.
  groupVersion  string +required  Group and version, with a slash between them.
  version       string +required  The version alone.
APIGroupList +typed: All groups but the core.
  groups  []APIGroup +required  The groups.
APIResourceList +typed: The resources of a version of a group.
  groupVersion  string +required         Group and version of the list.
  resources     []APIResource +required  The resources.
APIResource: A resource or a subresource.
  name          string +required  Plural; with a slash and a subresource behind for such.
  singularName  string +required  Singular.
  namespaced    bool +required    Whether objects belong to a namespace.
  group         string            Group of the objects; empty for that of the list.
  version       string            Version of the objects; empty for that of the list.
  kind          string +required  Kind of the objects.
  verbs         []string +required +untyped  What clients may do.
  shortNames    []string          Abbreviations.
  categories    []string          Groups of resources to ask for at once.
  storageVersionHash  string      Equal for resources that are stored as one.
ListMeta: What lists, and other answers that are not stored, carry.
  selfLink            string      No longer set by servers.
  resourceVersion     string      The state of the store that the list shows.
  continue            string      Token for the next part of the list, if there is one.
  remainingItemCount  *int64      Number of items that follow, where it is known.
  shardInfo           *ShardInfo  Set if the list shows one part of the collection.
ShardInfo: Which part of a collection a list shows.
  selector  string +required  The shard selector of the request.
Status +typed: The answer of an operation that returns no object.
  metadata  ListMeta        As of lists.
  status    string          Success or Failure.
  message   string          What happened, for people.
  reason    string          Why it failed, as a word for programs.
  details   *StatusDetails  More about the reason.
  code      int32           HTTP status.
StatusDetails: More about an answer, for programs.
  name               string         Name of the object concerned.
  group              string         Its group.
  kind               string         Its kind or resource.
  uid                string         Its UID.
  causes             []StatusCause  Causes of the failure, one by one.
  retryAfterSeconds  int32          Seconds to wait before trying again.
StatusCause: One of the causes of a failure.
  reason   string  What is wrong, as a word for programs.
  message  string  What is wrong, for people.
  field    string  Path of the field that is at fault.
WatchEvent: One change that a watch reports.
  type    string +required  ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
  object  any +required     The object, or a Status of type ERROR.
""",
)
VERSION_INFO = structs(
    "io.k8s.apimachinery.pkg.version",
    """
Info: What a server is.
  major                  string +required  Major version of Kubernetes.
  minor                  string +required  Minor version of Kubernetes.
  emulationMajor         string            Major version whose behaviour it has.
  emulationMinor         string            Minor version whose behaviour it has.
  minCompatibilityMajor  string            Oldest version beside which it can run.
  minCompatibilityMinor  string            The same, its minor part.
  gitVersion             string +required  Both, with the version of this server behind.
  gitCommit              string +required  The commit that was built.
  gitTreeState           string +required  Whether it was built with changes.
  buildDate              string +required  When it was built.
  goVersion              string +required  The Go that it was built with; empty for none.
  compiler               string +required  What runs it.
  platform               string +required  System and machine that it runs on.
""",
)["Info"]
PATCH, STATUS, WATCH_EVENT = (STRUCTS[name] for name in ("Patch", "Status", "WatchEvent"))
DISCOVERED = ("APIVersions", "APIGroup", "APIGroupList", "APIResourceList")
"""The kinds of documents of discovery."""


def list_struct(item: Struct) -> Struct:
    """The struct of lists of an object, such as `FlowSchemaList`."""
    text = "Where the list stands in the history of the store."
    items = required("items", List(item, list_type=None), "The objects.")
    fields = (*TYPE_META, Field("metadata", STRUCTS["ListMeta"], text), items)
    return Struct(f"{item.name}List", fields, item.package, f"A list of {item.name} objects.")
