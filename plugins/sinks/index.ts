import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { kernelLedger, kernelLedgerHolds, kernelPast } from '../../src/ports/ledger.ts';
import { kernelOwner } from '../../src/ports/processes.ts';
import { sinkEvents, sinkKinds } from '../../src/ports/sink.ts';
import { SINK_COMMANDS } from './command-list.ts';
import { sinksConfig } from './config.ts';

/** Rows of final blocks, exactly once, in databases and files. Not in the default list of plugins. */
export default defineHostPlugin({
  id: 'sinks',
  apiVersion: API_VERSION,
  summary:
    'writes rows of final blocks to PostgreSQL, ClickHouse, NATS, Kafka, files, buckets and pipes, each row exactly once',
  config: sinksConfig,
  uses: [kernelLedger, kernelLedgerHolds, kernelOwner, kernelPast],
  offers: [sinkKinds, sinkEvents],
  commands: Object.values(SINK_COMMANDS),
  migrations: async () => (await import('./store.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
