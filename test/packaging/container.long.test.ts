import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { DockerfileParser, type Instruction } from 'dockerfile-ast';
import { validate } from 'dockerfile-utils';
import { parse } from 'yaml';
import { checkUpstream } from '../../src/cli/load-config.ts';
import { builtInDir } from '../../src/cli/package-files.ts';
import { type CoreConfig, coreConfig } from '../../src/config/core.ts';
import { readEnvironment } from '../../src/config/env.ts';
import { assembleSchema } from '../../src/config/schema.ts';
import { findPlugins } from '../../src/daemon/registry.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { contextEntries } from './build-context.ts';

const root = findProjectRoot();
const read = (name: string) => readFileSync(root + name, 'utf8');
const dockerfile = read('Dockerfile');
const instructions = DockerfileParser.parse(dockerfile).getInstructions();
const argumentsOf = (keyword: string, list: readonly Instruction[] = instructions) =>
  list.filter((one) => one.getKeyword() === keyword).map((one) => one.getArgumentsContent() ?? '');
const lastStage = instructions.slice(instructions.findLastIndex((one) => one.getKeyword() === 'FROM'));
const manifest = JSON.parse(read('package.json')) as { readonly files: string[]; readonly engines: { node: string } };
const schema = assembleSchema(await findPlugins([], { builtInDir, baseDir: root, packageDirs: [root] }));
const defaults = Value.Default(coreConfig, {}) as CoreConfig;

interface Service {
  readonly image?: string;
  readonly command?: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly stop_grace_period?: string;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
}
interface Compose {
  readonly services: Readonly<Record<'parhelion' | 'postgres', Service>>;
  readonly volumes: object;
}
const [trial, production] = ['compose.yaml', 'compose.production.yaml'].map((name) => parse(read(name)) as Compose) as [
  Compose,
  Compose,
];

/** What the configuration makes of these variables. */
async function overrides(environment: Readonly<Record<string, string>>) {
  const { overrides: found, problems } = await readEnvironment(schema, environment, () => '');
  assert.deepEqual(problems, []);
  return new Map(found.map(({ path, value }) => [path.join('.'), value]));
}

test('the linter of Dockerfiles has nothing to say', () => {
  const found = validate(dockerfile).map(({ message, range }) => `${range.start.line + 1}: ${message}`);
  assert.deepEqual(found, []);
  assert.notDeepEqual(validate(dockerfile.replace('USER node', 'USERS node')), []);
});

/** As much of the linter's types as this needs; its own cannot be resolved here. */
interface ComposeLinter {
  lintFiles(paths: readonly string[], isRecursive: boolean): readonly { readonly messages: readonly LintMessage[] }[];
}
interface LintMessage {
  readonly type: string;
  readonly rule: string;
  readonly message: string;
}

test('the linter of Compose finds no error', async (t) => {
  const { DCLinter } = (await import('dclint')) as unknown as { DCLinter: new (config: object) => ComposeLinter };
  // Its opinions on order and style are warnings.
  const errorsOf = (path: string) =>
    new DCLinter({ rules: {}, quiet: false, debug: false, exclude: [] })
      .lintFiles([path], false)
      .flatMap(({ messages }) => messages.filter(({ type }) => type === 'error').map(({ message }) => message));
  for (const name of ['compose.yaml', 'compose.production.yaml']) assert.deepEqual(errorsOf(root + name), [], name);
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-compose-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  writeFileSync(join(dir, 'compose.yaml'), read('compose.yaml').replace('read_only:', 'readonly:'));
  assert.match(errorsOf(join(dir, 'compose.yaml')).join(), /additional properties|readonly/i, 'it sees a difference');
});

test('the image runs without privileges, on a Node that the program is for, and tells its health', () => {
  assert.deepEqual(argumentsOf('USER', lastStage), ['node']);
  const after = lastStage.slice(lastStage.findIndex((one) => one.getKeyword() === 'USER'));
  assert.deepEqual(argumentsOf('RUN', after), [], 'something is done as its user');
  const bases = argumentsOf('FROM').map((base) => /^node:(\d+)\.(\d+)\.\d+-/.exec(base)!.slice(1).map(Number));
  const [least, minor] = /(\d+)\.(\d+)/.exec(manifest.engines.node)!.slice(1).map(Number);
  for (const [major, patch] of bases)
    assert.ok(major! > least! || (major === least && patch! >= minor!), String(bases));
  assert.deepEqual(bases[0], bases[1], 'native parts are compiled for another Node');
  assert.match(argumentsOf('HEALTHCHECK', lastStage)[0]!, /"parhelion", "healthcheck"/);
});

test('its environment is configuration, and its ports are the defaults', async () => {
  const pairs = argumentsOf('ENV', lastStage).flatMap((text) => text.match(/\w+=\S+/g) ?? []);
  const found = await overrides(Object.fromEntries(pairs.map((pair) => pair.split('=') as [string, string])));
  assert.deepEqual(Object.fromEntries(found), { dataDir: '/data', 'http.host': '0.0.0.0' });
  assert.deepEqual(argumentsOf('VOLUME', lastStage), ['/data']);
  const { port } = defaults.http;
  assert.deepEqual(argumentsOf('EXPOSE', lastStage), [`${port} ${port + 1}`]);
});

test('the build sees all that the package holds, and nothing that is not there', () => {
  const entries = contextEntries().filter((entry) => !entry.includes('*'));
  for (const entry of entries) assert.ok(existsSync(root + entry), entry);
  const needed = [
    ...manifest.files.filter((name) => name !== 'dist' && !name.startsWith('!')),
    'package.json',
    'package-lock.json',
    'build.mjs',
    'packaging',
  ];
  assert.deepEqual(
    needed.filter((name) => !entries.includes(name)),
    [],
  );
  const fromContext = instructions.filter((one) => !one.getTextContent().includes('--from='));
  for (const copied of argumentsOf('COPY', fromContext)) {
    for (const path of copied.split(' ').slice(0, -1)) assert.ok(path === '.' || entries.includes(path), path);
  }
});

/** What Compose makes of a value without variables around it: what stands behind `:-`. */
const withoutVariables = (text: string) => text.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1');

test('compose without an edit: a local chain, kept in its volume, with the ports of the defaults', async () => {
  const { services, volumes } = trial;
  assert.deepEqual(Object.keys(services), ['parhelion']);
  const { environment, command, ports } = services.parhelion;
  assert.doesNotMatch(
    withoutVariables(read('compose.yaml').replaceAll(/^#.*$/gm, '')),
    /\$/,
    'a variable has to be set',
  );
  assert.deepEqual(command, ['serve'], 'no file of configuration');
  const plain = Object.fromEntries(Object.entries(environment).map(([name, text]) => [name, withoutVariables(text)]));
  const found = await overrides(plain);
  assert.deepEqual(Object.fromEntries(found), { 'log.format': 'pretty', 'admin.host': '0.0.0.0' });
  const { mode } = defaults.upstream.local;
  const asked = { urlCount: 0, mode, fromFile: false, productionEnv: plain['NODE_ENV'] === 'production' };
  assert.equal(checkUpstream(asked), 'local');
  assert.deepEqual(ports, production.services.parhelion.ports);
  for (const key of ['read_only', 'cap_drop', 'security_opt', 'stop_grace_period'] as const)
    assert.deepEqual(services.parhelion[key], production.services.parhelion[key], key);
  // Not the volume of production.
  assert.deepEqual([Object.keys(volumes), Object.keys(production.volumes)], [['trial'], ['data', 'postgres']]);
});

test('compose in production: the daemon waits for its database, has the rights it needs, and time to drain', async () => {
  const { parhelion, postgres } = production.services;
  const found = await overrides(parhelion.environment);
  assert.deepEqual([...found.keys()].sort(), ['admin.host', 'store.url', 'upstream.urls']);
  const url = String(found.get('store.url'));
  for (const name of ['POSTGRES_USER', 'POSTGRES_DB']) assert.ok(url.includes(postgres.environment[name]!), name);
  assert.match(url, /@postgres\//);
  assert.equal(parhelion.depends_on?.['postgres']?.condition, 'service_healthy');
  assert.deepEqual([parhelion.read_only, parhelion.cap_drop], [true, ['ALL']]);
  assert.deepEqual(parhelion.security_opt, ['no-new-privileges:true']);
  const { drainTimeoutMs, stopTimeoutMs } = defaults.lifecycle;
  assert.ok(Number.parseInt(parhelion.stop_grace_period!, 10) * 1_000 > drainTimeoutMs + stopTimeoutMs);
  // The dashboard, health and metrics too: on the host's loopback, as without a container.
  assert.equal(found.get('admin.host'), '0.0.0.0');
  const { port } = defaults.http;
  assert.deepEqual(
    parhelion.ports,
    [port, port + 1, defaults.admin.port].map((one) => `127.0.0.1:${one}:${one}`),
  );
  assert.match(postgres.image!, /^postgres:\d+\.\d+-/);
});
