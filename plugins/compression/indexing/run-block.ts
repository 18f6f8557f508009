import { CodedError, type Log } from '../../../src/kernel/plugin.ts';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import type { Counter } from '../../../src/ports/metrics.ts';
import type { AccountHasher } from '../../../src/solana/compression/account-hash.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { CnftIndexer } from '../das/cnft-indexer.ts';
import { keyText } from '../store/row-book.ts';
import { applyUpdates } from '../trees/apply-updates.ts';
import type { Hashing } from '../trees/hashing.ts';
import { diverge } from '../trees/tree-context.ts';
import { applyAccounts } from './apply-accounts.ts';
import type { BlockBooks } from './block-books.ts';
import type { DecodedBlock } from './decoded-block.ts';
import { keysOfEvent, type Plan, planBlock } from './plan.ts';

export interface RunParts {
  readonly hashing: Hashing;
  readonly hasher: AccountHasher;
  readonly log: Log;
  /** As in `TreeContext`. */
  readonly isStrict: boolean;
  /** Trees of compressed NFTs, where they are wanted. */
  readonly cnft?: CnftIndexer | null;
  readonly decodeErrors: Counter;
  readonly hashMismatches: Counter;
}

/** Highest type of a tree that is kept here. */
const LAST_TYPE = TREE_TYPE.addressV2;

/**
 * Works out in the books what a block with compression changes. `ids`: those that its new trees had before. Errors:
 * COMPRESSION_TREE_UNDECLARED when a tree is not known that was when the block was prepared.
 */
export async function runBlock(
  parts: RunParts,
  books: BlockBooks,
  block: DecodedBlock,
  ids?: ReadonlyMap<string, number>,
): Promise<void> {
  const { slot, concurrent = null } = block;
  await parts.cnft?.apply(books, concurrent, { slot, ...(ids === undefined ? {} : { ids }) });
  if (block.transactions.length === 0) return;
  const keys = distinct(keysOf(block));
  await books.trees.load(keys, ['gap']);
  await books.trees.insert(block.newTrees, ids);
  await noteForeign(books, block, keys);
  const plan = planBlock(block, { hasher: parts.hasher, find: (key) => books.trees.find(key) });
  tellFaults(parts, plan);
  checkHashes(parts, plan);
  const context = { books, hashing: parts.hashing, log: parts.log, isStrict: parts.isStrict };
  for (const [tree, reason] of plan.suspects) diverge(context, tree, reason);
  tellUnreadable(parts, await applyAccounts(books, plan));
  await queueAddresses(books, plan);
  const gaps = [...books.trees.rows()].filter(({ status, type }) => status === 'gap' && type <= LAST_TYPE);
  await applyUpdates(
    context,
    plan.updates,
    gaps.map(({ id }) => id),
  );
  for (const { signature } of block.transactions)
    books.transactions.put({ slot: block.slot, signature: Uint8Array.from(signature), error: null });
  books.blocks.put({ slot: block.slot, block_time: block.blockTime });
}

/** Every key in a block that may be a tree, or a queue. */
export function keysOf({ transactions }: DecodedBlock): Uint8Array[] {
  return transactions.flatMap(({ events, faults }) => [
    ...events.flatMap(keysOfEvent),
    ...faults.flatMap(({ trees }) => trees),
  ]);
}

/** Keys that must be known before a block can be applied: those of faults are only guesses. */
export function namedTrees({ transactions }: DecodedBlock): Uint8Array[] {
  return distinct(transactions.flatMap(({ events }) => events.flatMap(keysOfEvent)));
}

function distinct(keys: readonly Uint8Array[]): Uint8Array[] {
  const seen = new Map<string, Uint8Array>();
  for (const key of keys) if (key.length === 32) seen.set(keyText([key]), key);
  return [...seen.values()];
}

async function noteForeign({ trees, foreign }: BlockBooks, block: DecodedBlock, keys: readonly Uint8Array[]) {
  const unknown = keys.filter((key) => trees.find(key) === null);
  if (unknown.length === 0) return;
  await foreign.load(unknown.map((key) => [key]));
  for (const { key, reason } of block.foreign)
    if ((foreign.peek(key) ?? null) === null && trees.find(key) === null)
      foreign.put({ key: Uint8Array.from(key), slot: block.slot, reason });
  for (const key of namedTrees(block)) {
    if (trees.find(key) !== null || foreign.get(key) !== null) continue;
    const tree = encode32(key);
    throw new CodedError('COMPRESSION_TREE_UNDECLARED', `tree ${tree} is not known`, {
      ...{ retryable: true, facts: { tree } },
    });
  }
}

/** New addresses wait for their batch; those that are in the tree already came again. */
async function queueAddresses({ trees, addressQueue }: BlockBooks, { addresses }: Plan): Promise<void> {
  const open = addresses.filter(({ tree, queueIndex }) => queueIndex >= trees.byId(tree.id).next_index - 1);
  await addressQueue.load(open.map(({ tree, queueIndex }) => [tree.id, queueIndex]));
  for (const { tree, queueIndex, address } of open)
    if (addressQueue.get(tree.id, queueIndex) === null)
      addressQueue.put({ tree: tree.id, queue_index: queueIndex, address: Uint8Array.from(address) });
}

function tellFaults({ log, decodeErrors }: RunParts, { faults, slot }: Plan): void {
  decodeErrors.add(faults.length);
  for (const { signature, reason } of faults)
    log.error({ slot, signature: textOf(signature), reason }, 'an instruction of a compression program cannot be read');
}

function tellUnreadable({ log, decodeErrors }: RunParts, signatures: readonly Uint8Array[]): void {
  decodeErrors.add(signatures.length);
  for (const signature of signatures)
    log.warn({ signature: textOf(signature) }, 'the data of a compressed token account cannot be read');
}

/** What we read of an account must hash to its leaf. The leaf is right in any case: the chain emitted it. */
function checkHashes({ hasher, hashMismatches, log }: RunParts, { outputs, slot }: Plan): void {
  const hashes = hasher.hashAll(
    outputs.map(({ output: { account, leafIndex }, tree: { key, type } }) => {
      return { account, tree: key, leafIndex, version: type === TREE_TYPE.stateV1 ? 1 : 2 };
    }),
  );
  for (const [i, { output, signature }] of outputs.entries()) {
    const made = hashes[i] ?? null;
    if (made !== null && equalBytes(output.hash, made)) continue;
    hashMismatches.add();
    log.error(
      { slot, signature: textOf(signature), leafIndex: output.leafIndex, hash: encode32(output.hash) },
      'a compressed account does not hash to its leaf',
    );
  }
}

const textOf = (signature: Uint8Array): string => (signature.length === 64 ? encode64(signature) : '');
