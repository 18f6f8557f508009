import { existsSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { dumpConfig } from '../../config/document.ts';
import { checkPluginConfig } from '../../daemon/provision.ts';
import { openApiDocument } from '../../http/index.ts';
import { CodedError, messageOf } from '../../lib/coded-error.ts';
import type { Contribution } from '../../plugin/host.ts';
import { EXIT } from '../../runtime/errors.ts';
import { makeFolder } from '../../runtime/make-folder.ts';
import type { RunCommand } from '../command.ts';
import { chooseUpstream, loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';
import { referenceFile } from '../package-files.ts';

/** What most operators set. The rest has good defaults, which the reference lists. */
const firstConfig = () => `# Configuration of parhelion. All keys with their defaults: ${referenceFile()}
# Relative paths count from the folder of this file.

# JSON-RPC addresses of Solana nodes, in order of preference. This is the one thing that has to be set.
upstream:
  urls: []
  # urls: ["https://first.example/?api-key=KEY", "https://second.example"]

# Folder of the database, caches and snapshots.
dataDir: ./data

# The API. To serve other machines: host 0.0.0.0, with TLS or a proxy in front.
http:
  host: 127.0.0.1
  port: 8787
  # tls: { certFile: cert.pem, keyFile: key.pem }
  # trustedProxies: [10.0.0.0/8]

# Health, metrics and the dashboard. Keep it on loopback.
admin:
  port: 8790

# Instead of SQLite in dataDir:
# store:
#   url: postgres://user:password@host/parhelion

# log:
#   level: warn
`;

export const init: RunCommand = async (values, io) => {
  const path = resolve(io.cwd, String(values['output'] ?? values['config'] ?? 'parhelion.yaml'));
  if (existsSync(path) && values['force'] !== true) {
    throw new CodedError('CONFIG_UNREADABLE', `${path} exists; --force replaces it`, { exitCode: EXIT.usage });
  }
  try {
    makeFolder(dirname(path));
    // The file will contain addresses with keys.
    writeFileSync(path, firstConfig(), { mode: 0o600 });
  } catch (error) {
    throw new CodedError('CONFIG_UNREADABLE', `cannot write ${path}: ${messageOf(error)}`, { exitCode: EXIT.usage });
  }
  io.out(`${path} is written. Set upstream.urls in it, then: ${io.program} check-config --config ${path}`);
  return EXIT.ok;
};

export const checkConfig: RunCommand = async (values, io) => {
  const asJson = values['json'] === true || values['format'] === 'json';
  try {
    const config = await loadCliConfig(values, io, { needs: 'serve' });
    const chain = chooseUpstream(config);
    const assembly = await assembleOffline(config);
    await checkPluginConfig(assembly);
    const { plugins } = assembly;
    const ids = plugins.map(({ id }) => id);
    const { warnings } = config;
    if (asJson) io.out(JSON.stringify({ ok: true, chain, plugins: ids, problems: [], warnings }, null, 2));
    else
      io.out(
        `configuration is fine: plugins ${ids.join(', ') || 'none'}; ${chain === 'local' ? 'LOCAL chain' : 'real upstream'}`,
      );
    if (!asJson) for (const warning of warnings) io.err(`warning: ${warning}`);
    return EXIT.ok;
  } catch (error) {
    if (!asJson || !(error instanceof CodedError) || error.exitCode !== EXIT.config) throw error;
    const problems = error.facts['problems'] ?? [error.message];
    io.out(JSON.stringify({ ok: false, code: error.code, problems }, null, 2));
    return EXIT.config;
  }
};

export const showConfig: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const asJson = values['json'] === true || values['format'] === 'json';
  io.out(dumpConfig(config, asJson ? 'json' : 'yaml').trimEnd());
  return EXIT.ok;
};

export const listPlugins: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const { plugins } = await assembleOffline(config);
  const contributions = new Map(plugins.map(({ id, contribution }) => [id, contribution]));
  const rows = config.plugins.map(({ id, enabled, builtIn, use, definition }) => ({
    id,
    enabled,
    builtIn,
    use,
    summary: definition.summary,
    uses: (definition.uses ?? []).map((token) => token.id),
    offers: (definition.offers ?? []).map((token) => token.id),
    contributes: counts(contributions.get(id) ?? {}),
  }));
  if (values['json'] === true) {
    io.out(JSON.stringify(rows, null, 2));
    return EXIT.ok;
  }
  for (const row of rows) {
    io.out(`${row.enabled ? '+' : '-'} ${row.id.padEnd(16)} ${row.summary}`);
    const what = Object.entries(row.contributes).map(([name, count]) => `${count} ${name}`);
    if (what.length > 0) io.out(`  ${''.padEnd(16)} ${what.join(', ')}${row.builtIn ? '' : ` (${row.use})`}`);
  }
  return EXIT.ok;
};

/** Sizes of the lists, and 1 for each single part that is present. */
function counts(contribution: Contribution): Record<string, number> {
  const found: Record<string, number> = {};
  for (const key of ['routes', 'rpc', 'processors', 'jobs', 'checks', 'commands'] as const) {
    const { length } = contribution[key] ?? [];
    if (length > 0) found[key] = length;
  }
  for (const key of ['gate', 'rpcFallback', 'sockets', 'tracer'] as const)
    if (contribution[key] !== undefined) found[key] = 1;
  return found;
}

export const openapi: RunCommand = async (values, io) => {
  const { merged, version } = await assembleOffline(await loadCliConfig(values, io));
  const routes = merged.routes.filter(({ auth }) => auth !== 'admin');
  io.out(JSON.stringify(openApiDocument({ routes, methods: merged.rpc, version }), null, 2));
  return EXIT.ok;
};
