/** A node that has made-up transactions and the interfaces of their programs, on the chain as programs publish them. */
import { createHash } from 'node:crypto';
import { deflateSync, gzipSync } from 'node:zlib';
import { decode32, encode32, encode64 } from '../../../src/lib/base58.ts';
import { decodeEntries } from '../../../src/solana/decode/decode-block.ts';
import { anchorAddress, programMetadataAddress } from '../../../src/solana/idl/idl-accounts.ts';
import type { CaseTransaction } from '../../helpers/parsed-cases.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

export interface NodeTransaction {
  readonly slot: number;
  readonly signature: string;
  readonly index: number;
  readonly blockTime: number;
  readonly addresses: ReadonlySet<string>;
  readonly one: Pick<CaseTransaction, 'wire' | 'meta'>;
}

export interface ParsedNode {
  readonly upstream: TestUpstream;
  /** Newest slot; it can be moved. */
  slot: number;
  /** Account data by address. */
  readonly accounts: Map<string, { readonly owner: string; readonly data: Buffer; readonly executable?: boolean }>;
  readonly transactions: NodeTransaction[];
  /** Adds a transaction in a slot; several of one slot in order. */
  add(slot: number, one: Pick<CaseTransaction, 'wire' | 'meta'>): NodeTransaction;
  publish(program: string, text: string, how: 'anchor' | 'metadata'): void;
}

const TIME = 1_760_000_000;

export async function startParsedNode(slot = 1_000): Promise<ParsedNode> {
  const upstream = await startUpstream({ slot });
  const node: ParsedNode = { upstream, slot, accounts: new Map(), transactions: [], add, publish };
  const result = (value: unknown) => ({ result: JSON.stringify(value) });

  function add(at: number, one: Pick<CaseTransaction, 'wire' | 'meta'>): NodeTransaction {
    const { transactions, keys } = decodeEntries(at, [entryOf(one)], new Uint8Array(32));
    const tx = transactions[0]!;
    const made = {
      slot: at,
      signature: encode64(tx.signatures[0]!),
      blockTime: TIME + at,
      one,
      index: node.transactions.filter((known) => known.slot === at).length,
      addresses: new Set(Array.from(tx.keys, (id) => keys.base58(id))),
    };
    node.transactions.push(made);
    node.slot = Math.max(node.slot, at);
    return made;
  }

  function publish(program: string, text: string, how: 'anchor' | 'metadata'): void {
    if (how === 'anchor') {
      node.accounts.set(anchorAddress(program)!, { owner: program, data: anchorAccount(text) });
      return;
    }
    const owner = 'ProgM6JCCvbYkfKqJYHePx4xxSUSqJp7rh8Lyv7nk7S';
    node.accounts.set(programMetadataAddress(program)!, { owner, data: metadataAccount(program, text) });
  }

  upstream.on('getSlot', () => result(node.slot));
  upstream.on('getTransaction', ({ params }) => {
    const found = node.transactions.find(({ signature }) => signature === (params as [string])[0]);
    return result(found === undefined ? null : answerOf(found));
  });
  upstream.on('getMultipleAccounts', ({ params }) => {
    const value = (params as [string[]])[0].map((key) => {
      const account = node.accounts.get(key);
      if (account === undefined) return null;
      const { owner, data, executable = false } = account;
      return { owner, lamports: 1, executable, rentEpoch: 0, data: [data.toString('base64'), 'base64'] };
    });
    return result({ context: { slot: node.slot }, value });
  });
  upstream.on('getSignaturesForAddress', ({ params }) => {
    const [address, { before, until, limit = 1_000 }] = params as [string, Record<string, never>];
    const own = node.transactions
      .filter(({ addresses }) => addresses.has(address))
      .sort((left, right) => right.slot - left.slot || right.index - left.index);
    const from = before === undefined ? 0 : own.findIndex(({ signature }) => signature === before) + 1;
    const end = until === undefined ? own.length : own.findIndex(({ signature }) => signature === until);
    return result(
      own.slice(from, Math.min(from + limit, end)).map(({ signature, slot: at, blockTime, one, index }) => ({
        signature,
        slot: at,
        blockTime,
        err: one.meta['err'],
        memo: null,
        confirmationStatus: 'finalized',
        transactionIndex: index,
      })),
    );
  });
  const blockOf = (at: number) => ({
    blockhash: hashOf(at),
    previousBlockhash: hashOf(at - 1),
    parentSlot: at - 1,
    blockHeight: at,
    blockTime: TIME + at,
    rewards: [],
    transactions: node.transactions.filter((one) => one.slot === at).map(({ one }) => entryOf(one)),
    signatures: node.transactions.filter((one) => one.slot === at).map(({ signature }) => signature),
  });
  upstream.on('getBlock', ({ params }) => result(blockOf((params as [number])[0])));
  upstream.on('getBlocks', ({ params }) => {
    const [from, to] = params as [number, number];
    const last = Math.min(to, node.slot);
    return result(Array.from({ length: Math.max(0, last - from + 1) }, (_, at) => from + at));
  });
  upstream.on('getFirstAvailableBlock', () => result(0));
  upstream.on('getBlockTime', ({ params }) => result(TIME + (params as [number])[0]));
  upstream.on('getTokenAccountsByOwner', () => result({ context: { slot: node.slot }, value: [] }));
  return node;
}

const hashOf = (slot: number): string => encode32(createHash('sha256').update(String(slot)).digest());

const entryOf = ({ wire, meta }: Pick<CaseTransaction, 'wire' | 'meta'>) => ({
  transaction: [wire, 'base64'],
  meta,
  version: versionOf(wire),
});

const answerOf = ({ slot, blockTime, one }: NodeTransaction) => ({ slot, blockTime, ...entryOf(one) });

function versionOf(wire: string): 'legacy' | number {
  const bytes = Buffer.from(wire, 'base64');
  if (bytes[0]! > 0x80) return bytes[0]! & 0x7f;
  const message = bytes[1 + bytes[0]! * 64]!;
  return message < 0x80 ? 'legacy' : message & 0x7f;
}

function anchorAccount(text: string): Buffer {
  const data = deflateSync(text);
  const head = Buffer.alloc(44);
  createHash('sha256').update('internal:IdlAccount').digest().copy(head, 0, 0, 8);
  head.writeUInt32LE(data.length, 40);
  // Accounts have room for longer interfaces.
  return Buffer.concat([head, data, Buffer.alloc(100)]);
}

function metadataAccount(program: string, text: string): Buffer {
  const data = gzipSync(text);
  const head = Buffer.alloc(96);
  head[0] = 2;
  head.set(decode32(program)!, 1);
  head.set([1, 1], 65);
  head.write('idl', 67);
  head.set([1, 1, 1, 0], 83);
  head.writeUInt32LE(data.length, 87);
  return Buffer.concat([head, data]);
}
