"""An informer, made with the Kubernetes client for Python, follows a server that is restarted."""

from __future__ import annotations

import importlib
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.end_to_end.api_servers import (
    in_thread,
    proxy,
    restarted,
    url_of,
)
from tests.end_to_end.informer import NUMBER, Away, Informer, Seen
from tests.end_to_end.programs import free_port

if TYPE_CHECKING:
    from pathlib import Path

client: Any = importlib.import_module("kubernetes.client")

ENDS = (signal.SIGTERM, signal.SIGKILL)
WRITES = 40
"""In each life of the server."""
NAMES = 4
STEPS = ("create", "replace", "patch", "replace", "delete")
"""Says what becomes of an object, over and over."""
LAST = "last"
WITHIN_S = 100


def slices_of(url: str) -> Any:  # noqa: ANN401  a class of the client
    configuration = client.Configuration()
    configuration.host = url
    configuration.retries = False
    return client.ResourceV1Api(client.ApiClient(configuration))


def resource_slice(name: str, number: int) -> Any:  # noqa: ANN401  an object of the client
    return client.V1ResourceSlice(
        metadata=client.V1ObjectMeta(name=name, annotations={NUMBER: str(number)}),
        spec=client.V1ResourceSliceSpec(
            driver="gpu.example.com",
            node_name="node-a",
            pool=client.V1ResourcePool(name="node-a", generation=1, resource_slice_count=1),
            devices=[],
        ),
    )


class Writer:
    """Writes without a pause, each write with the next number, until all servers have lived."""

    def __init__(self, slices: Any) -> None:  # noqa: ANN401  a class of the client
        self.done: list[Seen] = []
        self._slices = slices
        self._away = Away()
        self._counted = threading.Semaphore(0)

    def run(self, stop: threading.Event) -> None:
        number = 0
        while not stop.is_set():
            name = f"slice-{number % NAMES}"
            self._write(STEPS[number // NAMES % len(STEPS)], name, number + 1)
            number += 1
            self._counted.release()
        self._write("create", LAST, number + 1)

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self._counted.acquire(timeout=WITHIN_S), "the writer is stuck"

    def _write(self, step: str, name: str, number: int) -> None:
        while True:
            try:
                self.done.append(getattr(self, f"_{step}")(name, number))
            except Exception as error:  # noqa: BLE001  raised again unless the server is away
                self._away.wait(error)
            else:
                return

    def _create(self, name: str, number: int) -> Seen:
        try:
            made = self._slices.create_resource_slice(resource_slice(name, number))
        except client.ApiException as error:
            if error.status != 409:
                raise
            made = self._slices.read_resource_slice(name)  # made before, but not answered
        return Seen("ADDED", name, int(made.metadata.resource_version), number)

    def _patch(self, name: str, number: int) -> Seen:
        patch = {"metadata": {"annotations": {NUMBER: str(number)}}}
        made = self._slices.patch_resource_slice(name, patch)
        return Seen("MODIFIED", name, int(made.metadata.resource_version), number)

    def _replace(self, name: str, number: int) -> Seen:
        made = self._slices.read_resource_slice(name)
        if made.metadata.annotations[NUMBER] != str(number):
            made.metadata.annotations = {NUMBER: str(number)}
            made = self._slices.replace_resource_slice(name, made)
        return Seen("MODIFIED", name, int(made.metadata.resource_version), number)

    def _delete(self, name: str, _number: int) -> Seen:
        before = next(one for one in reversed(self.done) if one.name == name)
        try:
            self._slices.delete_resource_slice(name)
        except client.ApiException as error:
            if error.status != 404:
                raise
        # Its answer has the object as it was; only watches tell the version of the deletion.
        return Seen("DELETED", name, 0, before.number)


def test_no_event_is_missed(tmp_path: Path) -> None:
    """Through stops and kills an informer sees each version of each object once, in order."""
    stop = threading.Event()
    with (
        restarted(tmp_path / "store.db", free_port()) as server,
        in_thread(proxy(server.port)) as port,
        ThreadPoolExecutor(2) as pool,
    ):
        server.start()
        slices = slices_of(url_of(port))
        informer, writer = Informer(slices.list_resource_slice), Writer(slices_of(url_of(port)))
        following = pool.submit(informer.run, lambda one: one.name == LAST)
        writing = pool.submit(writer.run, stop)
        try:
            for number in ENDS:
                writer.wait_for(WRITES)
                server.end(number)
                server.start()
            writer.wait_for(WRITES)
        finally:
            stop.set()
        writing.result(WITHIN_S)
        following.result(WITHIN_S)

    assert [(one.type, one.name, one.number) for one in writer.done] == [
        (one.type, one.name, one.number) for one in informer.seen
    ]
    assert [one for one in writer.done if one.version] == [
        one for one in informer.seen if one.type != "DELETED"
    ]
    versions = [one.version for one in informer.seen]
    assert sorted(set(versions)) == versions
    assert 1 == informer.lists
    assert informer.watches > len(ENDS)
