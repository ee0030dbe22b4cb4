"""Structure of the security contexts of pods and containers."""

from __future__ import annotations

from apfproxy.api.core.structs import BOOLEAN, INT64, STRING, STRINGS, chosen, struct
from apfproxy.api.schema.types import Field, List, Union, pointer, required

PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
PROFILE_UNION = Union(("localhostProfile",), "type")

CAPABILITIES = struct(
    "Capabilities",
    "POSIX capabilities of a container.",
    Field("add", STRINGS, "Capabilities to add."),
    Field("drop", STRINGS, "Capabilities to drop."),
)

SE_LINUX_OPTIONS = struct(
    "SELinuxOptions",
    "SELinux labels.",
    Field("user", STRING, "SELinux user."),
    Field("role", STRING, "SELinux role."),
    Field("type", STRING, "SELinux type."),
    Field("level", STRING, "SELinux level."),
)

WINDOWS_OPTIONS = struct(
    "WindowsSecurityContextOptions",
    "Security of containers on Windows.",
    pointer("gmsaCredentialSpecName", STRING, "Name of the GMSA credential spec."),
    pointer("gmsaCredentialSpec", STRING, "The GMSA credential spec itself."),
    pointer("runAsUserName", STRING, "User that the container runs as."),
    pointer("hostProcess", BOOLEAN, "Whether it is a host process container."),
)

SECCOMP_PROFILE = struct(
    "SeccompProfile",
    "Which seccomp profile applies.",
    chosen("type", PROFILE_TYPES, "Where the profile comes from.", is_pointer=False),
    pointer("localhostProfile", STRING, "File on the node, for type Localhost."),
    union=PROFILE_UNION,
)

APP_ARMOR_PROFILE = struct(
    "AppArmorProfile",
    "Which AppArmor profile applies.",
    chosen("type", PROFILE_TYPES, "Where the profile comes from.", is_pointer=False),
    pointer("localhostProfile", STRING, "Profile loaded on the node, for type Localhost."),
    union=PROFILE_UNION,
)

SYSCTL = struct(
    "Sysctl",
    "A kernel parameter.",
    required("name", STRING, "Its name."),
    required("value", STRING, "Its value."),
)

SECURITY_CONTEXT = struct(
    "SecurityContext",
    "Rights of one container; where it differs from the pod's, this one counts.",
    pointer("capabilities", CAPABILITIES, "Capabilities to add and to drop."),
    pointer("privileged", BOOLEAN, "Whether it is as good as root on the node."),
    pointer("seLinuxOptions", SE_LINUX_OPTIONS, "SELinux labels."),
    pointer("windowsOptions", WINDOWS_OPTIONS, "What applies on Windows."),
    pointer("runAsUser", INT64, "User id of the container's process."),
    pointer("runAsGroup", INT64, "Group id of the container's process."),
    pointer("runAsNonRoot", BOOLEAN, "Whether to refuse to run as root."),
    pointer("readOnlyRootFilesystem", BOOLEAN, "Whether the root file system is read-only."),
    pointer("allowPrivilegeEscalation", BOOLEAN, "Whether a process may gain more rights."),
    Field(
        "procMount", STRING, "How /proc is mounted.", is_pointer=True, enum=("Default", "Unmasked")
    ),
    pointer("seccompProfile", SECCOMP_PROFILE, "Seccomp profile."),
    pointer("appArmorProfile", APP_ARMOR_PROFILE, "AppArmor profile."),
)

POD_SECURITY_CONTEXT = struct(
    "PodSecurityContext",
    "Rights of all containers of a pod.",
    pointer("seLinuxOptions", SE_LINUX_OPTIONS, "SELinux labels."),
    pointer("windowsOptions", WINDOWS_OPTIONS, "What applies on Windows."),
    pointer("runAsUser", INT64, "User id of the containers' processes."),
    pointer("runAsGroup", INT64, "Group id of the containers' processes."),
    pointer("runAsNonRoot", BOOLEAN, "Whether to refuse to run as root."),
    Field("supplementalGroups", List(INT64), "Further groups of the processes."),
    Field(
        "supplementalGroupsPolicy",
        STRING,
        "Whether the image's groups count too.",
        is_pointer=True,
        enum=("Merge", "Strict"),
    ),
    pointer("fsGroup", INT64, "Group that owns the volumes."),
    Field("sysctls", List(SYSCTL), "Kernel parameters of the pod."),
    Field(
        "fsGroupChangePolicy",
        STRING,
        "When to change the owner of a volume's files.",
        is_pointer=True,
        enum=("Always", "OnRootMismatch"),
    ),
    pointer("seccompProfile", SECCOMP_PROFILE, "Seccomp profile."),
    pointer("appArmorProfile", APP_ARMOR_PROFILE, "AppArmor profile."),
    pointer("seLinuxChangePolicy", STRING, "How volumes get their SELinux label."),
)
