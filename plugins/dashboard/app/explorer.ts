/** Where a public explorer shows a transaction. */
import { DEVNET_GENESIS, MAINNET_GENESIS, TESTNET_GENESIS } from '../../../src/solana/programs.ts';

const QUERIES: ReadonlyMap<string, string> = new Map([
  [MAINNET_GENESIS, ''],
  [DEVNET_GENESIS, '?cluster=devnet'],
  [TESTNET_GENESIS, '?cluster=testnet'],
]);

/** Null where no explorer knows the chain: a private cluster, the local chain, and one that is not known yet. */
export function explorerAddress(signature: string, genesisHash: string | null | undefined): string | null {
  const query = QUERIES.get(genesisHash ?? '');
  return query === undefined ? null : `https://explorer.solana.com/tx/${signature}${query}`;
}
