import { Type } from '@sinclair/typebox';
import { decode, decode32, encode, encode32, encode64 } from '../../../src/lib/base58.ts';
import { parseExact, stringify } from '../../../src/lib/json.ts';
import { type CallContext, type ChainReader, CodedError, JsonText, messageOf } from '../../../src/plugin/plugin.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { isCompressedTokenAccount, readTokenAccount } from '../../../src/solana/compression/accounts.ts';
import { decodeCompression } from '../../../src/solana/compression/decode-compression.ts';
import {
  type CompressionEvent,
  type CreatedOutput,
  TREE_TYPE,
  type TransactionEvent,
} from '../../../src/solana/compression/events.ts';
import { createProgramFinder } from '../../../src/solana/compression/instructions.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { LIGHT_TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { orNull } from '../../../src/solana/schemas.ts';
import { type CompressionDb, readAtOneSlot, SUBJECT, type TreeRow, u64Bytes } from '../store/tables.ts';
import { findAccounts } from './accounts.ts';
import {
  after,
  cursor,
  invalid,
  key32,
  limit,
  pageOf,
  recordNotFound,
  signature64,
  unavailable,
  withheld,
} from './fields.ts';
import { compressionMethod, type MethodFactory, plainMethod } from './method.ts';
import {
  accountRecord,
  accountSchema,
  distinctBytes,
  type FullAccount,
  indexByBytes,
  key,
  NO_KEY,
  pageSchema,
  type RecordedAccount,
  type RecordedTokens,
  type RecordVersion,
  signatureSchema,
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
      errors: ['notFound'],
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

interface OpenedAccount {
  readonly account: RecordedAccount;
  readonly tokens: RecordedTokens | null;
}

type KnownTree = Pick<TreeRow, 'key' | 'type' | 'queue' | 'next_tree'>;

/** The accounts that a transaction created, in their original state. Errors: -32002 for an output queue whose tree is unknown. */
async function openedAccounts(
  db: CompressionDb,
  outputs: readonly CreatedOutput[],
  slot: number,
): Promise<OpenedAccount[]> {
  const keys = distinctBytes(outputs.map(({ treeOrQueue }) => treeOrQueue));
  const trees = await treesOf(db, keys);
  const byKey = indexByBytes(trees, ({ key }) => key);
  const byQueue = indexByBytes(
    trees.filter(({ queue }) => queue !== null),
    ({ queue, key }) => queue ?? key,
  );
  const nexts = await treesOf(
    db,
    trees.flatMap(({ next_tree: next }) => (next === null ? [] : [next])),
  );
  const nextByKey = indexByBytes(nexts, ({ key }) => key);
  const tokenProgram = decode32(LIGHT_TOKEN_PROGRAM)!;
  return outputs.map((output) => {
    const tree = byKey.get(output.treeOrQueue) ?? byQueue.get(output.treeOrQueue) ?? ownTree(output);
    const next = tree.next_tree === null ? undefined : nextByKey.get(tree.next_tree);
    const { account } = output;
    return {
      account: {
        hash: output.hash,
        leaf_index: output.leafIndex,
        owner: account.owner,
        address: account.address,
        lamports: u64Bytes(account.lamports),
        discriminator: account.data?.discriminator ?? null,
        data: account.data?.bytes ?? null,
        data_hash: account.data?.hash ?? null,
        seq: output.seq === null ? null : Number(output.seq),
        slot_created: slot,
        queued: output.seq === null ? 1 : 0,
        tree_key: tree.key,
        tree_type: tree.type,
        tree_queue: tree.queue,
        next_tree: tree.next_tree,
        next_type: next?.type ?? null,
        next_queue: next?.queue ?? null,
      },
      tokens: isCompressedTokenAccount(account, tokenProgram)
        ? tokensOf(account.data?.bytes ?? new Uint8Array(0))
        : null,
    };
  });
}

/** A tree that is not indexed, from the event itself. */
function ownTree({ tree, treeOrQueue, treeType }: CreatedOutput): KnownTree {
  if (treeType === TREE_TYPE.stateV1) return { key: treeOrQueue, type: treeType, queue: null, next_tree: null };
  if (tree === null) throw unavailable(`the tree of the output queue ${encode32(treeOrQueue)} is not known`);
  return { key: tree, type: treeType, queue: treeOrQueue, next_tree: null };
}

async function treesOf(db: CompressionDb, keys: readonly Uint8Array[]): Promise<KnownTree[]> {
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
const MAX_NAMED = 8;

/** The accounts that a transaction spent. The transaction contains only their hashes. Errors: -32002 when one is not indexed. */
async function closedAccounts(
  db: CompressionDb,
  inputs: readonly Uint8Array[],
  version: RecordVersion,
): Promise<object[]> {
  const hashes = distinctBytes(inputs);
  if (hashes.length === 0) return [];
  const accounts = await findAccounts(db, hashes);
  const missing = hashes.filter((hash) => accounts.get(hash) === undefined);
  if (missing.length > 0) {
    const names = missing.slice(0, MAX_NAMED).map((hash) => encode32(hash));
    throw unavailable(`${missing.length} closed accounts of the transaction are not indexed: ${names.join(', ')}`);
  }
  const tokens = indexByBytes(
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
const MAX_VERSION = 1;

/** Reads a transaction from the chain. Errors: -32000 when it is missing; -32002; those of the upstreams. */
async function fetchTransaction(
  chain: ChainReader | null,
  signature: string,
  asker: Asker,
): Promise<FetchedTransaction> {
  if (chain === null) throw unavailable('no Solana upstream is configured');
  const options = { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: MAX_VERSION };
  const text = await ask(chain, [signature, options], asker);
  if (text === 'null') throw recordNotFound('Transaction not found');
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
    return decodeTransaction(parseExact(text));
  } catch (error) {
    throw unavailable(`the Solana upstream gave a transaction that cannot be read: ${messageOf(error)}`);
  }
}

/** getCompressionSignaturesForAccount */
export const getCompressionSignaturesForAccount = (): MethodFactory =>
  compressionMethod({
    name: 'getCompressionSignaturesForAccount',
    errors: ['notFound'],
    summary: 'The transaction that created a compressed account, then the one that spent it',
    fields: { hash: key32('hash of the account') },
    tolerant: true,
    result: Type.Object({ items: Type.Array(signatureSchema(), { maxItems: 2, description: 'the transactions' }) }),
    async run({ hash }, { db }) {
      const row = await db
        .selectFrom('compression_accounts')
        .select(['slot_created', 'created_by', 'slot_spent', 'spent_by'])
        .where('hash', '=', hash)
        .executeTakeFirst();
      if (row === undefined) throw recordNotFound('Account not found');
      const places: SignaturePlace[] = [{ slot: row.slot_created, signature: row.created_by }];
      if (row.slot_spent !== null && row.spent_by !== null)
        places.push({ slot: row.slot_spent, signature: row.spent_by });
      return { items: await signatureRecords(db, places) };
    },
  });

const SUBJECTS = {
  address: { name: 'getCompressionSignaturesForAddress', kind: SUBJECT.address, what: 'an address' },
  owner: { name: 'getCompressionSignaturesForOwner', kind: SUBJECT.owner, what: 'an owner of accounts' },
  tokenOwner: { name: 'getCompressionSignaturesForTokenOwner', kind: SUBJECT.tokenOwner, what: 'an owner of tokens' },
} as const;

/** getCompressionSignaturesForAddress, …ForOwner and …ForTokenOwner. */
export function getCompressionSignaturesFor(subject: keyof typeof SUBJECTS): MethodFactory {
  const { name, kind, what } = SUBJECTS[subject];
  return compressionMethod({
    name,
    summary: `Transactions that created or spent compressed accounts of ${what}, newest first`,
    fields: {
      ...(subject === 'address' ? { address: key32('address of accounts') } : { owner: key32('owner') }),
      cursor: signatureCursor(),
      limit: limit(),
    },
    result: pageSchema(signatureSchema()),
    async run(params, { db }) {
      const { cursor, limit: most } = params;
      let query = db
        .selectFrom('compression_subjects')
        .select(['slot', 'signature'])
        .where('kind', '=', kind)
        .where('subject', '=', 'address' in params ? params.address : params.owner)
        .orderBy('slot', 'desc')
        .orderBy('signature', 'desc')
        .limit(most + 1);
      if (cursor !== null) {
        const { slot, signature } = placeOf(cursor);
        query = query.where(after(['slot', 'signature'], 'desc', [slot, signature]));
      }
      const page = pageOf(await query.execute(), most, cursorOf);
      return { items: await signatureRecords(db, page.rows), cursor: page.cursor };
    },
  });
}

interface Failing extends SignaturePlace {
  /** JSON of the transaction's error. */
  readonly error: string | null;
}

interface Timed extends Failing {
  readonly blockTime: number;
}

/** getLatestCompressionSignatures */
export const getLatestCompressionSignatures = (): MethodFactory =>
  compressionMethod({
    name: 'getLatestCompressionSignatures',
    summary: 'The newest transactions that use compression, newest first',
    fields: { cursor: signatureCursor(), limit: limit() },
    result: pageSchema(signatureSchema()),
    async run({ cursor, limit: most }, { db }) {
      const from = cursor === null ? null : placeOf(cursor);
      const page = pageOf(await compressionTransactions(db, from, most + 1), most, cursorOf);
      return { items: await signatureRecords(db, page.rows), cursor: page.cursor };
    },
  });

/** getLatestNonVotingSignatures */
export const getLatestNonVotingSignatures = (): MethodFactory =>
  compressionMethod({
    name: 'getLatestNonVotingSignatures',
    summary:
      'The newest transactions that are no votes, newest first: about 1000 of them, and all that use compression',
    fields: { cursor: signatureCursor(), limit: limit() },
    result: Type.Object({ items: Type.Array(signatureSchema(true), { description: 'the transactions' }) }),
    async run({ cursor, limit: most }, { db }) {
      const from = cursor === null ? null : placeOf(cursor);
      const own = await compressionTransactions(db, from, most);
      const records = await signatureRecords(db, own);
      const shown = own.map((one, at) => ({ ...one, blockTime: records[at]?.blockTime ?? 0 }));
      const newest = [...shown, ...(await recentTransactions(db, from, most))].sort(newestFirst).slice(0, most);
      return {
        items: newest.map(({ slot, signature, blockTime, error }) => ({
          signature: encode64(signature),
          slot,
          blockTime,
          error,
        })),
      };
    },
  });

async function compressionTransactions(
  db: CompressionDb,
  from: SignaturePlace | null,
  count: number,
): Promise<Failing[]> {
  const query = db
    .selectFrom('compression_transactions')
    .selectAll()
    .orderBy('slot', 'desc')
    .orderBy('signature', 'desc')
    .limit(count);
  return await (from === null
    ? query
    : query.where(after(['slot', 'signature'], 'desc', [from.slot, from.signature]))
  ).execute();
}

/** A row holds the transactions of a block, so the position is searched in the first row. */
async function recentTransactions(db: CompressionDb, from: SignaturePlace | null, count: number): Promise<Timed[]> {
  let query = db.selectFrom('compression_recent').select(['slot', 'body', 'block_time']).orderBy('slot', 'desc');
  if (from !== null) query = query.where('slot', '<=', from.slot);
  const found: Timed[] = [];
  for (const { slot, body, block_time: blockTime } of await query.execute()) {
    const block = (JSON.parse(body) as [string, string | null][]).map(([signature, error]) => {
      return { slot, signature: decode(signature) ?? new Uint8Array(64), blockTime: blockTime ?? 0, error };
    });
    found.push(...block.filter((one) => from === null || newestFirst(from, one) < 0));
    if (found.length >= count) break;
  }
  return found;
}

const newestFirst = (a: SignaturePlace, b: SignaturePlace): number =>
  b.slot - a.slot || Buffer.compare(b.signature, a.signature);

interface SignatureRecord {
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. Clients require a number, so blocks without a time show 0. */
  readonly blockTime: number;
}

/** Signatures with the times of their blocks, in the same order. */
async function signatureRecords(db: CompressionDb, places: readonly SignaturePlace[]): Promise<SignatureRecord[]> {
  const times = await blockTimes(
    db,
    places.map(({ slot }) => slot),
  );
  return places.map(({ slot, signature }) => ({
    signature: encode64(signature),
    slot,
    blockTime: times.get(slot) ?? 0,
  }));
}

async function blockTimes(db: CompressionDb, slots: readonly number[]): Promise<Map<number, number | null>> {
  const distinct = [...new Set(slots)];
  const rows =
    distinct.length === 0
      ? []
      : await db.selectFrom('compression_blocks').selectAll().where('slot', 'in', distinct).execute();
  return new Map(rows.map((row) => [row.slot, row.block_time]));
}

/** A position in a list of signatures, newest first. */
interface SignaturePlace {
  readonly slot: number;
  /** 64 bytes. */
  readonly signature: Uint8Array;
}

/** Slot, little-endian, and signature. */
const CURSOR_BYTES = 72;
const SLOT_BYTES = 8;

const signatureCursor = () => cursor(CURSOR_BYTES);

/** Errors: -32602 for an impossible slot. */
function placeOf(bytes: Uint8Array): SignaturePlace {
  const slot = Buffer.from(bytes.buffer, bytes.byteOffset, SLOT_BYTES).readBigUInt64LE();
  if (slot > BigInt(Number.MAX_SAFE_INTEGER)) throw invalid('Invalid cursor');
  return { slot: Number(slot), signature: bytes.subarray(SLOT_BYTES) };
}

function cursorOf({ slot, signature }: SignaturePlace): string {
  const bytes = Buffer.alloc(CURSOR_BYTES);
  bytes.writeBigUInt64LE(BigInt(slot));
  bytes.set(signature, SLOT_BYTES);
  return encode(bytes);
}
