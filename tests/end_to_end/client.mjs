// client.mjs URL MODULES: what programs do with the Kubernetes client for JavaScript.
import assert from 'node:assert/strict';

const [url, modules] = process.argv.slice(2);
const k8s = await import(`${modules}/@kubernetes/client-node/dist/index.js`);
const name = 'javascript', namespace = 'default', labelSelector = `of=${name}`;
const configMap = (data) => ({
  apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace, labels: { of: name } }, data,
});

const config = new k8s.KubeConfig();
config.loadFromClusterAndUser({ name: 'it', server: url, skipTLSVerify: true }, { name: 'it' });
const core = config.makeApiClient(k8s.CoreV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const list = () => core.listNamespacedConfigMap({ namespace, labelSelector });

const { items, metadata } = await list();
assert.deepEqual(items, []);
const informer = k8s.makeInformer(
  config, `/api/v1/namespaces/${namespace}/configmaps`, list, labelSelector);
const seen = [];
const deleted = new Promise((resolve, reject) => {
  informer.on('add', (object) => seen.push(['add', object.data]));
  informer.on('update', (object) => seen.push(['update', object.data]));
  informer.on('delete', resolve);
  informer.on('error', reject);
});
await informer.start();

await core.createNamespacedConfigMap({ namespace, body: configMap({ a: '1' }) });
await core.patchNamespacedConfigMap(
  { namespace, name, body: { data: { b: '2' } } },
  k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.StrategicMergePatch));
const applied = await objects.patch(
  configMap({ a: '3' }), undefined, undefined, 'it', true, k8s.PatchStrategy.ServerSideApply);
assert.deepEqual(applied.data, { a: '3', b: '2' });
await core.deleteNamespacedConfigMap({ namespace, name });
await deleted;
await informer.stop();
assert.deepEqual(seen, [
  ['add', { a: '1' }], ['update', { a: '1', b: '2' }], ['update', { a: '3', b: '2' }]]);

// Another watch goes on from where the list was.
const types = [];
await new Promise((resolve, reject) => {
  new k8s.Watch(config).watch(
    `/api/v1/namespaces/${namespace}/configmaps`,
    { labelSelector, resourceVersion: metadata.resourceVersion, timeoutSeconds: 1 },
    (type) => types.push(type),
    (error) => (error ? reject(error) : resolve())).catch(reject);
});
assert.deepEqual(types, ['ADDED', 'MODIFIED', 'MODIFIED', 'DELETED']);
