import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { coreConfig } from '../../src/config/core.ts';
import { startDaemon } from './daemon.ts';
import { findProjectRoot } from './project-root.ts';

export const metricListPath = (): string => `${findProjectRoot()}config/metrics.txt`;

const HEADER = `# Every metric of the daemon except those of the process itself (process_*, nodejs_*):
# name, kind, meaning. Written by npm run metrics:write
`;

/** What a whole daemon declares, sorted by name. */
export async function renderMetricList(): Promise<string> {
  const chain = { rpcUrl: 'http://127.0.0.1:9' };
  const config = {
    upstream: { urls: [chain.rpcUrl], devnet: { urls: [chain.rpcUrl] } },
    ledger: { retain: { hours: 1 }, archive: 'clickhouse://127.0.0.1:9' },
    // The usual ones, and those that have metrics of their own when they are asked for.
    plugins: [...coreConfig.properties.plugins.default, 'shadow', 'signup', 'sinks', 'streams', 'traces'],
    signup: { treasury: '11111111111111111111111111111111', lamports: 1 },
    shadow: { reference: { url: 'http://127.0.0.1:9' } },
    sinks: { targets: [{ name: 'rows', kind: 'postgres', target: 'postgres://127.0.0.1:9/rows' }] },
    streams: { grpc: { port: 0 } },
    traces: { endpoint: 'http://127.0.0.1:9' },
  };
  const daemon = await startDaemon({ chain, config });
  try {
    const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    const kinds = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, kind]) => [name!, kind!]));
    const lines = [...text.matchAll(/^# HELP (\S+) (.*)$/gm)]
      .filter(([, name]) => !/^(process|nodejs)_/.test(name!))
      .map(([, name, help]) => `${name} ${kinds.get(name!)} ${help}`);
    return `${HEADER}${lines.sort().join('\n')}\n`;
  } finally {
    await daemon.stop();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(metricListPath(), await renderMetricList());
