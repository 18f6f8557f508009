import { type Clock, CodedError, codeOf, type Log, messageOf } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ForeignTree, NewTree, TreeSource } from '../trees/tree-source.ts';
import type { TreeReader } from './tree-reader.ts';

export interface TreeSourceParts {
  /** Null without an upstream. */
  readonly reader: Pick<TreeReader, 'one'> | null;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the waiting. */
  readonly signal: AbortSignal;
}

/** Pauses behind the attempts; after the last one the block itself is tried again. */
const PAUSES_MS = [500, 1_000, 2_000, 4_000, 0] as const;

/** Asks the chain what a key is that a block names as a tree or as an output queue. */
export function createTreeSource({ reader, clock, log, signal }: TreeSourceParts): TreeSource {
  async function ask({ one }: Pick<TreeReader, 'one'>, key: Uint8Array, slot: number): Promise<NewTree | ForeignTree> {
    const named = await one(key, { signal, minSlot: slot });
    const answer = named.kind === 'queue' ? await one(named.tree, { signal, minSlot: slot }) : named;
    if (answer.kind === 'tree') return answer.tree;
    return { foreign: answer.kind === 'foreign' ? answer.reason : 'it is the queue of a queue' };
  }

  return {
    async lookUp(key, slot) {
      const tree = encode32(key);
      if (reader === null) throw undeclared(tree);
      let cause: unknown;
      for (const pauseMs of PAUSES_MS) {
        try {
          return await ask(reader, key, slot);
        } catch (error) {
          signal.throwIfAborted();
          cause = error;
          log.warn({ tree, code: codeOf(error), error: messageOf(error) }, 'the account of a tree cannot be read');
          if (pauseMs > 0) await clock.sleep(pauseMs, signal);
        }
      }
      throw new CodedError('COMPRESSION_TREE_UNREADABLE', `the account of tree ${tree} cannot be read`, {
        ...{ retryable: true, cause, facts: { tree } },
      });
    },
  };
}

const undeclared = (tree: string) =>
  new CodedError(
    'COMPRESSION_TREE_UNDECLARED',
    `a block names tree ${tree}, and without an upstream it has to be declared in compression.trees`,
    { retryable: true, facts: { tree } },
  );
