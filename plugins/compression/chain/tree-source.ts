import { type Clock, CodedError, codeOf, type Log, messageOf } from '../../../src/kernel/plugin.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import type { DeclaredTree } from '../config.ts';
import { defaultTrees, type KnownTree } from './default-trees.ts';
import type { TreeReader } from './tree-reader.ts';

/** Tells what a key is that a block names as a tree. */
export interface TreeSource {
  /**
   * The tree, or why it is none of ours. `slot`: the block's. Errors: COMPRESSION_TREE_UNREADABLE when no upstream answers,
   * COMPRESSION_TREE_UNDECLARED when there is none to be asked; both are healed by trying again once that has changed.
   */
  lookUp(key: Uint8Array, slot: number): Promise<KnownTree | { readonly foreign: string }>;
}

export interface TreeSourceParts {
  readonly declared: readonly DeclaredTree[];
  /** Null without an upstream. */
  readonly reader: Pick<TreeReader, 'one'> | null;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the waiting. */
  readonly signal: AbortSignal;
}

/** Pauses between the attempts; after the last one the block itself is tried again. */
const PAUSES_MS = [500, 1_000, 2_000, 4_000, 0] as const;

/** Trees that are declared, then those that everybody knows, then the chain. */
export function createTreeSource({ declared, reader, clock, log, signal }: TreeSourceParts): TreeSource {
  const known = new Map(
    [...defaultTrees(), ...declared.map(treeOfConfig)].map((tree) => [encode32(tree.key), tree] as const),
  );

  async function ask(one: TreeReader['one'], key: Uint8Array, slot: number) {
    const name = encode32(key);
    let cause: unknown;
    for (const pauseMs of PAUSES_MS) {
      try {
        const answer = await one(key, { signal, minSlot: slot });
        return answer.kind === 'tree' ? answer.tree : { foreign: answer.reason };
      } catch (error) {
        signal.throwIfAborted();
        cause = error;
        log.warn({ tree: name, code: codeOf(error), error: messageOf(error) }, 'the account of a tree cannot be read');
        if (pauseMs > 0) await clock.sleep(pauseMs, signal);
      }
    }
    throw new CodedError('COMPRESSION_TREE_UNREADABLE', `the account of tree ${name} cannot be read`, {
      ...{ retryable: true, cause, facts: { tree: name } },
    });
  }

  return {
    async lookUp(key, slot) {
      const tree = known.get(encode32(key));
      if (tree !== undefined) return tree;
      if (reader !== null) return await ask(reader.one, key, slot);
      throw new CodedError(
        'COMPRESSION_TREE_UNDECLARED',
        `a block names tree ${encode32(key)}, and without an upstream its kind has to be told in compression.trees`,
        { retryable: true, facts: { tree: encode32(key) } },
      );
    },
  };
}

/** A tree of the configuration. Errors: TypeError when a key is none. */
export function treeOfConfig({ tree, queue, type, height, rootHistoryCapacity }: DeclaredTree): KnownTree {
  const key = keyOf(tree);
  return {
    ...{ key, queue: queue === null ? key : keyOf(queue), type, height },
    ...{ rootCapacity: rootHistoryCapacity, nextTree: null },
  };
}

function keyOf(text: string): Uint8Array {
  const key = decode32(text);
  if (key === null) throw new TypeError(`compression.trees: ${text} is no key`);
  return key;
}
