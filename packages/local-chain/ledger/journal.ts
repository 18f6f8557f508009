import { closeSync, existsSync, fstatSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { deserialize, serialize } from 'node:v8';
import { CodedError, EXIT } from '../../../src/lib/coded-error.ts';
import { decodeSentTransaction } from '../vm/transaction.ts';
import type { VmAccount } from '../vm/vm.ts';
import type { Bank, KeptChain } from './bank.ts';
import type { LedgerBlock, LedgerListener, PreImages, TransactionMeta, TransactionRecord } from './state.ts';

const FORMAT = 1;
const LENGTH_BYTES = 4;
/** Entries are collected to this size before they are written to a new file. */
const CHUNK_BYTES = 1024 * 1024;

/**
 * The file that keeps a chain over restarts. Its first entry is a head; the others are blocks and accounts in the order in which they
 * changed, each in the form of `node:v8` after its length. An entry is written before anybody hears of its block, so a killed process loses
 * nothing that a client has seen in a block; a last entry that is cut off is ignored.
 * The file is written anew from the current state when it has doubled, and after a fork, whose dropped blocks it must not contain.
 */
interface Head {
  readonly kind: 'head';
  readonly format: number;
  readonly genesisHash: string;
  readonly consensus: string;
  readonly earlierTransactions: number;
}

interface AccountEntry {
  readonly kind: 'account';
  readonly key: string;
  readonly account: VmAccount | null;
}

interface BlockEntry {
  readonly kind: 'block';
  readonly block: Omit<LedgerBlock, 'records' | 'written' | 'preImages'>;
  readonly records: readonly KeptRecord[];
  /** Accounts after the block that it has changed. Empty in a file written anew, where all accounts stand before the blocks. */
  readonly accounts: readonly (readonly [string, VmAccount | null])[];
  readonly written: readonly string[];
  /** What a fork needs to drop the block; empty where blocks are final at once. */
  readonly preImages: PreImages;
  readonly branch: number;
  readonly fixtures: number;
  readonly firstAvailable: number;
}

type Entry = Head | AccountEntry | BlockEntry;

interface KeptRecord {
  readonly bytes: Uint8Array;
  readonly keys: readonly string[];
  readonly meta: TransactionMeta;
  readonly memo: string | null;
  readonly recorded: boolean;
}

/** The chain in a file; null without one. Throws LOCAL_CHAIN_FILE: it is of another chain or version. */
export function readJournal(path: string, expected: { readonly genesisHash: string; readonly consensus: string }) {
  if (!existsSync(path)) return null;
  const [head, ...entries] = entriesOf(readFileSync(path));
  if (head?.kind !== 'head' || head.format !== FORMAT) throw unreadable(path, 'it is of another version');
  for (const name of ['genesisHash', 'consensus'] as const) {
    if (head[name] !== expected[name]) throw unreadable(path, `its ${name} is ${head[name]}, not ${expected[name]}`);
  }
  const accounts = new Map<string, VmAccount | null>();
  let blocks: LedgerBlock[] = [];
  let [branch, fixtures, firstAvailable, count] = [0, 0, 0, head.earlierTransactions];
  for (const entry of entries) {
    if (entry.kind === 'account') accounts.set(entry.key, entry.account);
    if (entry.kind !== 'block') continue;
    for (const [key, account] of entry.accounts) accounts.set(key, account);
    blocks.push(blockOf(entry));
    ({ branch, fixtures, firstAvailable } = entry);
  }
  if (blocks.length === 0) return null;
  const kept = blocks.filter(({ slot }) => slot >= firstAvailable);
  const dropped = blocks.slice(0, blocks.length - kept.length);
  for (const { records } of dropped) count += records.length;
  blocks = kept;
  return { blocks, accounts, earlierTransactions: count, branch, fixtures } satisfies KeptChain;
}

function unreadable(path: string, reason: string): CodedError {
  return new CodedError(
    'LOCAL_CHAIN_FILE',
    `the local chain cannot be continued from ${path}: ${reason}. Delete its folder for a new chain`,
    { exitCode: EXIT.config },
  );
}

function* entriesOf(bytes: Buffer): Generator<Entry> {
  let at = 0;
  while (at + LENGTH_BYTES <= bytes.length) {
    const end = at + LENGTH_BYTES + bytes.readUInt32LE(at);
    if (end > bytes.length) return;
    yield deserialize(bytes.subarray(at + LENGTH_BYTES, end)) as Entry;
    at = end;
  }
}

function blockOf({ block, records, written, preImages }: BlockEntry): LedgerBlock {
  return {
    ...block,
    records: records.map((record, index) => recordOf(record, block.slot, index)),
    written: new Set(written),
    preImages,
  };
}

function recordOf({ bytes, keys, meta, memo, recorded }: KeptRecord, slot: number, index: number): TransactionRecord {
  const transaction = decodeSentTransaction(bytes);
  return { signature: transaction.signatures[0]!, slot, transaction, keys, meta, memo, recorded, index };
}

/** Writes a chain to its file while it runs. */
export class Journal {
  readonly listener: LedgerListener;
  readonly #path: string;
  readonly #bank: Bank;
  /** Keys of every account that differs from the start of the engine. */
  readonly #changed: Set<string>;
  #descriptor: number;
  /** Blocks written since the file was written anew. */
  #appended = 0;
  #mode: 'appending' | 'after-fork' | 'closed' = 'appending';

  /** Writes the file anew. `kept`: what was read from it. */
  constructor(path: string, bank: Bank, kept: KeptChain | null) {
    this.#path = path;
    this.#bank = bank;
    this.#changed = new Set(kept?.accounts.keys());
    this.#descriptor = this.#rewrite();
    this.listener = {
      sealed: (block) => this.#sealed(block),
      accountSet: (key) => {
        this.#changed.add(key);
        this.#append({ kind: 'account', key, account: bank.accounts.get(key) });
      },
      rolledBack: () => {
        this.#mode = 'after-fork';
      },
    };
  }

  close(): void {
    if (this.#mode === 'closed') return;
    this.#mode = 'closed';
    closeSync(this.#descriptor);
  }

  #sealed(block: LedgerBlock): void {
    for (const key of block.written) this.#changed.add(key);
    if (this.#mode === 'after-fork' || this.#appended >= this.#bank.options.maxBlocks) {
      closeSync(this.#descriptor);
      this.#descriptor = this.#rewrite();
      this.#mode = 'appending';
      this.#appended = 0;
      return;
    }
    this.#appended += 1;
    this.#append(
      this.#entryOf(
        block,
        [...block.written].map((key) => [key, this.#bank.accounts.get(key)] as const),
      ),
    );
  }

  #append(entry: Entry): void {
    if (this.#mode === 'closed') return;
    // Two writers would each lose what the other one wrote.
    if (fstatSync(this.#descriptor).nlink === 0) {
      throw new CodedError('LOCAL_CHAIN_FILE', `another process writes the local chain of ${this.#path}`);
    }
    writeAll(this.#descriptor, framed(entry));
  }

  #entryOf(block: LedgerBlock, accounts: BlockEntry['accounts']): BlockEntry {
    const { records, written, preImages, ...rest } = block;
    const { branch, fixtures, state, options } = this.#bank;
    const canFork = options.finalityDepth > 0;
    return {
      kind: 'block',
      block: rest,
      records: records.map(({ transaction, keys, meta, memo, recorded }) => ({
        bytes: transaction.bytes,
        keys,
        meta,
        memo,
        recorded,
      })),
      accounts,
      written: canFork ? [...written] : [],
      preImages: canFork ? preImages : new Map(),
      branch,
      fixtures,
      firstAvailable: state.firstAvailable(),
    };
  }

  /** Replaces the file by one of the current state; returns its descriptor, at its end. */
  #rewrite(): number {
    const { state, options, accounts } = this.#bank;
    const blocks = state.blocks();
    const inBlocks = blocks.reduce((sum, { records }) => sum + records.length, 0);
    const openRecords = this.#bank.pending.records.length;
    const temporary = `${this.#path}.new`;
    const descriptor = openSync(temporary, 'w', 0o600);
    const { genesisHash, consensus } = options;
    const earlierTransactions = state.transactionCount() - inBlocks - openRecords;
    let waiting: Buffer[] = [framed({ kind: 'head', format: FORMAT, genesisHash, consensus, earlierTransactions })];
    let bytes = 0;
    const write = (entry: Entry | null): void => {
      if (entry !== null) {
        const part = framed(entry);
        waiting.push(part);
        bytes += part.length;
      }
      if (entry !== null && bytes < CHUNK_BYTES) return;
      writeAll(descriptor, Buffer.concat(waiting));
      [waiting, bytes] = [[], 0];
    };
    for (const key of this.#changed) write({ kind: 'account', key, account: accounts.get(key) });
    for (const block of blocks) write(this.#entryOf(block, []));
    write(null);
    renameSync(temporary, this.#path);
    return descriptor;
  }
}

function framed(entry: Entry): Buffer {
  const body = serialize(entry);
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(body.length);
  return Buffer.concat([length, body]);
}

function writeAll(descriptor: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at);
}
