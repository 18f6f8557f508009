import { API_VERSION, definePlugin, defineRoute, json, RpcError, Type } from 'parhelion/plugin';
import { createBlockLog } from './block-log.ts';
import { migrations } from './migrations.ts';

const config = Type.Object(
  {
    maxRows: Type.Integer({ minimum: 1, default: 100, description: 'rows that one answer holds at most' }),
    minTransactions: Type.Integer({
      minimum: 0,
      default: 1,
      description: 'transactions that make a block worth a report',
    }),
  },
  { additionalProperties: false, default: {} },
);

const entry = Type.Object({ slot: Type.Integer(), blockhash: Type.String(), transactions: Type.Integer() });

/** Keeps a line per block, reports busy blocks by a job, and answers over REST and JSON-RPC. */
export default definePlugin({
  id: 'block-log',
  apiVersion: API_VERSION,
  summary: 'a line per block',
  config,
  migrations,
  provision(ctx) {
    const log = createBlockLog(ctx);
    const reports = ctx.metrics.counter('reports_total', 'reports that were written');
    return {
      routes: [
        defineRoute({
          method: 'GET',
          path: '/v0/block-log',
          summary: 'The newest blocks',
          tag: 'block log',
          auth: 'key',
          errors: 'plain',
          query: Type.Object({ limit: Type.Integer({ minimum: 1, maximum: 1000, default: 10, description: 'rows' }) }),
          replies: { 200: Type.Array(entry) },
          handler: async ({ query }) => json(await log.newest(Math.min(query.limit, ctx.config.maxRows))),
        }),
      ],
      rpc: [
        {
          name: 'getBlockLog',
          summary: 'The line of one block',
          tag: 'block log',
          auth: 'key',
          price: { product: 'other', credits: 1, groups: ['rpc'] },
          params: Type.Object({ slot: Type.Integer({ minimum: 0 }) }),
          result: entry,
          async handler({ params }: { params: { slot: number } }) {
            const line = await log.at(params.slot);
            if (line === null) throw new RpcError('notFound', { message: `Record Not Found: slot ${params.slot}` });
            return { ...line, reported: await log.isReported(params.slot) };
          },
        },
      ],
      processors: [log.processor],
      jobs: [
        {
          kind: 'block-log.report',
          summary: 'write a report about a busy block',
          concurrency: 4,
          timeoutMs: 5_000,
          run: async () => ({ kind: 'done' }),
          async settle(tx, settled) {
            const slots = settled
              .filter(({ outcome }) => outcome.kind === 'done')
              .map(({ job }) => [job.payload as number]);
            reports.add(await tx.insertMany('block_log_reports', ['slot'], slots, 'ignore'));
          },
        },
      ],
      checks: [{ name: 'block-log', run: async () => ({ ok: true, detail: `at most ${ctx.config.maxRows} rows` }) }],
    };
  },
});
