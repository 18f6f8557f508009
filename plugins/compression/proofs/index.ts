import type { Log, Store } from '../../../src/kernel/plugin.ts';
import type { Hashing } from '../trees/hashing.ts';
import type { NewTree } from '../trees/tree-source.ts';
import { createDamageGuard, type DamageGuard } from './damage.ts';
import { leadsToRoot } from './fold.ts';
import { createLeafFinder, type LeafFinder } from './leaf-finder.ts';
import { createPageCache } from './page-cache.ts';
import { createPathReader, type PathReader } from './path-reader.ts';
import { createProofTexts, type ProofTexts } from './proof-text.ts';
import { createUnseenTrees, type UnseenTrees } from './unseen-trees.ts';

/** What methods make proofs with. */
export interface Proofs {
  readonly reader: PathReader;
  readonly finder: LeafFinder;
  readonly texts: ProofTexts;
  readonly unseen: UnseenTrees;
  readonly guarded: DamageGuard;
  readonly hashing: Hashing;
}

export interface ProofsParts {
  readonly store: Store;
  readonly log: Log;
  readonly config: { readonly pageCacheBytes: number; readonly verifyOnRead: boolean };
  readonly hashing: Hashing;
  /** Trees that are there from the start. */
  readonly known: readonly NewTree[];
}

export function createProofs({ store, log, config, hashing, known }: ProofsParts): Proofs {
  const reader = createPathReader({
    store,
    cache: createPageCache(config.pageCacheBytes),
    ...(config.verifyOnRead
      ? { verify: (place, pages) => leadsToRoot(hashing.poseidon, hashing.zeros, place, pages) }
      : {}),
  });
  return {
    ...{ reader, hashing },
    finder: createLeafFinder(store, reader),
    texts: createProofTexts(() => hashing.zeros),
    unseen: createUnseenTrees(known, hashing),
    guarded: createDamageGuard(store, log),
  };
}
