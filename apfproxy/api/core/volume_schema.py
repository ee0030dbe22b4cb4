"""Structure of volumes, and of each source that a volume can have."""

from __future__ import annotations

from apfproxy.api.core.container_schema import OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR
from apfproxy.api.core.structs import (
    BOOLEAN,
    INT32,
    INT64,
    LOCAL_OBJECT_REFERENCE,
    QUANTITY,
    REFERENT_NAME,
    RESOURCE_LIST,
    STRING,
    STRING_MAP,
    STRINGS,
    chosen,
    required_if_empty_absent,
    struct,
)
from apfproxy.api.schema.meta import LABEL_SELECTOR, OBJECT_META
from apfproxy.api.schema.types import Field, List, pointer, required

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")

FS_TYPE = Field("fsType", STRING, "File system of the volume.")
READ_ONLY = Field("readOnly", BOOLEAN, "Whether it is mounted for reading only.")
SECRET_REF = pointer("secretRef", LOCAL_OBJECT_REFERENCE, "Secret that gives access.")
DEFAULT_MODE = pointer("defaultMode", INT32, "Permission bits of the files; 0644 unless given.")
OPTIONAL = pointer("optional", BOOLEAN, "Whether the object or its keys may be missing.")
MODE = pointer("mode", INT32, "Permission bits of the file.")

KEY_TO_PATH = struct(
    "KeyToPath",
    "A key that becomes a file.",
    required("key", STRING, "The key."),
    required("path", STRING, "Path of the file, relative to the volume."),
    MODE,
)
ITEMS = Field("items", List(KEY_TO_PATH), "Keys that become files; all of them unless given.")

HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)

HOST_PATH = struct(
    "HostPathVolumeSource",
    "A file or directory of the node.",
    required("path", STRING, "Path on the node."),
    Field("type", STRING, "What has to be there.", is_pointer=True, enum=HOST_PATH_TYPES),
)

EMPTY_DIR = struct(
    "EmptyDirVolumeSource",
    "A directory that is empty at first and lives as long as the pod.",
    Field("medium", STRING, "Memory for a file system in memory."),
    pointer("sizeLimit", QUANTITY, "The most that it may hold."),
)

GCE_PERSISTENT_DISK = struct(
    "GCEPersistentDiskVolumeSource",
    "A disk of Google Compute Engine.",
    required("pdName", STRING, "Name of the disk."),
    FS_TYPE,
    Field("partition", INT32, "Number of the partition."),
    READ_ONLY,
)

AWS_ELASTIC_BLOCK_STORE = struct(
    "AWSElasticBlockStoreVolumeSource",
    "A disk of Amazon's Elastic Block Store.",
    required("volumeID", STRING, "Id of the disk."),
    FS_TYPE,
    Field("partition", INT32, "Number of the partition."),
    READ_ONLY,
)

GIT_REPO = struct(
    "GitRepoVolumeSource",
    "A clone of a git repository; deprecated.",
    required("repository", STRING, "URL of the repository."),
    Field("revision", STRING, "Commit to check out."),
    Field("directory", STRING, "Directory to clone into."),
)

SECRET = struct(
    "SecretVolumeSource",
    "A Secret whose keys become files.",
    Field("secretName", STRING, "Name of the Secret."),
    ITEMS,
    DEFAULT_MODE,
    OPTIONAL,
)

NFS = struct(
    "NFSVolumeSource",
    "A directory that an NFS server exports.",
    required("server", STRING, "Name or address of the server."),
    required("path", STRING, "Path that it exports."),
    READ_ONLY,
)

ISCSI = struct(
    "ISCSIVolumeSource",
    "A disk reached by iSCSI.",
    required("targetPortal", STRING, "Address of the portal."),
    required("iqn", STRING, "Name of the target."),
    required("lun", INT32, "Number of the logical unit."),
    Field("iscsiInterface", STRING, "Transport.", default="default"),
    FS_TYPE,
    READ_ONLY,
    Field("portals", STRINGS, "Addresses of further portals."),
    Field("chapAuthDiscovery", BOOLEAN, "Whether discovery needs CHAP."),
    Field("chapAuthSession", BOOLEAN, "Whether sessions need CHAP."),
    SECRET_REF,
    pointer("initiatorName", STRING, "Name of the initiator."),
)

GLUSTERFS = struct(
    "GlusterfsVolumeSource",
    "A Glusterfs volume; deprecated.",
    required("endpoints", STRING, "Name of the endpoints."),
    required("path", STRING, "The volume."),
    READ_ONLY,
)

PERSISTENT_VOLUME_CLAIM = struct(
    "PersistentVolumeClaimVolumeSource",
    "A claim of the pod's namespace.",
    required("claimName", STRING, "Name of the PersistentVolumeClaim."),
    READ_ONLY,
)

RBD = struct(
    "RBDVolumeSource",
    "A block device of Ceph; deprecated.",
    required("monitors", STRINGS, "Monitors of the cluster."),
    required("image", STRING, "Name of the image."),
    FS_TYPE,
    Field("pool", STRING, "Name of the pool.", default="rbd"),
    Field("user", STRING, "Name of the user.", default="admin"),
    Field("keyring", STRING, "Path of the user's key ring.", default="/etc/ceph/keyring"),
    SECRET_REF,
    READ_ONLY,
)

FLEX_VOLUME = struct(
    "FlexVolumeSource",
    "A volume of a driver that is a program on the node; deprecated.",
    required("driver", STRING, "Name of the driver."),
    FS_TYPE,
    SECRET_REF,
    READ_ONLY,
    Field("options", STRING_MAP, "Options of the driver."),
)

CINDER = struct(
    "CinderVolumeSource",
    "A volume of OpenStack.",
    required("volumeID", STRING, "Id of the volume."),
    FS_TYPE,
    READ_ONLY,
    SECRET_REF,
)

CEPHFS = struct(
    "CephFSVolumeSource",
    "A Ceph file system; deprecated.",
    required("monitors", STRINGS, "Monitors of the cluster."),
    Field("path", STRING, "Path in the file system."),
    Field("user", STRING, "Name of the user."),
    Field("secretFile", STRING, "Path of the user's key ring."),
    SECRET_REF,
    READ_ONLY,
)

FLOCKER = struct(
    "FlockerVolumeSource",
    "A dataset of Flocker; deprecated.",
    Field("datasetName", STRING, "Name of the dataset."),
    Field("datasetUUID", STRING, "Id of the dataset."),
)

DOWNWARD_API_FILE = struct(
    "DownwardAPIVolumeFile",
    "A file that shows a field of the pod.",
    required("path", STRING, "Path of the file, relative to the volume."),
    pointer("fieldRef", OBJECT_FIELD_SELECTOR, "A field of the pod."),
    pointer("resourceFieldRef", RESOURCE_FIELD_SELECTOR, "A request or limit of a container."),
    MODE,
)

DOWNWARD_API = struct(
    "DownwardAPIVolumeSource",
    "Files that show fields of the pod.",
    Field("items", List(DOWNWARD_API_FILE), "The files."),
    DEFAULT_MODE,
)

FC = struct(
    "FCVolumeSource",
    "A disk reached by Fibre Channel.",
    Field("targetWWNs", STRINGS, "Names of the targets."),
    pointer("lun", INT32, "Number of the logical unit."),
    FS_TYPE,
    READ_ONLY,
    Field("wwids", STRINGS, "Ids of the volumes."),
)

AZURE_FILE = struct(
    "AzureFileVolumeSource",
    "A file share of Azure.",
    required("secretName", STRING, "Secret with the account's name and key."),
    required("shareName", STRING, "Name of the share."),
    READ_ONLY,
)

CONFIG_MAP = struct(
    "ConfigMapVolumeSource",
    "A ConfigMap whose keys become files.",
    REFERENT_NAME,
    ITEMS,
    DEFAULT_MODE,
    OPTIONAL,
)

VSPHERE_VOLUME = struct(
    "VsphereVirtualDiskVolumeSource",
    "A disk of vSphere.",
    required("volumePath", STRING, "Path of the disk."),
    FS_TYPE,
    Field("storagePolicyName", STRING, "Name of the storage policy."),
    Field("storagePolicyID", STRING, "Id of the storage policy."),
)

QUOBYTE = struct(
    "QuobyteVolumeSource",
    "A Quobyte volume; deprecated.",
    required("registry", STRING, "Addresses of the registry."),
    required("volume", STRING, "Name of the volume."),
    READ_ONLY,
    Field("user", STRING, "User that it is mounted as."),
    Field("group", STRING, "Group that it is mounted as."),
    Field("tenant", STRING, "Tenant that it belongs to."),
)

AZURE_DISK = struct(
    "AzureDiskVolumeSource",
    "A disk of Azure.",
    required("diskName", STRING, "Name of the disk."),
    required("diskURI", STRING, "URI of the disk."),
    Field(
        "cachingMode",
        STRING,
        "How the host caches it.",
        is_pointer=True,
        default="ReadWrite",
        enum=("None", "ReadOnly", "ReadWrite"),
    ),
    Field("fsType", STRING, "File system of the volume.", is_pointer=True, default="ext4"),
    Field(
        "readOnly",
        BOOLEAN,
        "Whether it is mounted for reading only.",
        is_pointer=True,
        default=False,
    ),
    Field(
        "kind",
        STRING,
        "What the disk belongs to.",
        is_pointer=True,
        default="Shared",
        enum=("Dedicated", "Managed", "Shared"),
    ),
)

PHOTON_PERSISTENT_DISK = struct(
    "PhotonPersistentDiskVolumeSource",
    "A disk of Photon Controller; deprecated.",
    required("pdID", STRING, "Id of the disk."),
    FS_TYPE,
)

SECRET_PROJECTION = struct(
    "SecretProjection", "A Secret whose keys become files.", REFERENT_NAME, ITEMS, OPTIONAL
)

CONFIG_MAP_PROJECTION = struct(
    "ConfigMapProjection", "A ConfigMap whose keys become files.", REFERENT_NAME, ITEMS, OPTIONAL
)

DOWNWARD_API_PROJECTION = struct(
    "DownwardAPIProjection",
    "Files that show fields of the pod.",
    Field("items", List(DOWNWARD_API_FILE), "The files."),
)

SERVICE_ACCOUNT_TOKEN_PROJECTION = struct(
    "ServiceAccountTokenProjection",
    "A token of the pod's service account.",
    Field("audience", STRING, "Whom the token is for."),
    pointer("expirationSeconds", INT64, "How long it is valid; an hour unless given."),
    required("path", STRING, "Path of the file, relative to the volume."),
)

CLUSTER_TRUST_BUNDLE_PROJECTION = struct(
    "ClusterTrustBundleProjection",
    "Certificates of ClusterTrustBundles.",
    pointer("name", STRING, "One bundle."),
    pointer("signerName", STRING, "All bundles of a signer."),
    pointer("labelSelector", LABEL_SELECTOR, "Which bundles of the signer."),
    OPTIONAL,
    required("path", STRING, "Path of the file, relative to the volume."),
)

POD_CERTIFICATE_PROJECTION = struct(
    "PodCertificateProjection",
    "A key and a certificate made for the pod.",
    required_if_empty_absent("signerName", STRING, "Who signs."),
    required_if_empty_absent("keyType", STRING, "Such as ED25519."),
    pointer("maxExpirationSeconds", INT32, "How long it is valid at most."),
    Field("credentialBundlePath", STRING, "Path of one file with key and chain."),
    Field("keyPath", STRING, "Path of the key's file."),
    Field("certificateChainPath", STRING, "Path of the chain's file."),
    Field("userAnnotations", STRING_MAP, "Passed to the signer."),
)

VOLUME_PROJECTION = struct(
    "VolumeProjection",
    "One source of a projected volume.",
    pointer("secret", SECRET_PROJECTION, "A Secret."),
    pointer("downwardAPI", DOWNWARD_API_PROJECTION, "Fields of the pod."),
    pointer("configMap", CONFIG_MAP_PROJECTION, "A ConfigMap."),
    pointer("serviceAccountToken", SERVICE_ACCOUNT_TOKEN_PROJECTION, "A token."),
    pointer("clusterTrustBundle", CLUSTER_TRUST_BUNDLE_PROJECTION, "Certificates to trust."),
    pointer("podCertificate", POD_CERTIFICATE_PROJECTION, "A certificate of the pod."),
)

PROJECTED = struct(
    "ProjectedVolumeSource",
    "Several sources in one directory.",
    Field("sources", List(VOLUME_PROJECTION), "The sources.", is_always_written=True),
    DEFAULT_MODE,
)

PORTWORX_VOLUME = struct(
    "PortworxVolumeSource",
    "A Portworx volume.",
    required("volumeID", STRING, "Id of the volume."),
    FS_TYPE,
    READ_ONLY,
)

SCALE_IO = struct(
    "ScaleIOVolumeSource",
    "A ScaleIO volume; deprecated.",
    required("gateway", STRING, "Address of the gateway."),
    required("system", STRING, "Name of the storage system."),
    Field(
        "secretRef",
        LOCAL_OBJECT_REFERENCE,
        "Secret that gives access.",
        is_pointer=True,
        is_required=True,
        is_always_written=True,
    ),
    Field("sslEnabled", BOOLEAN, "Whether to use TLS."),
    Field("protectionDomain", STRING, "Name of the protection domain."),
    Field("storagePool", STRING, "Name of the storage pool."),
    Field("storageMode", STRING, "Thick or thin.", default="ThinProvisioned"),
    Field("volumeName", STRING, "Name of the volume."),
    Field("fsType", STRING, "File system of the volume.", default="xfs"),
    READ_ONLY,
)

STORAGE_OS = struct(
    "StorageOSVolumeSource",
    "A StorageOS volume; deprecated.",
    Field("volumeName", STRING, "Name of the volume."),
    Field("volumeNamespace", STRING, "Namespace of the volume."),
    FS_TYPE,
    READ_ONLY,
    SECRET_REF,
)

CSI = struct(
    "CSIVolumeSource",
    "A volume of a CSI driver that lives as long as the pod.",
    required("driver", STRING, "Name of the driver."),
    pointer("readOnly", BOOLEAN, "Whether it is mounted for reading only."),
    pointer("fsType", STRING, "File system of the volume."),
    Field("volumeAttributes", STRING_MAP, "Properties for the driver."),
    pointer("nodePublishSecretRef", LOCAL_OBJECT_REFERENCE, "Secret for the driver."),
)

VOLUME_RESOURCE_REQUIREMENTS = struct(
    "VolumeResourceRequirements",
    "What a claim needs, and what it may use at most.",
    Field("limits", RESOURCE_LIST, "The most it may use, by resource."),
    Field("requests", RESOURCE_LIST, "What it needs, by resource."),
)

API_GROUP = Field(
    "apiGroup", STRING, "Group of the object's kind.", is_pointer=True, is_always_written=True
)

TYPED_LOCAL_OBJECT_REFERENCE = struct(
    "TypedLocalObjectReference",
    "Names an object of the same namespace, of any kind.",
    API_GROUP,
    required("kind", STRING, "Its kind."),
    required("name", STRING, "Its name."),
    is_atomic=True,
)

TYPED_OBJECT_REFERENCE = struct(
    "TypedObjectReference",
    "Names an object of any kind.",
    API_GROUP,
    required("kind", STRING, "Its kind."),
    required("name", STRING, "Its name."),
    pointer("namespace", STRING, "Its namespace."),
)

PERSISTENT_VOLUME_CLAIM_SPEC = struct(
    "PersistentVolumeClaimSpec",
    "What a claim asks for.",
    Field("accessModes", STRINGS, "How the volume is used.", enum=ACCESS_MODES),
    pointer("selector", LABEL_SELECTOR, "Which volumes would do."),
    Field("resources", VOLUME_RESOURCE_REQUIREMENTS, "Its size."),
    Field("volumeName", STRING, "The volume that it is bound to."),
    pointer("storageClassName", STRING, "Name of the storage class."),
    chosen("volumeMode", ("Block", "Filesystem"), "What pods see of it.", is_pointer=True),
    pointer("dataSource", TYPED_LOCAL_OBJECT_REFERENCE, "What it is filled with."),
    pointer("dataSourceRef", TYPED_OBJECT_REFERENCE, "What it is filled with."),
    pointer("volumeAttributesClassName", STRING, "Name of the class of attributes."),
)

PERSISTENT_VOLUME_CLAIM_TEMPLATE = struct(
    "PersistentVolumeClaimTemplate",
    "The claim that is made for the pod.",
    Field("metadata", OBJECT_META, "Labels and annotations of the claim."),
    required("spec", PERSISTENT_VOLUME_CLAIM_SPEC, "What the claim asks for."),
)

EPHEMERAL = struct(
    "EphemeralVolumeSource",
    "A volume made for the pod, which ends with it.",
    pointer("volumeClaimTemplate", PERSISTENT_VOLUME_CLAIM_TEMPLATE, "Its claim."),
)

IMAGE = struct(
    "ImageVolumeSource",
    "The content of an image.",
    Field("reference", STRING, "The image."),
    Field("pullPolicy", STRING, "When it is pulled.", enum=("Always", "IfNotPresent", "Never")),
)

VOLUME_SOURCES = (
    pointer("hostPath", HOST_PATH, "A file or directory of the node."),
    pointer("emptyDir", EMPTY_DIR, "A directory that is empty at first."),
    pointer("gcePersistentDisk", GCE_PERSISTENT_DISK, "A disk of Google Compute Engine."),
    pointer("awsElasticBlockStore", AWS_ELASTIC_BLOCK_STORE, "A disk of Amazon."),
    pointer("gitRepo", GIT_REPO, "A git repository; deprecated."),
    pointer("secret", SECRET, "A Secret."),
    pointer("nfs", NFS, "A directory of an NFS server."),
    pointer("iscsi", ISCSI, "A disk reached by iSCSI."),
    pointer("glusterfs", GLUSTERFS, "A Glusterfs volume; deprecated."),
    pointer("persistentVolumeClaim", PERSISTENT_VOLUME_CLAIM, "A claim of the namespace."),
    pointer("rbd", RBD, "A block device of Ceph; deprecated."),
    pointer("flexVolume", FLEX_VOLUME, "A volume of a program on the node; deprecated."),
    pointer("cinder", CINDER, "A volume of OpenStack."),
    pointer("cephfs", CEPHFS, "A Ceph file system; deprecated."),
    pointer("flocker", FLOCKER, "A dataset of Flocker; deprecated."),
    pointer("downwardAPI", DOWNWARD_API, "Fields of the pod."),
    pointer("fc", FC, "A disk reached by Fibre Channel."),
    pointer("azureFile", AZURE_FILE, "A file share of Azure."),
    pointer("configMap", CONFIG_MAP, "A ConfigMap."),
    pointer("vsphereVolume", VSPHERE_VOLUME, "A disk of vSphere."),
    pointer("quobyte", QUOBYTE, "A Quobyte volume; deprecated."),
    pointer("azureDisk", AZURE_DISK, "A disk of Azure."),
    pointer("photonPersistentDisk", PHOTON_PERSISTENT_DISK, "A Photon disk; deprecated."),
    pointer("projected", PROJECTED, "Several sources in one directory."),
    pointer("portworxVolume", PORTWORX_VOLUME, "A Portworx volume."),
    pointer("scaleIO", SCALE_IO, "A ScaleIO volume; deprecated."),
    pointer("storageos", STORAGE_OS, "A StorageOS volume; deprecated."),
    pointer("csi", CSI, "A volume of a CSI driver."),
    pointer("ephemeral", EPHEMERAL, "A volume made for the pod."),
    pointer("image", IMAGE, "The content of an image."),
)

VOLUME = struct(
    "Volume",
    "A directory that containers of the pod may mount; exactly one source says what it holds.",
    required("name", STRING, "Name of the volume, a DNS label, unique in the pod."),
    *VOLUME_SOURCES,
)
