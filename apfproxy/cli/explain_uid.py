"""`apfproxy explain --uid`: the objects that answers name by their UIDs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click
import msgspec

from apfproxy.admin.objects_page import PATH
from apfproxy.cli.admin_client import fetch_as, of_cluster
from apfproxy.cli.errors import OK, CommandError
from apfproxy.cli.offline import offline_controller
from apfproxy.cli.terminal_text import aligned, shown
from apfproxy.flowcontrol.level_summary import NamedObject, named_objects, with_uid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.settings import Address

COLUMNS = ("UID", "KIND", "NAME", "WHAT")
UNKNOWN_ONLINE = (
    "the proxy has no object with UID {uid}; it may be of an object that was deleted or replaced"
    " since, of another proxy, or of the server behind"
)
UNKNOWN_OFFLINE = (
    "neither the built-in objects nor those of --objects have UID {uid}; objects of a Kubernetes"
    " API or of a store have UIDs of their own, which a running proxy knows: --admin"
)


def explain_uids(
    uids: Sequence[str],
    admin: Address | None,
    cluster: str | None,
    objects: dict[str, Any],
    output: str,
) -> int:
    """Say of each UID which object it is; without an address no proxy is asked.

    CommandError if one of them is unknown; what is known of the others is printed before.
    """
    found: list[NamedObject] = []
    unknown: list[str] = []
    if admin is None:
        controller = offline_controller(objects.pop("objects"), **objects)
    for uid in (given.strip() for given in uids):
        if admin is None:
            objects_of_uid = with_uid(named_objects(controller), uid)
        else:
            page = of_cluster(cluster, f"{PATH}?uid={quote(uid)}")
            objects_of_uid = fetch_as(admin, page, list[NamedObject])
        found += objects_of_uid
        if not objects_of_uid:
            message = UNKNOWN_OFFLINE if admin is None else UNKNOWN_ONLINE
            unknown.append(message.format(uid=shown(uid)))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        rows = [[each.uid, each.kind, shown(each.name), shown(each.what)] for each in found]
        for line in aligned(COLUMNS, rows, frozenset()) if rows else ():
            click.echo(line)
    if unknown:
        raise CommandError(*unknown)
    return OK
