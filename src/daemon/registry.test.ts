import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Type } from '@sinclair/typebox';
import fc from 'fast-check';
import type { HostPluginDefinition } from '../plugin/host.ts';
import { API_VERSION, type CodedError, serviceToken } from '../plugin/plugin.ts';
import { checkDefinition, findPlugins, orderPlugins } from './registry.ts';

const root = mkdtempSync(join(tmpdir(), 'parhelion-registry-'));
function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}
const source = (id: string, more = '') =>
  `export default { id: '${id}', apiVersion: 1, summary: 's', config: { type: 'object', properties: {}, additionalProperties: false }, provision() {}, ${more} };`;

write('plugins/package.json', '{"type":"module"}');
write('plugins/alpha/index.js', source('alpha'));
write('plugins/beta/index.js', source('beta'));
write('plugins/gamma/index.js', source('gamma', `uses: [{ id: 'service.of.alpha' }]`));
write('plugins/broken/index.js', 'throw new Error("broken on import")');
write('plugins/notes.txt', '');
write('mine/index.ts', source('mine'));
write('node_modules/widget/package.json', '{"type":"module","exports":{".":{"import":"./main.js"}}}');
write('node_modules/widget/main.js', source('widget'));
write('node_modules/@acme/old/package.json', '{"type":"module","main":"lib/x.js"}');
write('node_modules/@acme/old/lib/x.js', source('acme-old'));
write('alpha2/index.js', source('alpha'));
write('deep/down/here/x.txt', '');

const places = { builtInDir: join(root, 'plugins'), baseDir: root, packageDirs: [join(root, 'deep/down/here')] };
const find = (...uses: string[]) =>
  findPlugins(
    uses.map((use) => ({ use, enabled: true })),
    places,
  );
const enabledIds = async (...uses: string[]) =>
  (await find(...uses)).filter(({ enabled }) => enabled).map(({ id }) => id);

test('plugins are found by built-in name, path and package name, upwards from the given folders', async () => {
  await assert.rejects(find('alpha', './mine', join(root, 'alpha2/index.js')), { code: 'PLUGIN_CONFLICT' });
  assert.deepEqual(await enabledIds('beta', './mine', 'widget', '@acme/old'), ['beta', 'mine', 'widget', 'acme-old']);
});

test('packages in a folder of somebody else, or one that everybody may write, are passed over', async (t) => {
  const modules = join(root, 'deep/node_modules');
  write('deep/node_modules/widget/index.mjs', 'throw new Error("not this one")');
  write('deep/node_modules/stranger/index.mjs', source('stranger'));
  t.after(() => rmSync(modules, { recursive: true }));
  await assert.rejects(find('widget'), /not this one/);
  chmodSync(modules, 0o1777);
  assert.deepEqual(await enabledIds('widget'), ['widget']);
  chmodSync(modules, 0o755);
  if (process.getuid?.() !== 0) return;
  chownSync(modules, 65_534, 65_534);
  assert.deepEqual(await enabledIds('widget'), ['widget']);
  chownSync(modules, 0, 0);
  renameSync(modules, join(root, 'deep/theirs'));
  symlinkSync(join(root, 'deep/theirs'), modules);
  lchownSync(modules, 65_534, 65_534);
  assert.deepEqual(await enabledIds('widget'), ['widget']);
  await assert.rejects(find('stranger'), {
    code: 'PLUGIN_NOT_FOUND',
    message: /nor an installed package; \S+\/deep\/node_modules is not searched: it belongs to another user/,
  });
  // The packages of whoever wrote the configuration are wanted.
  chownSync(join(root, 'deep/down/here'), 65_534, 65_534);
  await assert.rejects(find('widget'), /not this one/);
});

test('built-in plugins that are not listed give their sections only', async () => {
  const found = await find('alpha');
  assert.deepEqual(
    found.map(({ id, enabled, builtIn }) => [id, enabled, builtIn]),
    [
      ['alpha', true, true],
      ['beta', false, true],
      ['gamma', false, true],
    ],
  );
});

test('a listed plugin can replace a built-in one', async () => {
  const found = await find('./alpha2');
  const alphas = found.filter(({ id }) => id === 'alpha');
  assert.deepEqual(
    alphas.map(({ use, enabled }) => [use, enabled]),
    [['./alpha2', true]],
  );
});

test('a plugin that cannot be found or loaded is named, with a suggestion', async () => {
  await assert.rejects(find('alhpa'), {
    code: 'PLUGIN_NOT_FOUND',
    exitCode: 78,
    message: /"alhpa".*did you mean "alpha"/,
  });
  await assert.rejects(find('./nowhere'), { code: 'PLUGIN_NOT_FOUND', message: /"\.\/nowhere"/ });
  await assert.rejects(find('broken'), {
    code: 'PLUGIN_NOT_FOUND',
    message: /"broken" cannot be loaded: broken on import/,
  });
  await assert.rejects(find('../escape/../../x'), { code: 'PLUGIN_NOT_FOUND' });
  await assert.rejects(find('@acme'), { code: 'PLUGIN_NOT_FOUND' });
});

test('a disabled plugin may be missing', async () => {
  const found = await findPlugins([{ use: 'absent-package', enabled: false }], places);
  assert.ok(found.every(({ enabled }) => !enabled));
});

const closed = { additionalProperties: false };
const valid: HostPluginDefinition = {
  id: 'ok',
  apiVersion: API_VERSION,
  summary: 'fine',
  config: Type.Object({ a: Type.Integer({ default: 1, description: 'a' }) }, closed),
  provision: () => {},
};

test('a definition is checked as a whole, with all problems at once', () => {
  assert.equal(checkDefinition(valid, 'x'), valid);
  const faults: readonly [unknown, RegExp][] = [
    [undefined, /default export/],
    [{ ...valid, id: 'Upper' }, /id must have/],
    [{ ...valid, id: 'a' }, /id must have/],
    [{ ...valid, id: 'http' }, /name of a section of the kernel/],
    [{ ...valid, apiVersion: 2 }, /apiVersion is 2, this daemon supports 1/],
    [{ ...valid, summary: '' }, /summary/],
    [{ ...valid, provision: 1 }, /provision/],
    [{ ...valid, config: Type.Object({}) }, /config is not closed/],
    [{ ...valid, config: Type.Object({ a: Type.Integer({ description: 'a' }) }, closed) }, /config\.a has no default/],
    [{ ...valid, config: Type.Object({ a: Type.Integer({ default: 1 }) }, closed) }, /config\.a has no description/],
    [{ ...valid, config: Type.Object({ s: Type.Object({}) }, closed) }, /config\.s is not closed/],
    [{ ...valid, config: Type.String() }, /config is not an object schema/],
  ];
  for (const [definition, what] of faults) {
    assert.throws(() => checkDefinition(definition, 'bad'), { code: 'PLUGIN_INVALID', message: what });
  }
  assert.throws(
    () => checkDefinition({ id: '-', apiVersion: 0 }, 'bad'),
    (error: CodedError) => {
      assert.equal((error.facts['problems'] as string[]).length, 5);
      return true;
    },
  );
});

test('order: providers before users, otherwise as configured; every cycle is refused', () => {
  const graph = fc
    .integer({ min: 1, max: 7 })
    .chain((count) =>
      fc.array(fc.tuple(fc.nat(count - 1), fc.nat(count - 1)), { maxLength: 12 }).map((edges) => ({ count, edges })),
    );
  fc.assert(
    fc.property(graph, ({ count, edges }) => {
      const plugins = Array.from({ length: count }, (_, n) => ({
        definition: {
          ...valid,
          id: `p${n}`,
          offers: [serviceToken(`s${n}`)],
          uses: edges.filter(([from]) => from === n).map(([, to]) => serviceToken(`s${to}`)),
        },
      }));
      const cyclic = hasCycle(count, edges);
      if (cyclic) {
        assert.throws(() => orderPlugins(plugins), { code: 'PLUGIN_CYCLE' });
        return;
      }
      const ordered = orderPlugins(plugins).map(({ definition }) => Number(definition.id.slice(1)));
      assert.deepEqual(
        [...ordered].sort(),
        plugins.map((_, n) => n),
      );
      for (const [from, to] of edges) assert.ok(ordered.indexOf(to) < ordered.indexOf(from));
      if (edges.length === 0)
        assert.deepEqual(
          ordered,
          plugins.map((_, n) => n),
        );
    }),
  );
});

/** By reachability, unlike the code under test. */
function hasCycle(count: number, edges: readonly (readonly [number, number])[]): boolean {
  const reach = Array.from({ length: count }, () => new Array<boolean>(count).fill(false));
  for (const [from, to] of edges) reach[from]![to] = true;
  for (let k = 0; k < count; k++)
    for (let i = 0; i < count; i++) for (let j = 0; j < count; j++) reach[i]![j] ||= reach[i]![k]! && reach[k]![j]!;
  return reach.some((row, n) => row[n]);
}

test('a cycle is reported as a path; two providers of one service are named', () => {
  const make = (id: string, offers: string, uses: string) => ({
    definition: { ...valid, id, offers: [serviceToken(offers)], uses: [serviceToken(uses)] },
  });
  assert.throws(() => orderPlugins([make('aa', 'a', 'b'), make('bb', 'b', 'c'), make('cc', 'c', 'a')]), {
    message: 'plugins use each other in a circle: aa -> bb -> cc -> aa',
  });
  assert.throws(() => orderPlugins([make('aa', 'a', 'x'), make('bb', 'a', 'x')]), {
    code: 'PLUGIN_CONFLICT',
    message: 'plugins aa and bb both offer the service a',
  });
});
