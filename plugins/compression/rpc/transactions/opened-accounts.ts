import { decode32, encode32 } from '../../../../src/lib/base58.ts';
import { type CreatedOutput, TREE_TYPE } from '../../../../src/solana/compression/events.ts';
import { isTokenAccount, readTokenAccount } from '../../../../src/solana/compression/token-account.ts';
import type { Db, TreeRow } from '../../store/tables.ts';
import { u64Bytes } from '../../store/u64.ts';
import { unavailable } from '../errors.ts';
import type { RecordedAccount } from '../records/account.ts';
import { byBytes, distinctBytes } from '../records/by-bytes.ts';
import type { RecordedTokens } from '../records/token.ts';

const TOKEN_PROGRAM = 'cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m';

export interface OpenedAccount {
  readonly account: RecordedAccount;
  readonly tokens: RecordedTokens | null;
}

type KnownTree = Pick<TreeRow, 'key' | 'type' | 'queue' | 'next_tree'>;

/** The accounts that a transaction created, as they were then. Errors: -32002 for an output queue whose tree is not known. */
export async function openedAccounts(
  db: Db,
  outputs: readonly CreatedOutput[],
  slot: number,
): Promise<OpenedAccount[]> {
  const keys = distinctBytes(outputs.map(({ treeOrQueue }) => treeOrQueue));
  const trees = await treesOf(db, keys);
  const byKey = byBytes(trees, ({ key }) => key);
  const byQueue = byBytes(
    trees.filter(({ queue }) => queue !== null),
    ({ queue, key }) => queue ?? key,
  );
  const nexts = await treesOf(
    db,
    trees.flatMap(({ next_tree: next }) => (next === null ? [] : [next])),
  );
  const nextByKey = byBytes(nexts, ({ key }) => key);
  const tokenProgram = decode32(TOKEN_PROGRAM)!;
  return outputs.map((output) => {
    const tree = byKey.get(output.treeOrQueue) ?? byQueue.get(output.treeOrQueue) ?? ownTree(output);
    const next = tree.next_tree === null ? undefined : nextByKey.get(tree.next_tree);
    const { account } = output;
    return {
      account: {
        ...{ hash: output.hash, leaf_index: output.leafIndex, owner: account.owner, address: account.address },
        lamports: u64Bytes(account.lamports),
        discriminator: account.data?.discriminator ?? null,
        ...{ data: account.data?.bytes ?? null, data_hash: account.data?.hash ?? null },
        ...{ seq: output.seq === null ? null : Number(output.seq), slot_created: slot },
        queued: output.seq === null ? 1 : 0,
        ...{ tree_key: tree.key, tree_type: tree.type, tree_queue: tree.queue, next_tree: tree.next_tree },
        ...{ next_type: next?.type ?? null, next_queue: next?.queue ?? null },
      },
      tokens: isTokenAccount(account, tokenProgram) ? tokensOf(account.data?.bytes ?? new Uint8Array(0)) : null,
    };
  });
}

/** A tree that is not indexed: what the event itself tells of it. */
function ownTree({ tree, treeOrQueue, treeType }: CreatedOutput): KnownTree {
  if (treeType === TREE_TYPE.stateV1) return { key: treeOrQueue, type: treeType, queue: null, next_tree: null };
  if (tree === null) throw unavailable(`the tree of the output queue ${encode32(treeOrQueue)} is not known`);
  return { key: tree, type: treeType, queue: treeOrQueue, next_tree: null };
}

async function treesOf(db: Db, keys: readonly Uint8Array[]): Promise<KnownTree[]> {
  if (keys.length === 0) return [];
  return await db
    .selectFrom('compression_trees')
    .select(['key', 'type', 'queue', 'next_tree'])
    .where((is) => is.or([is('key', 'in', [...keys]), is('queue', 'in', [...keys])]))
    .execute();
}

function tokensOf(data: Uint8Array): RecordedTokens | null {
  const tokens = readTokenAccount(data);
  if (tokens === null) return null;
  return { ...tokens, amount: u64Bytes(tokens.amount), state: tokens.state === 'frozen' ? 1 : 0 };
}
