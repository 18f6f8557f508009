import { CodedError } from '../lib/coded-error.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Migration, Queries, Store } from '../ports/store.ts';
import type { UpstreamPool } from '../ports/upstream.ts';
import { EXIT } from '../runtime/errors.ts';

interface IdentityTables {
  chain_identity: { chain: string; genesis_hash: string };
}

export const identityMigrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create chain identity',
    breaking: false,
    async up(tx) {
      await tx.db.schema
        .createTable('chain_identity')
        .addColumn('chain', 'text', (column) => column.primaryKey())
        .addColumn('genesis_hash', 'text', (column) => column.notNull())
        .execute();
    },
  },
];

/**
 * Ties a store to a chain at the first meeting and refuses every other one later, so that data of two chains can never mix.
 * Errors: STORE_WRONG_CHAIN, exit 78.
 */
export async function bindStoreToChain(store: Store, chain: ChainId, genesisHash: string): Promise<void> {
  const known = await store.write(async (tx) => {
    await tx.insertMany('chain_identity', ['chain', 'genesis_hash'], [[chain, genesisHash]], 'ignore');
    const row = await (tx.db as Queries<IdentityTables>)
      .selectFrom('chain_identity')
      .select('genesis_hash')
      .where('chain', '=', chain)
      .executeTakeFirstOrThrow();
    return row.genesis_hash;
  });
  if (known !== genesisHash) throw wrongChain(chain, known, genesisHash);
}

/** The genesis hash of the chain whose data the store holds; null before the first meeting. */
export async function readChainIdentity(store: Store, chain: ChainId): Promise<string | null> {
  const row = await (store.read as Queries<IdentityTables>)
    .selectFrom('chain_identity')
    .select('genesis_hash')
    .where('chain', '=', chain)
    .executeTakeFirst();
  return row?.genesis_hash ?? null;
}

/** Errors: STORE_WRONG_CHAIN, exit 78, when every upstream serves another chain than the one that the pool is bound to. */
export function refuseOtherChain(pool: UpstreamPool, chain: ChainId, known: string): void {
  const others = pool.states().map(({ otherChain }) => otherChain);
  const [first] = others;
  if (first !== undefined && first !== null && others.every((other) => other !== null))
    throw wrongChain(chain, known, first);
}

const wrongChain = (chain: ChainId, known: string, genesisHash: string) =>
  new CodedError(
    'STORE_WRONG_CHAIN',
    `the database holds data of the ${chain} chain with genesis hash ${known}, the upstream serves ${genesisHash}: ` +
      'use another dataDir (or store.url), or the upstream of that chain',
    { exitCode: EXIT.config, facts: { chain, known, genesisHash } },
  );
