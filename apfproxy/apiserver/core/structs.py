"""Structure of what core/v1 has, as far as the server reads it.

Source of the numbers: Kubernetes 1.36, `api/core/v1/generated.proto`.
"""

from __future__ import annotations

from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.schema.types import structs

CONDITION = """
{0}Condition: One aspect of how a controller is doing.
  1 type    string +required  Which aspect.
  2 status  string +required  True, False or Unknown.
  3 lastTransitionTime  time    When the status changed last.
  4 reason              string  Why, as a word.
  5 message             string  Why, for people.
"""
REPLICAS = f"""{CONDITION}
{{0}}Status: How many pods there are.
  1 replicas              int32 +required  How many pods there are.
  2 fullyLabeledReplicas  int32            How many have all labels of the template.
  3 observedGeneration    int64            The generation that this is about.
  4 readyReplicas         int32            How many are ready.
  5 availableReplicas     int32            How many have been ready for long enough.
  6 conditions            []{{0}}Condition +keys=type  Aspects of how it is doing.
"""
CORE = SHARED | structs(
    "io.k8s.api.core.v1",
    """
Namespace +object: A scope for names and rights.
NamespaceSpec: What has to happen before a namespace is gone.
  1 finalizers  []string +go=[]FinalizerName  Who still has something to remove from it.
NamespaceStatus: How a namespace is doing.
  1 phase       string +enum=Active|Terminating +go=NamespacePhase  Active or Terminating.
  2 conditions  []NamespaceCondition +keys=type  What keeps it from ending.
NamespaceCondition: One aspect of how the end of a namespace is going.
  1 type                string +required +go=NamespaceConditionType  Which aspect.
  2 status              string +required +go=ConditionStatus  True, False or Unknown.
  4 lastTransitionTime  time              When the status changed last.
  5 reason              string            Why, in one word.
  6 message             string            Why, for people.

Pod +object: Containers on one node.
PodTemplateSpec: What pods are made from.
  1 metadata  ObjectMeta  Labels and so on of the pods.
  2 spec      PodSpec     What the pods run.
PodSpec: What a pod runs, and how.
   1 volumes                        []Volume +keys=name +retainkeys  What containers may mount.
  20 initContainers                 []Container +keys=name  They run before the others.
   2 containers  []Container +required +keys=name  Containers of the pod; at least one.
   3 restartPolicy  string +enum=Always|Never|OnFailure +go=RestartPolicy  Always unless given.
   4 terminationGracePeriodSeconds  *int64               To end in; 30 unless given.
   5 activeDeadlineSeconds          *int64               Seconds that the pod may run at most.
   6 dnsPolicy  string +enum=ClusterFirst|ClusterFirstWithHostNet|Default|None +go=DNSPolicy
        ClusterFirst unless given.
   7 nodeSelector                   map[string]string +atomic  Labels that its node has.
   8 serviceAccountName             string               Name of the account that it runs as.
   9 serviceAccount                 string               The older name of `serviceAccountName`.
  10 nodeName                       string  Node that it is assigned to; set by the scheduler.
  11 hostNetwork                    bool                 Whether it uses the node's network.
  14 securityContext                *PodSecurityContext  Rights of all its containers.
  19 schedulerName                  string               Scheduler that assigns it to a node.
  22 tolerations                    []Toleration         Taints of nodes that it does not mind.
  24 priorityClassName              string               Name of the class that sets its priority.
  25 priority                       *int32               Its priority; higher goes first.
  28 readinessGates                 []PodReadinessGate   What else makes it ready.
  30 enableServiceLinks             *bool                Whether services are shown as variables.
  31 preemptionPolicy  *string +go=PreemptionPolicy  Whether it may displace other pods.
  38 schedulingGates                []PodSchedulingGate +keys=name  They hold it back.
  +open ephemeralContainers automountServiceAccountToken hostPID hostIPC shareProcessNamespace
        imagePullSecrets hostname subdomain affinity hostAliases dnsConfig runtimeClassName overhead
        topologySpreadConstraints setHostnameAsFQDN os hostUsers resourceClaims resources
        hostnameOverride schedulingGroup
Volume: A directory that containers may mount.
  1 name  string +required  Name of the volume, unique in the pod.
  +open hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi glusterfs
        persistentVolumeClaim rbd flexVolume cinder cephfs flocker downwardAPI fc azureFile
        configMap vsphereVolume quobyte azureDisk photonPersistentDisk projected portworxVolume
        scaleIO storageos csi ephemeral image
Container: One program of a pod, run from an image.
   1 name  string +required  Name of the container, a DNS label, unique in the pod.
   2 image                     string                                   Container image to run.
   4 args                      []string  Arguments of the program; the image's unless given.
   6 ports                     []ContainerPort +keys=containerPort,protocol  It serves.
   7 env                       []EnvVar +keys=name                      Environment variables.
   8 resources                 ResourceRequirements  What it needs, and may use at most.
  24 restartPolicy  *string +go=ContainerRestartPolicy  Whether it is restarted; Always makes a
        sidecar.
   9 volumeMounts              []VolumeMount +keys=mountPath            In its file system.
  13 terminationMessagePath    string                                   File that says why it ended.
  20 terminationMessagePolicy  string +enum=FallbackToLogsOnError|File +go=TerminationMessagePolicy
        Why it ended.
  14 imagePullPolicy  string +enum=Always|IfNotPresent|Never +go=PullPolicy  When the image is
        pulled.
  +open command workingDir envFrom resizePolicy restartPolicyRules volumeDevices livenessProbe
        readinessProbe startupProbe lifecycle securityContext stdin stdinOnce tty
ContainerPort: A port that a container serves.
  1 name           string                                  A name for it, unique in the pod.
  2 hostPort       int32                                   Port of the node to map it to.
  3 containerPort  int32 +required                         Number of the port, from 1 to 65535.
  4 protocol       string +default=TCP +enum=SCTP|TCP|UDP +go=Protocol  TCP unless given.
  5 hostIP         string                                  Address of the node to map it to.
EnvVar: An environment variable.
  1 name   string +required  Name of the variable.
  2 value  string            Its value.
  +open valueFrom
ResourceRequirements: What a container needs, and what it may use at most.
  1 limits    map[string]quantity +go=v1.ResourceList  The most it may use, by resource.
  2 requests  map[string]quantity +go=v1.ResourceList  What it needs; the limits unless given.
  +open claims
VolumeMount: Where a container sees a volume.
  1 name       string +required  Name of a volume of the pod.
  2 readOnly   bool              Whether the container may only read it.
  3 mountPath  string +required  Path in the container.
  +open recursiveReadOnly subPath mountPropagation subPathExpr
PodSecurityContext: Rights of all containers of a pod.
  +open seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot supplementalGroups
        supplementalGroupsPolicy fsGroup sysctls fsGroupChangePolicy seccompProfile appArmorProfile
        seLinuxChangePolicy
Toleration: A taint of nodes that the pod does not mind.
  1 key                string  Key of the taint; all of them unless given.
  2 operator           string +go=TolerationOperator  Exists or Equal.
  3 value              string  Value of the taint, for Equal.
  4 effect             string +go=TaintEffect  Effect of the taint; all of them unless given.
  5 tolerationSeconds  *int64  How long NoExecute is tolerated.
PodReadinessGate: A condition that readiness depends on.
  1 conditionType  string +required +go=PodConditionType  Type of the condition.
PodSchedulingGate: Something that keeps the pod from being scheduled.
  1 name  string +required  Its name.
PodStatus: How a pod is doing, as its node reports it.
  17 observedGeneration     int64                      Generation of the spec that this is about.
   1 phase  string +enum=Failed|Pending|Running|Succeeded|Unknown +go=PodPhase  Where the pod is in
        its life.
   2 conditions             []PodCondition +keys=type  Aspects of how it is doing.
   3 message                string                     Why it is in this phase, for people.
   4 reason                 string                     Why it is in this phase, in one word.
  11 nominatedNodeName      string                     Node where room is being made for it.
   5 hostIP                 string                     Address of its node.
   6 podIP                  string                     Its address.
  12 podIPs                 []PodIP +keys=ip           All its addresses.
   7 startTime              *time                      When its node took notice of it.
  10 initContainerStatuses  []ContainerStatus          Of its init containers.
   8 containerStatuses      []ContainerStatus          Of its containers.
   9 qosClass  string +enum=BestEffort|Burstable|Guaranteed +go=PodQOSClass  How late it is evicted.
  +open hostIPs ephemeralContainerStatuses resize resourceClaimStatuses extendedResourceClaimStatus
        allocatedResources resources nodeAllocatableResourceClaimStatuses
PodCondition: One aspect of how a pod is doing.
  1 type                string +required +go=PodConditionType  Which aspect.
  7 observedGeneration  int64             Generation of the spec that it is about.
  2 status              string +required +go=ConditionStatus  True, False or Unknown.
  3 lastProbeTime       time              When it was looked at last.
  4 lastTransitionTime  time              When the status changed last.
  5 reason              string            Why, in one word.
  6 message             string            Why, for people.
PodIP: An address of a pod.
  1 ip  string +required  The address.
ContainerStatus: How a container is doing.
  1 name          string +required  Name of the container.
  2 state         ContainerState    What it is doing.
  3 lastState     ContainerState    How it ended the last time.
  4 ready         bool +required    Whether its readiness probe succeeds.
  5 restartCount  int32 +required   How often it was restarted.
  6 image         string +required  Image that it runs.
  7 imageID       string +required  Digest of the image.
  8 containerID   string            Id of the container.
  9 started       *bool             Whether it has started up.
  +open allocatedResources resources volumeMounts user allocatedResourcesStatus stopSignal
ContainerState: What a container is doing; one of the fields.
  1 waiting     *ContainerStateWaiting     It does not run yet.
  2 running     *ContainerStateRunning     It runs.
  3 terminated  *ContainerStateTerminated  It has ended.
ContainerStateWaiting: A container that does not run yet.
  1 reason   string  Why, in one word.
  2 message  string  Why, for people.
ContainerStateRunning: A container that runs.
  1 startedAt  time  Since when.
ContainerStateTerminated: A container that has ended.
  1 exitCode     int32 +required  Exit status of its process.
  2 signal       int32            Signal that ended it.
  3 reason       string           Why, in one word.
  4 message      string           Why, for people.
  5 startedAt    time             When it started.
  6 finishedAt   time             When it ended.
  7 containerID  string           Id of the container.

Node +object: A machine that runs pods.
NodeSpec: What a node is for.
  1 podCIDR        string                 Addresses of its pods.
  7 podCIDRs       []string +merged +set  The same, one for each family of addresses.
  3 providerID     string                 What its provider calls it.
  4 unschedulable  bool                   Whether it gets no new pods.
  5 taints         []Taint                What keeps pods away.
  +open configSource externalID
Taint: What keeps pods away that do not tolerate it.
  1 key        string +required  Its key.
  2 value      string            Its value.
  3 effect     string +required  NoSchedule, PreferNoSchedule or NoExecute.
  4 timeAdded  *time             When it was added.
NodeStatus: How a node is doing, as its kubelet reports it.
  1 capacity         map[string]quantity         What it has, by resource.
  2 allocatable      map[string]quantity         What pods may have of it.
  3 phase            string                      No longer set.
  4 conditions       []NodeCondition +keys=type  Aspects of how it is doing.
  5 addresses        []NodeAddress +keys=type    Where it can be reached.
  6 daemonEndpoints  NodeDaemonEndpoints         Ports of what runs on it.
  7 nodeInfo         NodeSystemInfo              The machine and its programs.
  +open images volumesInUse volumesAttached config runtimeHandlers features declaredFeatures
NodeCondition: One aspect of how a node is doing.
  1 type                string +required  Which aspect.
  2 status              string +required  True, False or Unknown.
  3 lastHeartbeatTime   time              When it was looked at last.
  4 lastTransitionTime  time              When the status changed last.
  5 reason              string            Why, in one word.
  6 message             string            Why, for people.
NodeAddress: An address of a node.
  1 type     string +required  Hostname, InternalIP, ExternalIP, ...
  2 address  string +required  The address.
NodeDaemonEndpoints: Ports of what runs on a node.
  1 kubeletEndpoint  DaemonEndpoint  That of its kubelet.
DaemonEndpoint: A port.
  1 Port  int32 +required  The port.
NodeSystemInfo: The machine of a node, and its programs.
   1 machineID                string +required  As it reports.
   2 systemUUID               string +required  As it reports.
   3 bootID                   string +required  As it reports.
   4 kernelVersion            string +required  As it reports.
   5 osImage                  string +required  As it reports.
   6 containerRuntimeVersion  string +required  As it reports.
   7 kubeletVersion           string +required  As it reports.
   8 kubeProxyVersion         string +required  As it reports.
   9 operatingSystem          string +required  As it reports.
  10 architecture             string +required  As it reports.
  +open swap
NodeSelector +atomic: Terms of which a node has to meet one.
  1 nodeSelectorTerms  []NodeSelectorTerm +required  The terms.
NodeSelectorTerm +atomic: Requirements that a node has to meet all.
  1 matchExpressions  []NodeSelectorRequirement  By the node's labels.
  2 matchFields       []NodeSelectorRequirement  By the node's fields.
NodeSelectorRequirement: What a label or field of a node has to be.
  1 key       string +required  Key of the label, or name of the field.
  2 operator  string +required +enum=DoesNotExist|Exists|Gt|In|Lt|NotIn +go=NodeSelectorOperator
        How the node's value is compared.
  3 values    []string          What it is compared with.

ConfigMap +object: Texts and bytes by which programs are configured.
  4 immutable   *bool              Whether the data can never change.
  2 data        map[string]string  Texts, by key.
  3 binaryData  map[string][]byte  Bytes in base64, by key.
Secret +object: Bytes that only some may see.
  5 immutable   *bool              Whether the data can never change.
  2 data        map[string][]byte  Bytes in base64, by key.
  4 stringData  map[string]string  Texts to add to the data.
  3 type        string             What the data is for; Opaque unless given.
ServiceAccount +object: A user for the programs of pods.
  2 secrets                       []ObjectReference +keys=name  Its secrets.
  3 imagePullSecrets              []LocalObjectReference  Secrets by which its images are pulled.
  4 automountServiceAccountToken  *bool                   Whether pods get a token of it.
LocalObjectReference +atomic: Names an object of the same namespace.
  1 name  string +default=  Its name.
ObjectReference +atomic: Names an object of any kind, or a part of it.
  1 kind             string  Its kind.
  2 namespace        string  Its namespace.
  3 name             string  Its name.
  4 uid              string  Its UID.
  5 apiVersion       string  Group and version of its kind.
  6 resourceVersion  string  Its version, if one is meant.
  7 fieldPath        string  The part, such as spec.containers{name}.

ReplicationController +object: Keeps a number of pods; the older form of ReplicaSet.
ReplicationControllerSpec: How many pods of which kind.
  1 replicas         *int32                     How many pods are wanted; 1 unless given.
  4 minReadySeconds  int32                      How long pods are ready to count.
  2 selector         map[string]string +atomic  Labels of its pods.
  3 template         *PodTemplateSpec           What its pods are made from.

Event +object: Something that happened to an object; kept for a while.
   2 involvedObject      ObjectReference +required +omitempty  What it happened to.
   3 reason              string                                Why, in one word.
   4 message             string                                What happened, for people.
   5 source              EventSource                           What reported it.
   6 firstTimestamp      time                                  When it happened first.
   7 lastTimestamp       time                                  When it happened last.
   8 count               int32                                 How often it has happened.
   9 type                string                                Normal or Warning.
  10 eventTime           microtime                             When it happened first.
  11 series              *EventSeries                          Its repetitions.
  12 action              string                                What was done.
  13 related             *ObjectReference                      What else it is about.
  14 reportingComponent  string +written                       What reported it.
  15 reportingInstance   string +written                       Which of its replicas.
EventSource: What reported an event.
  1 component  string  The program.
  2 host       string  The node that it runs on.
EventSeries: How often an event has happened in a row.
  1 count             int32      How often.
  2 lastObservedTime  microtime  When it happened last.
"""
    + REPLICAS.format("ReplicationController"),
    SHARED,
)
