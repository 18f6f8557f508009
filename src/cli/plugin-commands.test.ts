import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { coreConfig } from '../config/core.ts';
import { checkPluginConfig } from '../daemon/provision.ts';
import { codeOf } from '../lib/coded-error.ts';
import type { CliIo } from './command.ts';
import { loadCliConfig } from './load-config.ts';
import { assembleOffline } from './offline.ts';
import { runCli } from './run.ts';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-commands-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const silent: CliIo = {
  env: {},
  cwd: dir,
  out: () => undefined,
  err: () => undefined,
  isTerminal: false,
  program: 'parhelion',
};
let files = 0;
function configFile(content: object): string {
  const path = join(dir, `${files++}.yaml`);
  writeFileSync(path, JSON.stringify({ dataDir: dir, ...content }));
  return path;
}
const load = (content: object) => loadCliConfig({ config: configFile(content) }, silent);

const upstream = { urls: ['http://127.0.0.1:9'] };
const DEFAULT_PLUGINS = coreConfig.properties.plugins.default as readonly string[];
const ALL_PLUGINS = [...DEFAULT_PLUGINS, 'archive', 'shadow', 'signup', 'sinks', 'streams', 'traces'];
const WALLET = '86xCnPeV69n6t3DnyGvkKobf9FdN2H9oiVDdaMpo2MMY';

test('a built-in plugin registers the commands that it lists, in the same form, and no others', async () => {
  const config = await load({
    upstream,
    plugins: ALL_PLUGINS,
    signup: { treasury: WALLET, lamports: 1 },
    shadow: { reference: { url: 'http://127.0.0.1:9' } },
    traces: { enabled: false },
  });
  assert.deepEqual(new Set(config.plugins.map(({ id }) => id)), new Set(ALL_PLUGINS), 'all built-in plugins');
  const { plugins } = await assembleOffline(config);
  for (const { id, definition, contribution } of plugins) {
    const listed = (definition.commands ?? []).map(({ concernsAllPlugins, needs, ...described }) => described);
    const registered = (contribution.commands ?? []).map(({ run, ...described }) => {
      const { concernsAllPlugins, needs, ...rest } = described as (typeof definition.commands & object)[number];
      return rest;
    });
    const byPath = (one: { readonly path: readonly string[] }, other: { readonly path: readonly string[] }) =>
      one.path.join(' ') < other.path.join(' ') ? -1 : 1;
    assert.deepEqual(registered.toSorted(byPath), listed.toSorted(byPath), id);
  }
});

test('the plugins of the default list can be provisioned with the default values, whatever the upstreams', async () => {
  for (const upstreams of [
    { local: { mode: 'on' } },
    upstream,
    { ...upstream, devnet: { urls: ['http://127.0.0.1:9'] } },
  ]) {
    const config = await load({ upstream: upstreams });
    assert.deepEqual(
      config.plugins
        .filter(({ enabled }) => enabled)
        .map(({ id }) => id)
        .toSorted(),
      DEFAULT_PLUGINS.toSorted(),
    );
    await checkPluginConfig(await assembleOffline(config));
  }
});

test('the plugin of the archive is loaded where there is one, listed or not', async () => {
  const enabledWith = async (content: object) => {
    const { plugins } = await load({ upstream, plugins: ['access'], ...content });
    return plugins.filter(({ enabled }) => enabled).map(({ id }) => id);
  };
  assert.deepEqual(await enabledWith({}), ['access']);
  const ledger = { retain: { hours: 1 }, archive: 'clickhouse://127.0.0.1:9' };
  assert.deepEqual(await enabledWith({ ledger }), ['access', 'archive']);
});

/** A plugin of somebody else, with a kind of sinks that takes whole blocks. */
const WHOLE_BLOCKS = join(dir, 'whole-blocks.ts');
writeFileSync(
  WHOLE_BLOCKS,
  `import { API_VERSION, definePlugin, sinkKinds, Type } from ${JSON.stringify(new URL('../plugin/plugin.ts', import.meta.url).href)};
  export default definePlugin({
    id: 'whole-blocks', apiVersion: API_VERSION, summary: 'whole blocks', config: Type.Object({}, { additionalProperties: false, default: {} }), uses: [sinkKinds],
    provision: (ctx) => ctx.use(sinkKinds)?.define({ kind: 'whole', takes: 'blocks', batch: { slots: 1, seconds: 0 }, open: () => Promise.reject() }),
  });`,
);
const wholeBlocks = (target: object) => ({
  plugins: [...DEFAULT_PLUGINS, 'sinks', WHOLE_BLOCKS],
  ledger: { retain: { hours: 24 } },
  sinks: { targets: [{ name: 'a', kind: 'whole', target: '/a', ...target }] },
});

/** What only provisioning refuses, by the code of its error. */
const REFUSED: readonly (readonly [code: string, content: object])[] = [
  ['ACCESS_UNKNOWN_PLAN', { access: { defaultPlan: 'none' } }],
  ['CONFIG_INVALID', { follow: { stream: { plugin: 'yellowstone' } } }],
  ['CONFIG_INVALID', { ledger: { archive: 'clickhouse' } }],
  ['CONFIG_INVALID', { webhooks: { allowCidrs: ['10.0.0.0/99'] } }],
  ['CONFIG_INVALID', { prices: { source: 'http', allowCidrs: ['nowhere'] } }],
  ['PRICES_FILE_MISSING', { prices: { source: 'static' } }],
  [
    'SINKS_CONFIG',
    { plugins: [...DEFAULT_PLUGINS, 'sinks'], sinks: { targets: [{ name: 'a', kind: 'paper', target: '/a' }] } },
  ],
  ['SINKS_CONFIG', wholeBlocks({ tables: ['blocks'] })],
  ['SINKS_CONFIG', wholeBlocks({ filter: { votes: true } })],
  ['SIGNUP_CONFIG', { plugins: [...DEFAULT_PLUGINS, 'signup'] }],
  ['SIGNUP_NO_ACCESS', { plugins: ['signup'], signup: { treasury: WALLET, lamports: 1 } }],
  [
    'STREAMS_TLS',
    { plugins: [...DEFAULT_PLUGINS, 'streams'], streams: { grpc: { tls: { certFile: import.meta.filename } } } },
  ],
  ['SHADOW_CONFIG', { plugins: [...DEFAULT_PLUGINS, 'shadow'] }],
  ['TRACES_CONFIG', { plugins: [...DEFAULT_PLUGINS, 'traces'], traces: { enabled: true } }],
  [
    'WEBHOOKS_OPERATIONAL_URL',
    { webhooks: { operational: { url: 'https://10.0.0.1/', secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' } } },
  ],
];

for (const [at, [code, content]] of REFUSED.entries())
  test(`check-config refuses what a start refuses: ${code}, ${at + 1} of ${REFUSED.length}`, async () => {
    const whole = { upstream, ...content };
    await assert.rejects(
      async () => checkPluginConfig(await assembleOffline(await load(whole))),
      (error) => codeOf(error) === code,
      'a start',
    );
    const said: string[] = [];
    const io = { ...silent, out: (text: string) => void said.push(text) };
    assert.equal(await runCli(['check-config', '--json', '--config', configFile(whole)], io), 78);
    assert.equal((JSON.parse(said.join('\n')) as { readonly code: string }).code, code);
  });

test('a sink of whole blocks without tables and filter is accepted', async () => {
  await checkPluginConfig(await assembleOffline(await load({ upstream, ...wholeBlocks({}) })));
});

test('a command of a plugin is listed only beside the services without which it is not registered', async () => {
  const said: string[] = [];
  const io = { ...silent, out: (text: string) => void said.push(text) };
  await runCli(['--help', '--config', configFile({ upstream, plugins: ['dashboard', 'access'] })], io);
  assert.match(said.join('\n'), /^ {2}dashboard /m);
  said.length = 0;
  await runCli(['--help', '--config', configFile({ upstream, plugins: ['dashboard'] })], io);
  assert.doesNotMatch(said.join('\n'), /^ {2}dashboard /m);
});
