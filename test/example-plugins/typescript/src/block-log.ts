import type { BlockProcessor, PluginContext } from 'parhelion/plugin';

export interface Line {
  slot: number;
  blockhash: string;
  transactions: number;
}

export function createBlockLog({
  store,
  enqueue,
  config,
}: PluginContext<{ maxRows: number; minTransactions: number }>) {
  const processor: BlockProcessor = {
    name: 'block-log',
    version: 1,
    chains: ['main'],
    async apply(tx, block) {
      const line: Line = { slot: block.slot, blockhash: block.blockhash, transactions: block.transactions.length };
      await tx.db.insertInto('block_log').values(line).execute();
      if (line.transactions < config.minTransactions) return;
      await enqueue(tx, [
        { kind: 'block-log.report', key: block.blockhash, group: 'all', payload: block.slot, slot: block.slot },
      ]);
    },
    async revert(tx, header) {
      await tx.db.deleteFrom('block_log').where('slot', '=', header.slot).execute();
    },
  };
  return {
    processor,
    newest: (limit: number): Promise<Line[]> =>
      store.read.selectFrom('block_log').selectAll().orderBy('slot', 'desc').limit(limit).execute() as Promise<Line[]>,
    async at(slot: number): Promise<Line | null> {
      const row = await store.read.selectFrom('block_log').selectAll().where('slot', '=', slot).executeTakeFirst();
      return (row as Line | undefined) ?? null;
    },
    async isReported(slot: number): Promise<boolean> {
      const row = await store.read
        .selectFrom('block_log_reports')
        .select('slot')
        .where('slot', '=', slot)
        .executeTakeFirst();
      return row !== undefined;
    },
  };
}
