import { EXIT } from '../../lib/coded-error.ts';
import type { Contribution } from '../../plugin/host.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';

export const run: RunCommand = async (values, io) => {
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
