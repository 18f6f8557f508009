import type { Log } from '../../../src/kernel/plugin.ts';
import type { Metrics } from '../../../src/ports/metrics.ts';
import { type AccountHasher, createAccountHasher } from '../../../src/solana/compression/account-hash.ts';
import type { CnftIndexer } from '../das/cnft-indexer.ts';
import { createHashing, type Hashing } from '../trees/hashing.ts';
import { createIndexer, type Indexer } from './indexer.ts';

export interface CompressionParts {
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'counter'>;
  readonly config: { readonly verifyChain: boolean; readonly programId: string };
  /** That of the thread, where there is one. */
  readonly hashing?: Hashing;
  readonly cnft?: CnftIndexer | null;
}

/** Puts the indexer and its counters together. */
export function createCompressionIndexer({
  log,
  metrics,
  config,
  hashing: given,
  cnft = null,
}: CompressionParts): Indexer {
  const hashing = given ?? createHashing(metrics.counter('hashes_total', 'hashes made in Merkle trees'));
  let hasher: AccountHasher | null = null;
  return createIndexer({
    ...{ hashing, log, isStrict: config.verifyChain, cnft },
    // Made when it is first used, as the hasher under it.
    get hasher() {
      hasher ??= createAccountHasher(hashing.poseidon);
      return hasher;
    },
    decodeErrors: metrics.counter(
      'decode_errors_total',
      'instructions that should have been events and cannot be read',
    ),
    hashMismatches: metrics.counter(
      'account_hash_mismatches_total',
      'compressed accounts that do not hash to their leaf',
    ),
    rollBacks: metrics.counter('rollbacks_total', 'blocks with compression that were taken back'),
  });
}
