/** Where a public explorer shows a transaction. */
import { EXPLORER_CLUSTERS, MAINNET_GENESIS } from '../../../src/solana/programs.ts';

/** Null where no explorer knows the chain: a private cluster, the local chain, and one that is not known yet. */
export function explorerAddress(signature: string, genesisHash: string | null | undefined): string | null {
  const cluster = EXPLORER_CLUSTERS.get(genesisHash ?? '');
  if (cluster === undefined) return null;
  // It shows mainnet where a link names no cluster.
  return `https://explorer.solana.com/tx/${signature}${genesisHash === MAINNET_GENESIS ? '' : `?cluster=${cluster}`}`;
}
