import { Type } from '@sinclair/typebox';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { stringify } from '../../../src/lib/json.ts';
import { type CallContext, type ChainReader, CodedError, JsonText, messageOf } from '../../../src/plugin/plugin.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { decodeCompression } from '../../../src/solana/compression/decode-compression.ts';
import {
  type CompressionEvent,
  type CreatedOutput,
  TREE_TYPE,
  type TransactionEvent,
} from '../../../src/solana/compression/events.ts';
import { createProgramFinder } from '../../../src/solana/compression/programs.ts';
import { isTokenAccount, readTokenAccount } from '../../../src/solana/compression/token-account.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { type Db, readAtOneSlot, type TreeRow, u64Bytes } from '../store/tables.ts';
import { findAccounts } from './accounts.ts';
import { notFound, signature64, unavailable, withheld } from './fields.ts';
import { type MethodFactory, plainMethod } from './method.ts';
import {
  accountRecord,
  accountSchema,
  byBytes,
  distinctBytes,
  type FullAccount,
  key,
  NO_KEY,
  orNull,
  type RecordedAccount,
  type RecordedTokens,
  type RecordVersion,
  tokenRecord,
  tokenSchema,
} from './records.ts';

interface TransactionParts {
  readonly chain: ChainReader | null;
  /** Account-compression program, base58. */
  readonly programId: string;
}

/** getTransactionWithCompressionInfo and its V2. */
export function getTransactionWithCompressionInfo(
  { chain, programId }: TransactionParts,
  version: RecordVersion,
): MethodFactory {
  return ({ store, slots }) =>
    plainMethod(slots, {
      name: version === 1 ? 'getTransactionWithCompressionInfo' : 'getTransactionWithCompressionInfoV2',
      summary: 'A transaction as the chain has it, and the compressed accounts that it closed and opened',
      fields: { signature: signature64('signature of the transaction') },
      result: Type.Object({
        transaction: Type.Unknown({ description: 'as getTransaction returns it' }),
        compressionInfo: infoSchema(version),
      }),
      run: async ({ signature }, call) => {
        const { text, block } = await fetchTransaction(chain, signature.text, call);
        const events = transactionEvents(block, programId);
        const { value } = await readAtOneSlot(store, async (db) => ({
          closedAccounts: await closedAccounts(
            db,
            events.flatMap(({ inputs }) => inputs.map(({ hash }) => hash)),
            version,
          ),
          openedAccounts: (
            await openedAccounts(
              db,
              events.flatMap(({ outputs }) => outputs),
              block.slot,
            )
          ).map(({ account, tokens }) => ({
            account: accountRecord(account, version),
            optionalTokenData: tokens === null ? null : tokenRecord(tokens),
          })),
        }));
        // The transaction is returned as received: its numbers may exceed the precision of a parser.
        return new JsonText(`{"transaction":${text},"compressionInfo":${stringify(value)}}`);
      },
    });
}

/** Errors: -32603 when a part of the transaction cannot be read, so that its effects are unknown. */
function transactionEvents(block: ChainBlock, programId: string): TransactionEvent[] {
  const ids = createProgramFinder(programId)(block.keys);
  return block.transactions.flatMap((transaction) => {
    const { events, faults } = decodeCompression(transaction, block.keys, ids);
    if (faults.length > 0) throw withheld('the compression events of the transaction cannot be read');
    return events.filter(isOfAccounts);
  });
}

const isOfAccounts = (event: CompressionEvent): event is TransactionEvent => event.kind === 'transaction';

function infoSchema(version: RecordVersion) {
  const account = accountSchema(version);
  const closed =
    version === 1
      ? account
      : Type.Object(
          { account, nullifier: key('nullifier'), txHash: key('hash of the transaction') },
          { description: 'the account, and what spent it' },
        );
  const optionalTokenData = orNull(tokenSchema());
  return Type.Object(
    {
      closedAccounts: Type.Array(Type.Object({ account: closed, optionalTokenData }), {
        description: 'spent accounts',
      }),
      openedAccounts: Type.Array(Type.Object({ account, optionalTokenData }), { description: 'created accounts' }),
    },
    { description: 'what it did to compressed accounts' },
  );
}

const TOKEN_PROGRAM = 'cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m';

interface OpenedAccount {
  readonly account: RecordedAccount;
  readonly tokens: RecordedTokens | null;
}

type KnownTree = Pick<TreeRow, 'key' | 'type' | 'queue' | 'next_tree'>;

/** The accounts that a transaction created, in their original state. Errors: -32002 for an output queue whose tree is unknown. */
async function openedAccounts(db: Db, outputs: readonly CreatedOutput[], slot: number): Promise<OpenedAccount[]> {
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

/** A tree that is not indexed, from the event itself. */
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

/** Hashes listed in an error; a transaction can contain many. */
const MOST_NAMED = 8;

/** The accounts that a transaction spent. The transaction contains only their hashes. Errors: -32002 when one is not indexed. */
async function closedAccounts(db: Db, inputs: readonly Uint8Array[], version: RecordVersion): Promise<object[]> {
  const hashes = distinctBytes(inputs);
  if (hashes.length === 0) return [];
  const accounts = await findAccounts(db, hashes);
  const missing = hashes.filter((hash) => accounts.get(hash) === undefined);
  if (missing.length > 0) {
    const names = missing.slice(0, MOST_NAMED).map((hash) => encode32(hash));
    throw unavailable(`${missing.length} closed accounts of the transaction are not indexed: ${names.join(', ')}`);
  }
  const tokens = byBytes(
    await db.selectFrom('compression_token_accounts').selectAll().where('hash', 'in', hashes).execute(),
    ({ hash }) => hash,
  );
  return hashes.flatMap((hash) => {
    const row = accounts.get(hash);
    if (row === undefined) return [];
    const held = tokens.get(hash);
    return [
      {
        account: version === 1 ? accountRecord(row, 1) : { account: accountRecord(row, 2), ...spendOf(row) },
        optionalTokenData: held === undefined ? null : tokenRecord(held),
      },
    ];
  });
}

/** Accounts of trees without queues have neither. */
function spendOf({ tree_type: type, nullifier, tx_hash: txHash }: FullAccount): object {
  const shown = (hash: Uint8Array | null) => (hash === null || type === TREE_TYPE.stateV1 ? NO_KEY : encode32(hash));
  return { nullifier: shown(nullifier), txHash: shown(txHash) };
}

interface FetchedTransaction {
  /** The answer of the upstream, unparsed. */
  readonly text: string;
  /** A block that holds just this transaction. */
  readonly block: ChainBlock;
}

type Asker = Pick<CallContext, 'signal' | 'tenant'>;

/** Nodes refuse a version above the newest one. */
const MOST_VERSION = 1;

/** Reads a transaction from the chain. Errors: -32000 when it is missing; -32002; those of the upstreams. */
async function fetchTransaction(
  chain: ChainReader | null,
  signature: string,
  asker: Asker,
): Promise<FetchedTransaction> {
  if (chain === null) throw unavailable('no Solana upstream is configured');
  const options = { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: MOST_VERSION };
  const text = await ask(chain, [signature, options], asker);
  if (text === 'null') throw notFound('Transaction not found');
  return { text, block: read(text) };
}

async function ask(chain: ChainReader, params: readonly unknown[], { signal, tenant }: Asker): Promise<string> {
  try {
    return await chain.callText('getTransaction', params, { signal, tenant });
  } catch (error) {
    if (error instanceof CodedError && (error.code === 'CHAIN_RPC_ERROR' || error.code === 'CHAIN_BAD_RESPONSE'))
      throw unavailable(`the Solana upstream cannot give the transaction: ${messageOf(error)}`);
    throw error;
  }
}

function read(text: string): ChainBlock {
  try {
    return decodeTransaction(JSON.parse(text));
  } catch (error) {
    throw unavailable(`the Solana upstream gave a transaction that cannot be read: ${messageOf(error)}`);
  }
}
