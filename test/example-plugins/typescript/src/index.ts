import { API_VERSION, definePlugin, json, type Migration, RpcError, type Store, Type } from 'parhelion/plugin';

interface Line {
  slot: number;
  blockhash: string;
  transactions: number;
}
const line = Type.Object({ slot: Type.Integer(), blockhash: Type.String(), transactions: Type.Integer() });

const migrations: Migration[] = [
  {
    version: 1,
    name: 'create block log',
    breaking: false,
    async up({ db }) {
      await db.schema
        .createTable('block_log')
        .addColumn('slot', 'bigint', (column) => column.primaryKey())
        .addColumn('blockhash', 'text', (column) => column.notNull())
        .addColumn('transactions', 'integer', (column) => column.notNull())
        .execute();
      await db.schema
        .createTable('block_log_reports')
        .addColumn('slot', 'bigint', (column) => column.primaryKey())
        .execute();
    },
  },
];

const newest = ({ read }: Store, limit: number) =>
  read.selectFrom('block_log').selectAll().orderBy('slot', 'desc').limit(limit).execute() as Promise<Line[]>;
const rowAt = ({ read }: Store, table: string, slot: number) =>
  read.selectFrom(table).selectAll().where('slot', '=', slot).executeTakeFirst() as Promise<Line | undefined>;

/** Keeps a line per block, reports busy blocks by a job, and answers over REST and JSON-RPC. */
export default definePlugin({
  id: 'block-log',
  apiVersion: API_VERSION,
  summary: 'a line per block',
  config: Type.Object(
    {
      maxRows: Type.Integer({ minimum: 1, default: 100, description: 'rows that one answer holds at most' }),
      minTransactions: Type.Integer({
        minimum: 0,
        default: 1,
        description: 'transactions that make a block worth a report',
      }),
    },
    { additionalProperties: false, default: {} },
  ),
  migrations,
  provision({ http, rpc, blocks, jobs, check, metrics, store, config }) {
    const reports = metrics.counter('reports_total', 'reports that were written');

    blocks.on({
      name: 'block-log',
      version: 1,
      chains: ['main'],
      async apply(tx, { slot, blockhash, transactions }) {
        await tx.db.insertInto('block_log').values({ slot, blockhash, transactions: transactions.length }).execute();
        if (transactions.length < config.minTransactions) return;
        await jobs.add(tx, [{ kind: 'block-log.report', key: blockhash, group: 'all', payload: slot, slot }]);
      },
      async revert(tx, { slot }) {
        await tx.db.deleteFrom('block_log').where('slot', '=', slot).execute();
      },
    });

    jobs.define({
      kind: 'block-log.report',
      summary: 'write a report about a busy block',
      concurrency: 4,
      timeoutMs: 5_000,
      run: async () => ({ kind: 'done' }),
      async ack(tx, finished) {
        const slots = finished
          .filter(({ outcome }) => outcome.kind === 'done')
          .map(({ job }) => [job.payload as number]);
        reports.add(await tx.insertMany('block_log_reports', ['slot'], slots, 'ignore'));
      },
    });

    http.route({
      method: 'GET',
      path: '/v0/block-log',
      summary: 'The newest blocks',
      tag: 'block log',
      auth: 'key',
      errors: 'plain',
      query: Type.Object({ limit: Type.Integer({ minimum: 1, maximum: 1000, default: 10, description: 'rows' }) }),
      replies: { 200: Type.Array(line) },
      handler: async ({ query }) => json(await newest(store, Math.min(query.limit, config.maxRows))),
    });

    rpc.method({
      name: 'getBlockLog',
      summary: 'The line of one block',
      tag: 'block log',
      auth: 'key',
      price: { product: 'other', credits: 1, groups: ['rpc'] },
      params: Type.Object({ slot: Type.Integer({ minimum: 0 }) }),
      result: line,
      async handler({ params: { slot } }) {
        const found = await rowAt(store, 'block_log', slot);
        if (found === undefined) throw new RpcError('notFound', { message: `Record Not Found: slot ${slot}` });
        return { ...found, reported: (await rowAt(store, 'block_log_reports', slot)) !== undefined };
      },
    });

    check('block-log', async () => ({ ok: true, detail: `at most ${config.maxRows} rows` }));
  },
});
