import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import WebSocket from 'ws';
import { createLog } from '../../../src/adapters/log.ts';
import { chainSetups, composeParts } from '../../../src/cli/compose.ts';
import { loadCliConfig } from '../../../src/cli/load-config.ts';
import { type CoreConfig, coreConfig } from '../../../src/config/core.ts';
import type { LoadedConfig } from '../../../src/config/load.ts';
import type { SchemaNode } from '../../../src/config/node.ts';
import { validateConfig } from '../../../src/config/validate.ts';
import { createDaemon, type Daemon } from '../../../src/daemon/daemon.ts';
import type { FoundPlugin } from '../../../src/daemon/registry.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { countReads, keysOf } from './config-reads.ts';

type Section = Record<string, unknown>;

const KEY = 'key-of-the-reload';

const at = (values: unknown, key: string): unknown =>
  key.split('.').reduce((section, name) => (section as Section)[name], values);

function set(values: Section, key: string, value: unknown): void {
  const path = key.split('.');
  (path.slice(0, -1).reduce((section, name) => section[name] as Section, values) as Section)[path.at(-1)!] = value;
}

/** Values that some key may accept; the first valid one that differs is taken. */
const SAMPLES: readonly unknown[] = [
  true,
  false,
  1,
  2,
  3,
  5,
  64,
  200,
  1_000,
  5_000,
  123_456,
  0,
  0.5,
  0.25,
  7.5,
  null,
  'info',
  'debug',
  'other',
  'http://127.0.0.1:9/other',
  'ws://127.0.0.1:9',
  ['http://127.0.0.1'],
  { other: 0.5 },
  'sqlite:/tmp/other.db',
  '127.0.0.2',
  ['other'],
  ['127.0.0.9/32'],
  ['http://127.0.0.1:9/a'],
  [],
  { a: 'b' },
  {},
  '1'.repeat(32),
  ['1'.repeat(32)],
  'b5a3e1c2-7d64-4c0a-9e39-2f1f5a0d8c11',
  'a text of more than sixteen characters',
  [1, 2],
  [80],
  'X',
  'https://x/{signature}',
  'chdb:/tmp/other',
  { url: 'http://127.0.0.1:9/op', secret: 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=' },
  'https://x/{signature}?cluster={cluster}',
  'smtp://127.0.0.1:9',
  'ada@example.org',
];

const constants = (node: SchemaNode): readonly unknown[] => [
  ...(node.const === undefined ? [] : [node.const]),
  ...(node.minimum === undefined ? [] : [node.minimum, node.minimum + 1]),
  ...(node.maximum === undefined ? [] : [node.maximum]),
  ...(node.enum ?? []),
  ...(node.anyOf ?? []).flatMap(constants),
];

/** A list of one whole item, for keys whose items are sections. */
function sampleOf(node: SchemaNode): unknown {
  if (node.properties !== undefined)
    return Object.fromEntries(Object.entries(node.properties).map(([key, field]) => [key, sampleOf(field)]));
  if (node.type === 'array') return [sampleOf(node.items ?? {})];
  return [...constants(node), ...SAMPLES].find((sample) => validateConfig(node, sample).length === 0);
}

/** Another valid value of a key; undefined if this test knows none. */
function otherValue(node: SchemaNode, value: unknown): unknown {
  return [...constants(node), ...SAMPLES, sampleOf(node)].find(
    (sample) => !isDeepStrictEqual(sample, value) && validateConfig(node, sample).length === 0,
  );
}

describe('every key of the configuration and a reload', () => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-reload-'));
  const reads = new Map<string, number>();
  let upstream: TestUpstream;
  let config: LoadedConfig<FoundPlugin>;
  let daemon: Daemon;
  /** Reads of each key when the daemon was ready. */
  let atStart: ReadonlyMap<string, number>;
  let keys: readonly (readonly [string, SchemaNode])[];

  before(async () => {
    upstream = await startUpstream();
    const file = join(folder, 'parhelion.yaml');
    const plugins = [...coreConfig.properties.plugins.default, 'traces'];
    const urls = [upstream.url];
    const given = {
      dataDir: folder,
      http: { port: 0 },
      admin: { port: 0 },
      plugins,
      traces: { endpoint: 'http://127.0.0.1:9' },
      upstream: { urls, devnet: { urls } },
      log: { level: 'fatal', format: 'json' },
    };
    writeFileSync(file, JSON.stringify(given));
    const io = { env: {}, cwd: folder, isTerminal: false, out() {}, err() {} };
    config = await loadCliConfig({ config: file }, io as never);
    keys = keysOf(config.schema);
    const values = countReads(config.schema, config.values, reads);
    const core = Object.fromEntries(Object.keys(coreConfig.properties).map((key) => [key, values[key]])) as CoreConfig;
    const log = createLog({ level: 'fatal', format: 'json' });
    daemon = await createDaemon({
      config: { ...config, values, core },
      parts: composeParts(core, log, undefined, file),
      version: '0.0.0-test',
      chains: chainSetups(core, null),
      dataDir: folder,
      firstProject: { key: KEY },
    });
    await daemon.start();
    atStart = new Map(reads);
  });
  after(async () => {
    await daemon?.stop();
    await upstream?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const isEmpty = (value: unknown) => value === null || (Array.isArray(value) && value.length === 0);
  /** Whether a reload takes this change of a key. */
  const isTaken = (node: SchemaNode, from: unknown, to: unknown) =>
    node.reloadable === 'set' ? !isEmpty(from) && !isEmpty(to) : node.reloadable === true;
  /** Those that can change with the configuration of this daemon. */
  const reloadableKeys = () =>
    keys
      .filter(([key, node]) => {
        const value = at(config.values, key);
        return isTaken(node, value, otherValue(node, value));
      })
      .map(([key]) => key);

  test('no part of the daemon keeps a copy of a key that a reload changes', async () => {
    assert.ok(reloadableKeys().length > 80, `${reloadableKeys().length} keys`);
    // Loops, requests and reloads read theirs again; what is read at the start alone was copied.
    const suspects = reloadableKeys().filter((key) => atStart.has(key));
    const values = structuredClone(config.values) as Section;
    for (let round = 0; round < 300; round += 1) {
      await fetch(daemon.addresses().api!);
      await daemon.reload(async () => ({ values, core: values }));
      if (suspects.every((key) => reads.get(key)! > atStart.get(key)!)) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const copied = suspects.filter((key) => reads.get(key) === atStart.get(key));
    assert.deepEqual(copied, [], 'these are marked as reloadable and read at the start only');
  });

  test('a change is in effect or named, for each key; the change back takes it back', async () => {
    const unknown: string[] = [];
    for (const [key, node] of keys) {
      const before = structuredClone(config.values) as Section;
      const value = otherValue(node, at(before, key));
      if (value === undefined) {
        unknown.push(key);
        continue;
      }
      const wanted = structuredClone(before);
      set(wanted, key, value);
      const { changed, restart } = await daemon.reload(async () => ({ values: wanted, core: wanted }));
      assert.deepEqual([...changed, ...restart], [key], 'exactly this key is reported');
      assert.deepEqual(changed, isTaken(node, at(before, key), value) ? [key] : [], key);
      assert.deepEqual(at(config.values, key), changed.length > 0 ? value : at(before, key), key);
      const back = await daemon.reload(async () => ({ values: before, core: before }));
      assert.deepEqual(back, { changed, restart: [] });
      assert.deepEqual(config.values, before);
    }
    assert.deepEqual(unknown, [], 'the test knows no other value for these keys');
  });

  test('all keys at once: each is in one of the lists, and metrics count those that wait', async () => {
    const before = structuredClone(config.values) as Section;
    const wanted = structuredClone(before);
    for (const [key, node] of keys) set(wanted, key, otherValue(node, at(before, key)));
    const taken = reloadableKeys();
    const { changed, restart } = await daemon.reload(async () => ({ values: wanted, core: wanted }));
    assert.deepEqual([...changed, ...restart].sort(), keys.map(([key]) => key).sort());
    assert.deepEqual([...changed].sort(), [...taken].sort());
    const text = await (await fetch(`${daemon.addresses().admin}/metrics`)).text();
    assert.ok(text.includes(`\nparhelion_config_restart_keys ${restart.length}\n`));
    await daemon.reload(async () => ({ values: before, core: before }));
    assert.deepEqual(config.values, before);
  });

  test('other upstreams answer after a reload: calls, and the subscriptions of open websockets', async () => {
    const other = await startUpstream();
    const before = structuredClone(config.values) as Section;
    const ask = async () => {
      const api = `${daemon.addresses().api}/?api-key=${KEY}`;
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getTransactionCount', params: [] });
      const response = await fetch(api, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      return ((await response.json()) as { result?: number }).result;
    };
    const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
    upstream.on('getTransactionCount', { result: '1' });
    other.on('getTransactionCount', { result: '2' });
    const socket = new WebSocket(`${daemon.addresses().api!.replace('http', 'ws')}/?api-key=${KEY}`);
    try {
      await once(socket, 'open');
      while ((await ask()) !== 1) await pause();
      socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'slotSubscribe' }));
      assert.match(String((await once(socket, 'message'))[0]), /"result":/);
      const wanted = structuredClone(before);
      set(wanted, 'upstream.urls', [other.url]);
      const { restart } = await daemon.reload(async () => ({ values: wanted, core: wanted }));
      assert.deepEqual(restart, []);
      while ((await ask()) !== 2) await pause();
      while (other.held('slotSubscribe').length === 0) await pause();
      const told = once(socket, 'message');
      other.notify(other.held('slotSubscribe')[0]!, '{"slot":77,"parent":76,"root":45}');
      assert.match(String((await told)[0]), /"slot":77/);
    } finally {
      socket.terminate();
      await daemon.reload(async () => ({ values: before, core: before }));
      await other.stop();
    }
  });
});
