/**
 * The manifests of packaging/kubernetes, without a cluster: their objects against the types of the Kubernetes API, what they name against what
 * is there, and their containers as processes on one PostgreSQL database, with the same arguments, variables and probes.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import ts from 'typescript';
import { parse, parseAllDocuments } from 'yaml';
import { type CoreConfig, coreConfig } from '../../src/config/core.ts';
import { withTheTest } from '../helpers/built-daemon.ts';
import { chainMissing, startChain } from '../helpers/chain.ts';
import { runCommand } from '../helpers/daemon.ts';
import { HOW_TO_INSTALL, packageFolder } from '../helpers/packages.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { postgresDatabase } from '../helpers/store.ts';
import { until } from '../helpers/until.ts';

const root = findProjectRoot();
const BASE = `${root}packaging/kubernetes/base/`;
const EXAMPLE = `${root}packaging/kubernetes/example/`;
const MAIN = `${root}dist/src/cli/main.js`;

interface Kustomization {
  readonly resources: readonly string[];
  readonly configMapGenerator: readonly { readonly name: string; readonly files: readonly string[] }[];
  readonly images: readonly { readonly name: string; readonly newName: string; readonly newTag: string }[];
  readonly replicas?: readonly { readonly name: string; readonly count: number }[];
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}
interface Container {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
  readonly resources: object;
  readonly securityContext: object;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[];
}
interface Volume {
  readonly name: string;
  readonly configMap?: { readonly name: string };
  readonly secret?: { readonly secretName: string };
}
type Labels = Readonly<Record<string, string>>;
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Labels };
  readonly spec?: {
    readonly replicas?: number;
    readonly serviceName?: string;
    readonly maxUnavailable?: number;
    readonly selector?: Labels & { readonly matchLabels?: Labels };
    readonly podSelector?: { readonly matchLabels: Labels };
    readonly ingress?: readonly { readonly ports: readonly { readonly port: string }[]; readonly from?: unknown }[];
    readonly ports?: readonly { readonly name: string; readonly port: number; readonly targetPort: string }[];
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
    readonly template?: {
      readonly metadata: { readonly labels: Labels; readonly annotations: Labels };
      readonly spec: {
        readonly serviceAccountName: string;
        readonly automountServiceAccountToken: boolean;
        readonly terminationGracePeriodSeconds: number;
        readonly securityContext: object;
        readonly containers: readonly [Container];
        readonly volumes: readonly Volume[];
      };
    };
  };
}

const readKustomization = (folder: string) =>
  parse(readFileSync(`${folder}kustomization.yaml`, 'utf8')) as Kustomization;
const base = readKustomization(BASE);
const objects = base.resources.flatMap((file) =>
  parseAllDocuments(readFileSync(BASE + file, 'utf8')).map((document) => {
    assert.deepEqual(document.errors, [], file);
    return document.toJS() as Manifest;
  }),
);
const ofKind = (...kinds: readonly string[]) => objects.filter(({ kind }) => kinds.includes(kind));
const workloads = ofKind('Deployment', 'StatefulSet').map((object) => {
  const { metadata, spec: pod } = object.spec!.template!;
  return { object, name: object.metadata.name, labels: metadata.labels, pod, container: pod.containers[0] };
});
const byName = (suffix: string) => workloads.find(({ name }) => name === `parhelion-${suffix}`)!;
const selects = (selector: Labels, labels: Labels) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

test('every file of the folder is part of it', () => {
  const named = [...base.resources, ...base.configMapGenerator.flatMap(({ files }) => files), 'kustomization.yaml'];
  assert.deepEqual(readdirSync(BASE).sort(), named.sort());
});

/** The groups of the API, as their types are named. */
const TYPES: Readonly<Record<string, string>> = {
  v1: 'core/v1',
  'apps/v1': 'apps/v1',
  'policy/v1': 'policy/v1',
  'networking.k8s.io/v1': 'networking/v1',
};

/** What TypeScript says about objects that are written down as these types: unknown members, missing ones and wrong values. */
function mistakesIn(list: readonly Manifest[]): string[] {
  const text = list.map((object, at) => {
    const type = `import('kubernetes-types/${TYPES[object.apiVersion]}').${object.kind}`;
    return `export const object${at}: ${type} = ${JSON.stringify(object)};`;
  });
  const file = join(root, 'test/packaging/manifests-as-types.ts');
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    types: [],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => path === file || fileExists(path);
  host.getSourceFile = (path, version, ...rest) =>
    path === file ? ts.createSourceFile(path, text.join('\n'), version) : getSourceFile(path, version, ...rest);
  const found = ts.getPreEmitDiagnostics(ts.createProgram([file], options, host));
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
}

const noTypes = packageFolder('kubernetes-types') === null ? `not installed: ${HOW_TO_INSTALL}` : false;

test('objects are what the API of Kubernetes takes', { skip: noTypes }, () => {
  assert.deepEqual(mistakesIn(objects), []);
  const { object } = byName('api');
  const spoilt = JSON.parse(JSON.stringify(object).replace('"readinessProbe"', '"readynessProbe"')) as Manifest;
  assert.match(mistakesIn([spoilt]).join(), /readynessProbe/, 'the check sees a difference');
  assert.notDeepEqual(mistakesIn([{ ...object, spec: { ...object.spec, replicas: '2' } } as unknown as Manifest]), []);
});

test('what an object names is there: labels, ports, volumes, accounts', () => {
  assert.deepEqual(
    workloads.map(({ name }) => name).sort(),
    ['api', 'deliverer', 'indexer'].map((role) => `parhelion-${role}`),
  );
  for (const { object, labels, pod, container } of workloads) {
    const { selector, volumeClaimTemplates = [], replicas, serviceName } = object.spec!;
    assert.ok(
      selects(selector!.matchLabels!, labels) &&
        workloads.filter((one) => selects(selector!.matchLabels!, one.labels)).length === 1,
    );
    const volumes = [...pod.volumes, ...volumeClaimTemplates.map(({ metadata }) => metadata)].map(({ name }) => name);
    assert.deepEqual(container.volumeMounts.map(({ name }) => name).sort(), volumes.sort());
    for (const { configMap, secret } of pod.volumes) {
      if (configMap !== undefined) assert.ok(base.configMapGenerator.some(({ name }) => name === configMap.name));
      if (secret !== undefined) assert.equal(secret.secretName, 'parhelion');
    }
    assert.ok(ofKind('ServiceAccount').some(({ metadata }) => metadata.name === pod.serviceAccountName));
    assert.deepEqual(
      base.images.map(({ name }) => name),
      [container.image],
    );
    assert.ok((replicas ?? 1) >= 2, 'a node may fail');
    const ports = container.ports.map(({ name }) => name);
    for (const probe of [container.startupProbe, container.livenessProbe, container.readinessProbe])
      assert.ok(ports.includes(probe.httpGet.port));
    if (object.kind === 'StatefulSet')
      assert.ok(ofKind('Service').some(({ metadata }) => metadata.name === serviceName));
    const budgets = ofKind('PodDisruptionBudget').filter(({ spec }) => selects(spec!.selector!.matchLabels!, labels));
    assert.deepEqual(
      budgets.map(({ spec }) => spec!.maxUnavailable),
      [1],
    );
  }
  for (const { spec } of ofKind('Service')) {
    const chosen = workloads.filter(({ labels }) => selects(spec!.selector!, labels));
    assert.equal(chosen.length, 1);
    const ports = chosen[0]!.container.ports;
    for (const { targetPort, port } of spec!.ports!)
      assert.equal(ports.find(({ name }) => name === targetPort)?.containerPort, port);
  }
  for (const { spec } of ofKind('NetworkPolicy')) {
    assert.ok(workloads.every(({ labels }) => selects(spec!.podSelector!.matchLabels, labels)));
    // Health, metrics and operator routes need no key: never open to all.
    for (const { ports, from } of spec!.ingress!)
      assert.ok(from !== undefined || ports.every(({ port }) => port === 'http' || port === 'websocket'));
  }
});

test('pods have no right that they do not need, and time to end', () => {
  const { drainTimeoutMs, stopTimeoutMs } = (Value.Default(coreConfig, {}) as CoreConfig).lifecycle;
  for (const { pod, container } of workloads) {
    assert.deepEqual(pod.securityContext, {
      runAsUser: 1000,
      runAsGroup: 1000,
      fsGroup: 1000,
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    assert.deepEqual(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    assert.equal(pod.automountServiceAccountToken, false);
    const pause = Number(container.lifecycle?.preStop.exec.command[1] ?? 0);
    assert.ok(pod.terminationGracePeriodSeconds * 1_000 > pause * 1_000 + drainTimeoutMs + stopTimeoutMs);
  }
});

interface Pod {
  readonly role: string;
  readonly env: Readonly<Record<string, string>>;
  output(): string;
  addresses(): Promise<{ readonly api: string | null; readonly admin: string }>;
  /** Returns the exit code. */
  stop(signal: NodeJS.Signals): Promise<number | null>;
}
/** Folders of the volumes. */
type Places = Readonly<Record<string, string>>;

/** Where a path of the container is here. */
function placeOf(path: string, { volumeMounts }: Container, places: Places): string {
  const mount = volumeMounts.find(({ mountPath }) => path === mountPath || path.startsWith(`${mountPath}/`));
  return mount === undefined ? path : places[mount.name]! + path.slice(mount.mountPath.length);
}

function variablesOf(container: Container, places: Places): Record<string, string> {
  const [, ofImage] = /^ENV ((?:.*\\\n)*.*)$/m.exec(readFileSync(`${root}Dockerfile`, 'utf8'))!;
  const pairs = ofImage!.match(/\w+=\S+/g)!.map((pair) => pair.split('=') as [string, string]);
  const own = container.env.map(({ name, value }) => [name, value] as const);
  const placed = [...pairs, ...own].map(([name, text]) => [name, placeOf(text, container, places)] as const);
  return Object.fromEntries(placed);
}

/** One container as a process. */
function startPod(container: Container, places: Places): Pod {
  // Pods have addresses of their own; here they share one, and nobody else may reach it.
  const here = Object.fromEntries(
    ['HTTP', 'ADMIN'].flatMap((name) => [
      [`PARHELION_${name}__HOST`, '127.0.0.1'],
      [`PARHELION_${name}__PORT`, '0'],
    ]),
  ) as Record<string, string>;
  const env = { PATH: process.env['PATH']!, ...variablesOf(container, places), ...here };
  const role = container.args[container.args.indexOf('--role') + 1]!;
  const args = container.args.map((arg) => placeOf(arg, container, places));
  const [command, ...rest] = [...withTheTest(), process.execPath, MAIN, ...args];
  const data = places['data']!;
  const child = spawn(command!, rest, { cwd: data, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const gone = once(child, 'close');
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return {
    role,
    env,
    output: () => output,
    async addresses() {
      const file = join(data, `run-${role}.json`);
      await until(() => {
        assert.equal(child.exitCode, null, output);
        return existsSync(file);
      });
      return JSON.parse(readFileSync(file, 'utf8'));
    },
    async stop(signal) {
      if (child.exitCode === null) child.kill(signal);
      await gone;
      return child.exitCode;
    },
  };
}

/** The status that the kubelet or Prometheus gets: they name the address of a pod as the host. */
async function statusFor(admin: string, path: string): Promise<number | undefined> {
  const { hostname, port } = new URL(admin);
  const request = get({ hostname, port, path, headers: { host: `10.1.2.3:${port}` } });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

const missing = (await chainMissing()) ?? (existsSync(MAIN) ? null : 'not built: npm run build');
if (missing !== null) console.error(`SKIPPED: ${missing}`);

/** Files of the Secret, and a folder of the configuration. */
function prepare(t: TestContext, secrets: Readonly<Record<string, string>>, file: string) {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-pods-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const folder = (name: string) => {
    mkdirSync(join(dir, name));
    return join(dir, name);
  };
  const [configuration, secret] = [folder('configuration'), folder('secrets')];
  writeFileSync(join(configuration, 'parhelion.yaml'), readFileSync(file));
  for (const [name, text] of Object.entries(secrets)) writeFileSync(join(secret, name), `${text}\n`);
  const placesOf = (pod: string) => ({
    configuration,
    secrets: secret,
    data: folder(`${pod}-data`),
    tmp: folder(`${pod}-tmp`),
  });
  return { dir, placesOf };
}

test('the configurations, with the variables of each container, are accepted', async (t) => {
  const secrets = {
    'store-url': 'postgres://a:b@db/c',
    'upstream-urls': 'https://a.example https://b.example',
    'operator-token': 'a token of our own',
  };
  const told = [...readFileSync(`${root}docs/how-to/kubernetes.md`, 'utf8').matchAll(/--from-file=([\w-]+)/g)];
  assert.deepEqual(
    told.map(([, name]) => name),
    Object.keys(secrets),
    'the page',
  );
  for (const folder of [BASE, EXAMPLE]) {
    const { placesOf } = prepare(t, secrets, `${folder}parhelion.yaml`);
    for (const { name, container } of workloads) {
      const places = placesOf(name);
      const file = placeOf(container.args[container.args.indexOf('--config') + 1]!, container, places);
      const { code, err } = await runCommand(['check-config', '--config', file], {
        env: variablesOf(container, places),
      });
      assert.equal(code, 0, `${name}: ${err}`);
    }
  }
});

test('the overlay of the page changes what is there', () => {
  const { images, replicas, configMapGenerator, resources } = readKustomization(EXAMPLE);
  assert.deepEqual(resources, ['../base']);
  assert.deepEqual(
    images.map(({ name }) => name),
    base.images.map(({ newName }) => newName),
  );
  assert.ok(replicas!.every(({ name }) => workloads.some((one) => one.name === name)));
  assert.deepEqual(
    configMapGenerator.map(({ name }) => name),
    base.configMapGenerator.map(({ name }) => name),
  );
  const keys = (text: string, prefix = ''): string[] =>
    Object.entries(parse(text) as object).flatMap(([key, value]) =>
      value !== null && typeof value === 'object' && !Array.isArray(value)
        ? keys(JSON.stringify(value), `${prefix}${key}.`)
        : [prefix + key],
    );
  const [own, wanted] = [EXAMPLE, BASE].map((folder) => keys(readFileSync(`${folder}parhelion.yaml`, 'utf8'))) as [
    string[],
    string[],
  ];
  assert.deepEqual(
    wanted.filter((key) => !own.includes(key)),
    [],
  );
});

test('the containers run as processes on one PostgreSQL database: probes answer, and a request', {
  skip: missing ?? false,
}, async (t) => {
  const chain = await startChain({ slotMs: 200, time: { kind: 'wall' } });
  t.after(() => chain.stop());
  const { url } = await postgresDatabase(t);
  const secrets = { 'store-url': url, 'upstream-urls': chain.rpcUrl, 'operator-token': 'a token of our own' };
  const { dir, placesOf } = prepare(t, secrets, `${BASE}parhelion.yaml`);
  const pods = ['api', 'indexer', 'indexer', 'deliverer'].map((role, at) =>
    startPod(byName(role).container, placesOf(`${role}-${at}`)),
  );
  t.after(() => Promise.all(pods.map((pod) => pod.stop('SIGKILL'))));
  for (const pod of pods) {
    const { admin } = await pod.addresses();
    const { object, container } = byName(pod.role);
    const { startupProbe, livenessProbe, readinessProbe } = container;
    for (const { httpGet } of [startupProbe, livenessProbe]) assert.equal(await statusFor(admin, httpGet.path), 200);
    const isReady = async () => (await statusFor(admin, readinessProbe.httpGet.path)) === 200;
    await until(isReady, `${pod.role} is ready`).catch((error) => assert.fail(`${error}\n${pod.output()}`));
    const { annotations } = object.spec!.template!.metadata;
    assert.equal(await statusFor(admin, annotations['prometheus.io/path']!), 200);
    assert.equal(
      Number(annotations['prometheus.io/port']),
      container.ports.find(({ name }) => name === 'admin')!.containerPort,
    );
  }
  const [api] = pods as [Pod];
  const { api: address, admin } = await api.addresses();
  // kubectl exec: in the container, so with its variables.
  const exec = (...args: string[]) => {
    const options = {
      cwd: dir,
      env: { ...api.env, PARHELION_CONFIG: join(dir, 'configuration/parhelion.yaml') },
      encoding: 'utf8',
    } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args, '--json'], options);
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout) as Readonly<Record<string, string>>;
  };
  const project = exec('projects', 'create', '--name', 'first');
  const { key } = exec('keys', 'create', '--project', project['id']!);
  const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}';
  const answer = await fetch(`${address}/?api-key=${key}`, { method: 'POST', body });
  assert.equal(typeof ((await answer.json()) as { result?: number }).result, 'number');
  assert.equal((await fetch(`${admin}/dashboard`)).status, 200);
  const standing = await Promise.all(
    pods
      .filter(({ role }) => role === 'indexer')
      .map(async (pod) => {
        const { admin: own } = await pod.addresses();
        return /parhelion_follow_leading(?:\{[^}]*\})? 1$/m.test(await (await fetch(`${own}/metrics`)).text());
      }),
  );
  assert.deepEqual(standing.sort(), [false, true], 'one leads');
  assert.deepEqual(await Promise.all(pods.map((pod) => pod.stop('SIGTERM'))), [0, 0, 0, 0]);
});

const kustomize = [
  ['kustomize', 'build'],
  ['kubectl', 'kustomize'],
].find(([program]) => spawnSync('which', [program!]).status === 0);
if (kustomize === undefined) console.error('SKIPPED: not installed: kustomize, kubectl');

test('kustomize makes the same objects', {
  skip: kustomize === undefined ? 'not installed: kustomize, kubectl' : false,
}, () => {
  for (const folder of [BASE, EXAMPLE]) {
    const { status, stdout, stderr } = spawnSync(kustomize![0]!, [kustomize![1]!, folder], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    const made = parseAllDocuments(stdout).map((document) => document.toJS() as Manifest);
    assert.equal(made.length, objects.length + base.configMapGenerator.length);
    assert.ok(!stdout.includes('image: parhelion\n'), 'an image without a registry');
  }
});
