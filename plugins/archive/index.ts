import { Type } from '@sinclair/typebox';
import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { archiveReaders, kernelArchiveEngine, kernelLedgerHolds } from '../../src/ports/ledger.ts';

/** Final blocks of the ledger in ClickHouse, for what outgrows one disk. */
export default defineHostPlugin({
  id: 'archive',
  apiVersion: API_VERSION,
  summary: 'copies final blocks of the ledger to ClickHouse, and answers from it what the ledger no longer has',
  config: Type.Object(
    {},
    { additionalProperties: false, default: {}, description: 'no settings: `ledger.archive` names the archive' },
  ),
  isNeeded: ({ ledger }) => ledger.archive !== null,
  uses: [kernelArchiveEngine, kernelLedgerHolds],
  offers: [archiveReaders],
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
