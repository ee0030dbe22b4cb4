"""Every path and operation of the API, in a form from which both versions of OpenAPI are made.

Operations are named as in Kubernetes, so that clients generated from either document have the
same methods.

Sources: Kubernetes API reference, "Common Parameters" and the operations of each resource; the
published documents of Kubernetes for names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from apfproxy.apiserver.apps import SCALE
from apfproxy.apiserver.discovery import Discovery, subresources_of, verbs_of
from apfproxy.apiserver.policy import EVICTION
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS, META
from apfproxy.apiserver.schema.types import structs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.types import Object

GroupVersionKind = tuple[str, str, str]

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
STRUCTS |= structs(
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
)
STATUS, WATCH_EVENT = STRUCTS["Status"], STRUCTS["WatchEvent"]


def list_struct(item: Struct) -> Struct:
    name = f"{item.name}List"
    text = f"""
{name} +typed: A list of {item.name} objects.
  metadata  ListMeta                         Where the list stands in the history of the store.
  items     []{item.name} +required +untyped  The objects.
"""
    return structs(item.package, text, STRUCTS, {item.name: item})[name]


def full_name(struct: Struct) -> str:
    return f"{struct.package}.{struct.name}" if struct.package else struct.name


def rows(text: str) -> list[list[str]]:
    """The cells of a table, with two spaces between; a row goes on where a line is indented."""
    return [re.split(" {2,}", line) for line in re.sub("\n {8}", " ", text.strip()).splitlines()]


JSON = "application/json"
RESPONSES = (JSON, "application/yaml")
STREAMED = (*RESPONSES, "application/json;stream=watch")
"""Content types of responses, and of lists, which may be watched."""
PATCHES = ("apply-patch+yaml", "json-patch+json", "merge-patch+json", "strategic-merge-patch+json")
"""Content types of patches, below `application/`."""
QUERY = rows(
    """
allowWatchBookmarks  boolean  list  Whether a watch may send events of type BOOKMARK, which carry
        nothing but a resource version to go on from.
continue  string  select  Where to go on with a list: the token in the metadata of its last part. A
        token that is too old is answered with 410 and another token. Not for watches.
dryRun  string  write|patch|delete  All: do everything but the change itself, and answer as if it
        was done.
fieldManager  string  write|patch  Who is responsible for the fields that are written: at most 128
        printable characters. Required for server-side apply.
fieldSelector  string  select  Restricts to objects by the values of some fields.
fieldValidation  string  write|patch  What becomes of unknown and duplicate fields: Ignore drops
        them, Warn, the default, drops them with a warning, Strict refuses the request.
force  boolean  patch  Whether server-side apply takes fields that others own. Not for other
        patches.
gracePeriodSeconds  integer  delete  Seconds that the object gets to end; 0 for none. Its kind has
        a default.
ignoreStoreReadErrorWithClusterBreakingPotential  boolean  delete  Whether to delete an object that
        cannot be read, whatever depends on it.
labelSelector  string  select  Restricts to objects by their labels.
limit  integer  select  How many objects to answer at most. If there are more, the list has a token
        to go on with; all parts together show one state of the store. Not for watches.
orphanDependents  boolean  delete  Deprecated: use propagationPolicy. Whether dependents stay.
pretty  string  read|list|write|patch|delete  true: indent the answer.
propagationPolicy  string  delete  What becomes of dependents: Orphan, Background or Foreground.
resourceVersion  string  select  The state of the store that the answer has to show, as
        resourceVersionMatch says; of a watch, the state to begin after.
resourceVersionMatch  string  select  How resourceVersion is meant: Exact or NotOlderThan.
sendInitialEvents  boolean  select  Whether a watch begins with an event for each object that is
        there, and a bookmark after them. Requires resourceVersionMatch to be NotOlderThan.
shardSelector  string  select  Restricts to objects by ranges of the hash of a field, such as
        shardRange(object.metadata.uid, '0x0', '0x8000000000000000'); several are joined with ||.
        The fields are object.metadata.uid and object.metadata.namespace, the hash is the 64-bit
        one of FNV-1a, and the end of a range is not part of it.
timeoutSeconds  integer  select  Seconds after which a list or watch ends, in any case.
watch  boolean  list  Whether to answer with a stream of changes instead of a list.
"""
)
"""Parameters of queries in the order of their names: name, type, uses and description."""
PATH_PARAMETER = re.compile(r"\{(\w+)\}")


class Action(NamedTuple):
    """`x-kubernetes-action`, "" for discovery; the verb begins names, `uses` are of parameters."""

    name: str
    method: str
    verb: str
    codes: str
    uses: str


DISCOVER = Action("", "get", "get", "200", "")
ACTIONS = {
    name: Action(name, *cells)
    for name, *cells in rows(
        """
delete            delete  delete   200 202      delete
deletecollection  delete  delete   200          delete|select
get               get     read     200          read
list              get     list     200          list|select
patch             patch   patch    200 201      patch
post              post    create   200 201 202  write
put               put     replace  200 201      write
watch             get     watch    200          list|select
watchlist         get     watch    200          list|select
"""
    )
}
DEPRECATED = " Deprecated: use the parameter watch with a list operation instead."
OPERATIONS = rows(
    """
deletecollection  items  Collection+  status  options  Delete {0} objects together.
list  items  +  list  -  List or watch {0} objects.
post  items  +  object  object  Create a {0}.
list  plural  {0}ForAllNamespaces  list  -  List or watch {0} objects of all namespaces.
delete  item  +  deleted  options  Delete a {0}.
get  item  +  object  -  Read a {0}.
patch  item  +  object  patch  Change parts of a {0}.
put  item  +  object  object  Replace a {0}.
get  item/status  +Status  object  -  Read the status of a {0}.
patch  item/status  +Status  object  patch  Change parts of the status of a {0}.
put  item/status  +Status  object  object  Replace the status of a {0}.
get  item/scale  +Scale  scale  -  Read how many pods a {0} wants.
patch  item/scale  +Scale  scale  patch  Change how many pods a {0} wants.
put  item/scale  +Scale  scale  scale  Replace how many pods a {0} wants.
put  item/finalize  +Finalize  object  object  Replace the finalizers in the spec of a {0}.
post  item/eviction  +Eviction  eviction  eviction  Evict a {0}, if its disruption budgets
        permit it.
watch  watch/item  +  event  -  Watch a {0}.
watchlist  watch/items  +List  event  -  Watch {0} objects.
watchlist  watch/plural  {0}ListForAllNamespaces  event  -  Watch {0} objects of all namespaces.
"""
)
"""Action, path, name, structs of responses and bodies, and description of each operation on a kind.

A plus is the kind's name, with `Namespaced` before it where that is so; paths begin with all
objects, those of a namespace, or one object.
"""


class Operation(NamedTuple):
    """An operation; its document is one of version 3, such as `apis/policy/v1`."""

    action: Action
    document: str
    path: str
    id: str
    tag: str
    description: str
    response: Struct
    body: Struct | None = None
    kind: GroupVersionKind | None = None

    @property
    def consumes(self) -> tuple[str, ...]:
        is_patch = self.action.name == "patch"
        return tuple(f"application/{each}" for each in PATCHES) if is_patch else ("*/*",)

    @property
    def produces(self) -> tuple[str, ...]:
        if self.document == "version":
            return (JSON,)
        return STREAMED if "list" in self.action.uses else RESPONSES

    @property
    def parameters(self) -> list[Object]:
        """The parameters of the path, then those of the query, as version 2 has them."""
        described = {"namespace": "Namespace that the object belongs to."}
        if self.kind:
            described["name"] = f"Name of the {self.kind[2]}."
        in_path: Object = {"in": "path", "required": True}
        names = PATH_PARAMETER.findall(self.path)
        places = [(name, "string", described[name], in_path) for name in names]
        own = set(self.action.uses.split("|"))
        used = [row for row in QUERY if not own.isdisjoint(row[2].split("|"))]
        places += [(name, type_, text, {"in": "query"}) for name, type_, _, text in used]
        return [
            {"name": name, "description": text, **place, "type": type_, "uniqueItems": True}
            for name, type_, text, place in places
        ]


class Catalog(NamedTuple):
    operations: list[Operation]
    kinds: dict[str, list[GroupVersionKind]]


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]


def group_title(group: str) -> str:
    """A group in an operation's name: `FlowcontrolApiserver`, `Policy`, `Core`."""
    return "".join(map(_title, (group or "core").removesuffix(".k8s.io").split(".")))


def tag_of(group: str, version: str = "") -> str:
    """The tag of a group or its version: `flowcontrolApiserver_v1`."""
    name = group_title(group)
    return f"{name[:1].lower()}{name[1:]}_{version}".removesuffix("_")


def catalog(kinds: Sequence[Kind]) -> Catalog:
    discovery = Discovery(kinds)
    found = Catalog(list(_discovery_operations(discovery)), {})

    def describe(struct: Struct, *kind: *GroupVersionKind) -> None:
        found.kinds.setdefault(full_name(struct), []).append(kind)

    for name in ("Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"):
        describe(STRUCTS[name], "", "v1", name)
    for group in ("", *discovery.groups):
        for version in discovery.versions(group):
            describe(DELETE_OPTIONS, group, version, "DeleteOptions")
            describe(WATCH_EVENT, group, version, "WatchEvent")
    for kind in discovery.kinds:
        for served in kind.versions:
            listed = list_struct(served.schema)
            describe(served.schema, kind.group, served.name, kind.name)
            if not kind.review:
                describe(listed, kind.group, served.name, f"{kind.name}List")
            found.operations.extend(_operations_of(kind, served, listed))
            if kind.resource == "pods":
                describe(EVICTION, "policy", "v1", "Eviction")
    if any(kind.scale_selector is not None for kind in kinds):
        describe(SCALE, "autoscaling", "v1", "Scale")
    return found


def _operations_of(kind: Kind, version: Version, listed: Struct) -> Iterator[Operation]:
    structs = {
        "object": version.schema,
        "list": listed,
        "deleted": version.schema if kind.answers_deleted else STATUS,
        "status": STATUS,
        "options": DELETE_OPTIONS,
        "patch": STRUCTS["Patch"],
        "scale": SCALE,
        "eviction": EVICTION,
        "event": WATCH_EVENT,
    }
    items = f"namespaces/{{namespace}}/{kind.plural}" if kind.is_namespaced else kind.plural
    paths = {"plural": kind.plural, "items": items, "item": f"{items}/{{name}}"}
    own_name = f"Namespaced{kind.name}" if kind.is_namespaced else kind.name
    document = f"apis/{kind.group}/{version.name}" if kind.group else f"api/{version.name}"
    subresources = {"": {"kind": kind.name}}
    subresources |= {name: response_kind for name, response_kind, _ in subresources_of(kind)}
    for action, path, name, response, body, text in OPERATIONS:
        start, _, subresource = path.removeprefix("watch/").partition("/")
        if (
            subresource not in subresources
            or (start == "plural" and not kind.is_namespaced)
            or (action == "deletecollection" and action not in verbs_of(kind))
            or (kind.review and action != "post")
        ):
            continue
        of = {"group": kind.group, "version": version.name, **subresources[subresource]}
        suffix = name.format(kind.name).replace("+", own_name)
        yield Operation(
            ACTIONS[action],
            document,
            f"/{document}/{path.replace(start, paths[start])}",
            f"{ACTIONS[action].verb}{group_title(kind.group)}{_title(version.name)}{suffix}",
            tag_of(kind.group, version.name),
            text.format(kind.name) + DEPRECATED * path.startswith("watch/"),
            structs[response],
            structs.get(body),
            (of["group"], of["version"], of["kind"]),
        )


def _discovery_operations(discovery: Discovery) -> Iterator[Operation]:
    def get(document: str, name: str, tag: str, text: str, struct: str) -> Operation:
        path = f"/{document}/"
        return Operation(DISCOVER, document, path, f"get{name}", tag, text, STRUCTS[struct])

    yield get("api", "CoreAPIVersions", "core", "Tell the versions of the core.", "APIVersions")
    yield get("apis", "APIVersions", "apis", "Tell all groups.", "APIGroupList")
    yield get("version", "CodeVersion", "version", "Tell the version.", "Info")
    for group in ("", *discovery.groups):
        name, root = group_title(group), f"apis/{group}" if group else "api"
        if group:
            text = "Tell the versions of the group."
            yield get(root, f"{name}APIGroup", tag_of(group), text, "APIGroup")
        for version in discovery.versions(group):
            own, tag = f"{name}{_title(version)}APIResources", tag_of(group, version)
            yield get(f"{root}/{version}", own, tag, "Tell the resources.", "APIResourceList")
