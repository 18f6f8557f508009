import { encode32, encode32Into } from '../../../src/lib/base58.ts';
import type { Log, Store } from '../../../src/plugin/plugin.ts';
import { eachSibling } from '../../../src/solana/merkle/path.ts';
import { treeContext } from '../rpc/records.ts';
import type { TreeRow } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import type { NewTree } from '../trees/tree-update.ts';
import { type AddressPath, createUnseenTrees, type UnseenTrees } from './address-paths.ts';
import { leadsToRoot } from './fold.ts';
import { createLeafFinder, type LeafFinder } from './leaf-finder.ts';
import {
  createDamageGuard,
  createPageCache,
  createPathReader,
  type DamageGuard,
  type PathPages,
  type PathReader,
} from './path-reader.ts';

/** What methods make proofs with. */
export interface Proofs {
  readonly reader: PathReader;
  readonly finder: LeafFinder;
  readonly texts: ProofTexts;
  readonly unseen: UnseenTrees;
  readonly guarded: DamageGuard;
  readonly hashing: Hashing;
}

interface ProofsParts {
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

/** Longest base58 of 32 bytes, with quotes and comma. */
const HASH_CHARACTERS = 47;
/** No tree has more levels. */
const MOST_LEVELS = 40;
const [QUOTE, COMMA] = [0x22, 0x2c];

/** What a proof says, beside its siblings. */
interface ProofHead {
  readonly hash: Uint8Array;
  readonly leafIndex: number;
  readonly tree: Pick<TreeRow, 'key' | 'type' | 'queue' | 'height' | 'seq' | 'root'>;
  readonly pages: PathPages;
}

/**
 * JSON of proofs. They are the hot answers, so no value is made on the way: all base58 of the siblings goes into one buffer and is
 * copied out at once. One instance per thread: calls never overlap.
 */
interface ProofTexts {
  /** As the methods of the first version have it. */
  plain(proof: ProofHead): string;
  /** As the V2 methods have it. */
  inContext(proof: ProofHead, proveByIndex: boolean): string;
  /** That there is no leaf with this address. */
  absence(proof: AddressPath): string;
}

function createProofTexts(zeros: () => Uint8Array): ProofTexts {
  const target = Buffer.alloc(MOST_LEVELS * HASH_CHARACTERS);

  const siblings = (height: number, leafIndex: number, pages: PathPages): string => {
    let at = 0;
    eachSibling(height, leafIndex, pages, zeros(), (bytes, offset) => {
      if (at > 0) target[at++] = COMMA;
      target[at++] = QUOTE;
      at += encode32Into(bytes, offset, target, at);
      target[at++] = QUOTE;
    });
    return target.toString('latin1', 0, at);
  };
  const start = ({ leafIndex, tree, pages }: Pick<ProofHead, 'leafIndex' | 'tree' | 'pages'>): string =>
    `{"proof":[${siblings(tree.height, leafIndex, pages)}],"root":"${encode32(tree.root)}","rootSeq":${tree.seq}`;
  const common = (proof: ProofHead): string =>
    `${start(proof)},"leafIndex":${proof.leafIndex},"hash":"${encode32(proof.hash)}"`;

  return {
    plain: (proof) => `${common(proof)},"merkleTree":"${encode32(proof.tree.key)}"}`,
    inContext: (proof, proveByIndex) => {
      const { type, key, queue } = proof.tree;
      const context = JSON.stringify(treeContext(type, key, queue));
      return `${common(proof)},"proveByIndex":${proveByIndex},"treeContext":${context}}`;
    },
    absence: (proof) => {
      const { address, value, next_value, next_index, leaf_index: leafIndex, tree } = proof;
      const range = `"lowerRangeAddress":"${encode32(value)}","higherRangeAddress":"${encode32(next_value)}"`;
      const place = `"nextIndex":${next_index},"lowElementLeafIndex":${leafIndex},"merkleTree":"${encode32(tree.key)}"`;
      return `${start({ ...proof, leafIndex })},"address":"${encode32(address)}",${range},${place}}`;
    },
  };
}
