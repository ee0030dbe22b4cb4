"""What is wrong with volumes.

Source: Kubernetes documentation, "Volumes"; the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.api.core.checks import (
    backsteps,
    check_key,
    descending,
    file_mode,
    filled,
    in_range,
    named,
    number_in,
    one_of,
    unreserved,
)
from apfproxy.api.core.container_schema import PULL_POLICIES
from apfproxy.api.core.volume_schema import HOST_PATH_TYPES
from apfproxy.api.field_errors import (
    FieldError,
    checked,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from apfproxy.api.names import check_dns_label, check_dns_subdomain, check_qualified_name
from apfproxy.api.quantity import parse
from apfproxy.api.selectors.labels import validate_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable

HIGHEST_PARTITION = HIGHEST_LUN = 255
SHORTEST_TOKEN_S = 600
LONGEST_TOKEN_S = 2**32
LONGEST_CSI_DRIVER = 63
AZURE_MANAGED = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}"
    "/providers/microsoft.compute/disks/{disk-id}"
)
AZURE_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"

FILE_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
"""Fields of a pod that a file can show."""
VARIABLE_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""Fields of a pod that a variable can show."""
KNOWN_FIELDS = frozenset({*FILE_FIELDS, *VARIABLE_FIELDS, "spec.restartPolicy", "status.phase"})
"""Fields of a pod that have a name here at all."""
CONTAINER_RESOURCES = tuple(
    f"{which}.{name}"
    for which in ("limits", "requests")
    for name in ("cpu", "ephemeral-storage", "memory")
)
HUGE_PAGE_RESOURCES = ("limits.hugepages-", "requests.hugepages-")
CPU_DIVISORS = frozenset({"1m", "1"})
SIZE_DIVISORS = tuple(
    f"1{suffix}" for suffix in ("", *"kMGTPE", *(f"{letter}i" for letter in "KMGTPE"))
)

REQUIRED_FIELDS: dict[str, tuple[str, ...]] = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("registry", "volume"),
    "flexVolume": ("driver",),
    "configMap": ("name",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "storageos": ("volumeName",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "ephemeral": ("volumeClaimTemplate",),
}
"""Volume source to the fields that must not be empty."""

SOURCES = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
"""In the order of looking: the first that is there is judged, and further ones are refused."""

NAMES_IN_ERRORS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources that Kubernetes calls something else where it refuses them as a further one."""
PATHS_IN_ERRORS = {"gcePersistentDisk": "persistentDisk"}
"""Sources that Kubernetes calls something else where it judges their fields."""


def validate_volumes(
    volumes: list[dict[str, Any]] | tuple[()], pod_name: str, path: str
) -> tuple[dict[str, dict[str, Any]], list[FieldError]]:
    """Judge all volumes of a pod.

    Args:
        volumes: Of the pod.
        pod_name: "" if it is not known.
        path: Of the volumes.

    Returns:
        The volumes that nothing is wrong with, by name, and all errors.
    """
    errors: list[FieldError] = []
    good: dict[str, dict[str, Any]] = {}
    made = {f"{pod_name}-{volume['name']}" for volume in volumes if "ephemeral" in volume}
    for index, volume in enumerate(volumes):
        at = f"{path}[{index}]"
        name = volume.get("name", "")
        wrong = validate_source(volume, pod_name, at)
        wrong += named(volume, "name", at, check_dns_label)
        if name in good:
            wrong.append(duplicate(f"{at}.name", name))
        if not wrong:
            good[name] = volume
        errors += wrong
        claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
        if pod_name and claim in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{at}.persistentVolumeClaim.claimName", claim, detail))
    return good, errors


def validate_source(volume: dict[str, Any], pod_name: str, path: str) -> list[FieldError]:
    """All errors of a volume's source: there has to be exactly one."""
    given = [name for name in SOURCES if name in volume]
    if not given:
        return [required(path, "must specify a volume type")]
    first, *others = given
    source = volume[first]
    at = f"{path}.{PATHS_IN_ERRORS.get(first, first)}"
    errors: list[FieldError] = []
    for name in REQUIRED_FIELDS.get(first, ()):
        errors += filled(source, name, at)
    if first in SPECIAL:
        errors += SPECIAL[first](source, at)
    if first == "ephemeral" and pod_name and volume.get("name"):
        claim = f"{pod_name}-{volume['name']}"
        errors += [
            invalid(f"{path}.name", volume["name"], f'PVC name "{claim}": {wrong}')
            for wrong in check_dns_subdomain(claim)
        ]
    errors += [
        forbidden(
            f"{path}.{NAMES_IN_ERRORS.get(name, name)}", "may not specify more than 1 volume type"
        )
        for name in others
    ]
    return errors


def validate_empty_dir(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of an empty directory."""
    if parse(source.get("sizeLimit", "0")).nano < 0:
        detail = "SizeLimit field must be a valid resource quantity"
        return [forbidden(f"{path}.sizeLimit", detail)]
    return []


def validate_host_path(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a path of the node."""
    if not source.get("path"):
        return [required(f"{path}.path")]
    errors = backsteps(f"{path}.path", source["path"])
    return errors + one_of(source, "type", path, HOST_PATH_TYPES)


def validate_git_repo(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a repository."""
    return descending(f"{path}.directory", source.get("directory", ""))


def validate_disk(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a disk that may have partitions."""
    partition = source.get("partition", 0)
    if 0 <= partition <= HIGHEST_PARTITION:
        return []
    return [invalid(f"{path}.partition", partition, in_range(0, HIGHEST_PARTITION))]


def validate_keys(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a Secret or ConfigMap whose keys become files."""
    errors = file_mode(source, "defaultMode", path)
    for index, item in enumerate(source.get("items", ())):
        errors += validate_item(item, f"{path}.items[{index}]")
    return errors


def validate_item(item: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a key that becomes a file."""
    errors = filled(item, "key", path) + filled(item, "path", path)
    errors += unreserved(f"{path}.path", item.get("path", ""))
    return errors + file_mode(item, "mode", path)


def validate_nfs(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a directory that a server exports."""
    exported = source.get("path", "")
    if exported.startswith("/"):
        return []
    return [invalid(f"{path}.path", exported, "must be an absolute path")]


def validate_iscsi(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a disk reached by iSCSI."""
    errors: list[FieldError] = []
    iqn = source.get("iqn", "")
    if iqn and not iqn.startswith(("iqn", "eui", "naa")):
        detail = "must be valid format starting with iqn, eui, or naa"
        errors.append(invalid(f"{path}.iqn", iqn, detail))
    errors += number_in(f"{path}.lun", source["lun"], 0, HIGHEST_LUN)
    needs_secret = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if needs_secret and "secretRef" not in source:
        errors.append(required(f"{path}.secretRef"))
    return errors


def validate_fc(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a disk reached by Fibre Channel."""
    errors: list[FieldError] = []
    names, ids = source.get("targetWWNs"), source.get("wwids")
    field = f"{path}.targetWWNs"
    if not names and not ids:
        errors.append(required(field, "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(field, names, detail))
    if names:
        if "lun" not in source:
            errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
        else:
            errors += number_in(f"{path}.lun", source["lun"], 0, HIGHEST_LUN)
    return errors


def validate_flocker(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a dataset."""
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors: list[FieldError] = []
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(invalid(path, "resource", detail))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def validate_cinder(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a volume of OpenStack."""
    return filled(source["secretRef"], "name", f"{path}.secretRef") if "secretRef" in source else []


def validate_azure_disk(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a disk of Azure: what it belongs to decides the form of its URI."""
    errors = one_of(source, "cachingMode", path, ("None", "ReadOnly", "ReadWrite"))
    errors += one_of(source, "kind", path, ("Dedicated", "Managed", "Shared"))
    form = AZURE_MANAGED if source.get("kind") == "Managed" else AZURE_BLOB
    uri = source.get("diskURI", "")
    if not uri.startswith(form.partition("{")[0]):
        errors.append(not_supported(f"{path}.diskURI", uri, (form,)))
    return errors


def validate_csi(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a volume of a driver."""
    driver = source.get("driver", "")
    errors: list[FieldError] = []
    if not driver:
        errors.append(required(f"{path}.driver"))
    elif len(driver) > LONGEST_CSI_DRIVER:
        errors.append(
            invalid(
                f"{path}.driver", driver, f"must be no more than {LONGEST_CSI_DRIVER} characters"
            )
        )
    else:
        errors += checked(f"{path}.driver", driver.lower(), check_dns_subdomain)
    if "nodePublishSecretRef" in source:
        at = f"{path}.nodePublishSecretRef"
        errors += named(source["nodePublishSecretRef"], "name", at, check_dns_subdomain)
    return errors


def validate_image(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of an image that is a volume."""
    return [
        *filled(source, "reference", path),
        *one_of(source, "pullPolicy", path, PULL_POLICIES, is_required=True),
    ]


def validate_downward(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of files that show fields of the pod; Kubernetes does not number them."""
    errors = file_mode(source, "defaultMode", path)
    for file in source.get("items", ()):
        errors += validate_downward_file(file, path)
    return errors


def validate_downward_file(file: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a file that shows a field of the pod."""
    errors = filled(file, "path", path)
    errors += unreserved(f"{path}.path", file.get("path", ""))
    if "fieldRef" in file:
        errors += validate_field_ref(file["fieldRef"], FILE_FIELDS, f"{path}.fieldRef")
        if "resourceFieldRef" in file:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif "resourceFieldRef" in file:
        at = f"{path}.resourceFieldRef"
        errors += validate_resource_ref(file["resourceFieldRef"], at, is_in_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + file_mode(file, "mode", path)


def validate_field_ref(
    reference: dict[str, Any], fields: tuple[str, ...], path: str
) -> list[FieldError]:
    """All errors of the name of a pod's field.

    Args:
        reference: With version and path.
        fields: That are possible here, annotations and labels by key apart.
        path: Of the reference.
    """
    name = reference.get("fieldPath", "")
    if not name:
        return [required(f"{path}.fieldPath")]
    field, bracket, rest = name.partition("['")
    is_subscript = bool(bracket) and rest.endswith("']")
    if reference.get("apiVersion") != "v1" or (not is_subscript and name not in KNOWN_FIELDS):
        detail = f"error converting fieldPath: field label not supported: {name}"
        return [invalid(f"{path}.fieldPath", name, detail)]
    if not is_subscript:
        return [] if name in fields else [not_supported(f"{path}.fieldPath", name, fields)]
    key = rest.removesuffix("']")
    if field == "metadata.annotations":
        return checked(path, key.lower(), check_qualified_name)
    if field == "metadata.labels":
        return checked(path, key, check_qualified_name)
    detail = f"error converting fieldPath: field label does not support subscript: {name}"
    return [invalid(f"{path}.fieldPath", name, detail)]


def validate_resource_ref(
    reference: dict[str, Any], path: str, *, is_in_volume: bool
) -> list[FieldError]:
    """All errors of the name of a container's request or limit."""
    errors: list[FieldError] = []
    name = reference.get("resource", "")
    if is_in_volume and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not name:
        errors.append(required(f"{path}.resource"))
    elif name not in CONTAINER_RESOURCES and not name.startswith(HUGE_PAGE_RESOURCES):
        errors.append(not_supported(f"{path}.resource", name, CONTAINER_RESOURCES))
    divisor = parse(reference["divisor"])
    if divisor.is_zero:
        return errors
    if name.endswith(".cpu"):
        if divisor.text not in CPU_DIVISORS:
            detail = "only divisor's values 1m and 1 are supported with the cpu resource"
            errors.append(invalid(f"{path}.divisor", name, detail))
    elif divisor.text not in SIZE_DIVISORS:
        kind = name.partition(".")[2].partition("-")[0]
        kind = "local ephemeral storage" if kind == "ephemeral" else kind
        rule = f"only divisor's values {', '.join(SIZE_DIVISORS)} are supported"
        detail = f"{rule} with the {kind} resource"
        errors.append(invalid(f"{path}.divisor", name, detail))
    return errors


def validate_projected(source: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of several sources in one directory: no two may write the same file."""
    errors = file_mode(source, "defaultMode", path)
    seen: set[str] = set()
    for index, one in enumerate(source.get("sources") or ()):
        at = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in one:
                errors += filled(one[kind], "name", f"{at}.{kind}")
                for number, item in enumerate(one[kind].get("items", ())):
                    errors += validate_item(item, f"{at}.{kind}.items[{number}]")
                    errors += conflicting(item, one[kind].get("name", ""), seen, path)
        for file in one.get("downwardAPI", {}).get("items", ()):
            errors += validate_downward_file(file, f"{at}.downwardAPI")
            errors += conflicting(file, file.get("path", ""), seen, path)
        if "serviceAccountToken" in one:
            errors += validate_token(one["serviceAccountToken"], f"{at}.serviceAccountToken", path)
        if "clusterTrustBundle" in one:
            bundle = one["clusterTrustBundle"]
            errors += validate_trust_bundle(bundle, f"{at}.clusterTrustBundle")
            errors += conflicting(bundle, bundle.get("path", ""), seen, path)
        if len(one) > 1:
            detail = "may not specify more than 1 volume type per source"
            errors.append(forbidden(at, detail))
    return errors


def conflicting(file: dict[str, Any], shown: str, seen: set[str], path: str) -> list[FieldError]:
    """The error of a path that another file has; the path is noted."""
    at = file.get("path", "")
    if not at:
        return []
    if at in seen:
        return [invalid(path, shown, "conflicting duplicate paths")]
    seen.add(at)
    return []


def validate_token(token: dict[str, Any], path: str, volume_path: str) -> list[FieldError]:
    """All errors of a token's file; Kubernetes gives its path as the volume's."""
    errors: list[FieldError] = []
    seconds = token.get("expirationSeconds", 0)
    if seconds < SHORTEST_TOKEN_S:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
    if seconds > LONGEST_TOKEN_S:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
    errors += filled(token, "path", volume_path)
    return errors + unreserved(f"{volume_path}.path", token.get("path", ""))


def validate_trust_bundle(bundle: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of certificates to trust, by name or by signer."""
    errors: list[FieldError] = []
    if "name" in bundle and "signerName" in bundle:
        errors.append(invalid(path, bundle, "only one of name and signerName may be used"))
    elif "name" in bundle:
        if not bundle["name"]:
            errors.append(required(f"{path}.name", "must be a valid object name"))
        if "labelSelector" in bundle:
            detail = "labelSelector must be unset if name is specified"
            errors.append(invalid(f"{path}.labelSelector", bundle["labelSelector"], detail))
    elif "signerName" in bundle:
        if not bundle["signerName"]:
            errors.append(required(f"{path}.signerName", "must be a valid signer name"))
        errors += validate_label_selector(bundle.get("labelSelector"), f"{path}.labelSelector")
    else:
        errors.append(required(path, "either name or signerName must be specified"))
    errors += filled(bundle, "path", path)
    return errors + unreserved(f"{path}.path", bundle.get("path", ""))


def validate_key_selector(selector: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of the name of an object and of its key."""
    errors = checked(f"{path}.name", selector.get("name", ""), check_dns_subdomain)
    return errors + named(selector, "key", path, check_key)


SPECIAL: dict[str, Callable[[dict[str, Any], str], list[FieldError]]] = {
    "emptyDir": validate_empty_dir,
    "hostPath": validate_host_path,
    "gitRepo": validate_git_repo,
    "gcePersistentDisk": validate_disk,
    "awsElasticBlockStore": validate_disk,
    "secret": validate_keys,
    "configMap": validate_keys,
    "nfs": validate_nfs,
    "iscsi": validate_iscsi,
    "fc": validate_fc,
    "flocker": validate_flocker,
    "cinder": validate_cinder,
    "azureDisk": validate_azure_disk,
    "csi": validate_csi,
    "image": validate_image,
    "downwardAPI": validate_downward,
    "projected": validate_projected,
}
"""Volume source to what is judged besides the fields that it needs."""
