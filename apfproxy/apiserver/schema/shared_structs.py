"""The structs of `meta.k8s.io/v1`, which objects of all kinds share.

Sources: Kubernetes API reference, "Common Definitions"; Kubernetes API conventions, "Metadata".
"""

from __future__ import annotations

from apfproxy.apiserver.schema.types import structs

META = "io.k8s.apimachinery.pkg.apis.meta.v1"

SHARED = structs(
    META,
    """
ObjectMeta: What every stored object carries beside its content.
   1 name                        string             Unique within the namespace. Cannot be changed.
   2 generateName  string  Prefix of the name that the server makes up if there is no name.
   3 namespace                   string             The space within which the name is unique.
   4 selfLink                    string             No longer set by servers.
   5 uid                         string +go=types.UID  Unique in time and space. Set by the server.
   6 resourceVersion  string  Opaque version of the object, which changes with every write.
   7 generation  int64  Number of the desired state, counted up by the server as it changes.
   8 creationTimestamp           time +omitempty    When the server created the object.
   9 deletionTimestamp           *time              When the object is to be gone.
  10 deletionGracePeriodSeconds  *int64  Seconds that the object gets to end before it is removed.
  11 labels                      map[string]string  Keys and values to select objects by.
  12 annotations  map[string]string  Keys and values that tools store with the object.
  13 ownerReferences  []OwnerReference +keys=uid  The objects that this one depends on. It is
        collected when all of them are gone.
  14 finalizers  []string +merged +set  What has to be done before the object is removed.
  17 managedFields  []ManagedFieldsEntry  Which manager owns which fields of the object.
OwnerReference +atomic: Names an object that this one belongs to, in the same namespace or in none.
  5 apiVersion          string +required  Group and version of the owner.
  1 kind                string +required  Kind of the owner.
  3 name                string +required  Name of the owner.
  4 uid                 string +required +go=types.UID  UID of the owner.
  6 controller          *bool             Whether the owner is the managing controller.
  7 blockOwnerDeletion  *bool  Whether foreground deletion of the owner waits until this object is
        gone.
ManagedFieldsEntry: The fields of an object that one manager has written in one way.
  1 manager      string  Who manages these fields.
  2 operation    string +go=ManagedFieldsOperationType  How they were written: Apply or Update.
  3 apiVersion   string  The version that the field names belong to.
  4 time         *time   When the entry was added or its fields changed.
  6 fieldsType   string  Format of the set of fields: FieldsV1.
  7 fieldsV1     *any +go=FieldsV1  The set of fields, as a tree.
  8 subresource  string  Subresource that was written, empty for none.
LabelSelector +atomic: Selects objects by labels: all for an empty selector, none for an absent one.
  1 matchLabels       map[string]string           Labels that an object must have.
  2 matchExpressions  []LabelSelectorRequirement  Conditions that must all hold.
LabelSelectorRequirement: A condition on the label of one key.
  1 key       string +required  Key of the label.
  2 operator  string +required +go=LabelSelectorOperator  In, NotIn, Exists or DoesNotExist.
  3 values    []string          What In and NotIn compare with; empty for the others.
Condition: One aspect of the current state of an object.
  1 type                string +required  What the condition is about, in CamelCase.
  2 status              string +required +go=ConditionStatus  True, False or Unknown.
  3 observedGeneration  int64             Generation of the object that the condition was set for.
  4 lastTransitionTime  time +required    When the status changed.
  5 reason              string +required  Why it changed, as a word for programs.
  6 message             string +required  Why it changed, for people.
DeleteOptions +typed: How to delete an object.
  1 gracePeriodSeconds  *int64  Seconds that the object gets to end: 0 for none; absent for the
        default of its kind.
  2 preconditions  *Preconditions  What must be true of the object, else 409.
  3 orphanDependents                                  *bool  Deprecated: use propagationPolicy.
  4 propagationPolicy  *string +go=DeletionPropagation  What becomes of dependents: Orphan,
        Background or Foreground.
  5 dryRun  []string  All: do everything but the change itself.
  6 ignoreStoreReadErrorWithClusterBreakingPotential  *bool  Whether to delete an object that cannot
        be read.
Preconditions: What must be true of an object for an operation to take place.
  1 uid              *string +go=types.UID  The UID that the object must have.
  2 resourceVersion  *string  The resource version that it must have.
""",
)
OBJECT_META, DELETE_OPTIONS = SHARED["ObjectMeta"], SHARED["DeleteOptions"]
