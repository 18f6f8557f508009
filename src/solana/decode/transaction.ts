import { decode32, encode64 } from '../../lib/base58.ts';
import { isPlainObject, objectMembers, stringify } from '../../lib/json.ts';
import { lazy } from '../../lib/lazy.ts';
import type {
  AddressTableLookup,
  InnerGroup,
  Lamports,
  MessageHeader,
  NormalInstruction,
  NormalTransaction,
  TokenBalance,
  TransactionConfig,
  TransactionFault,
  TransactionVersion,
} from '../../ports/block.ts';
import { VOTE_PROGRAM } from '../programs.ts';
import type { RpcMeta } from '../rpc-json.ts';
import type { KeyTableBuilder } from './key-table.ts';
import { innerGroupsOf, tokenBalancesOf } from './meta.ts';
import { decodeExact } from './response.ts';
import type { ScannedEntry, ScannedMeta } from './scan-block.ts';
import {
  bytesAt,
  instructionsOf,
  lookupsOf,
  messageHeaderAt,
  signaturesOf,
  transactionConfigOf,
  type WireLayout,
} from './wire-layout.ts';

/** Common parts of the transactions of a block. */
export interface BlockParts {
  readonly slot: number;
  readonly bytes: Uint8Array;
  readonly keys: KeyTableBuilder;
}

/** Parts of a transaction in a decoded block. */
export interface TransactionParts {
  readonly index: number;
  readonly version: TransactionVersion;
  readonly layout: WireLayout;
  /** Where its bytes are in those of the block. */
  readonly wireFrom: number;
  readonly wireTo: number;
  readonly keys: Uint32Array;
  readonly loadedWritableCount: number;
  readonly tokenOwners: Uint32Array;
  readonly isVote: boolean;
  readonly fault: TransactionFault | null;
  /** The answer that contains the entry, and where; both null for one that was given as a value. */
  readonly body: Buffer | null;
  readonly span: ScannedEntry | null;
  /** The parsed entry, and what of its `meta` can be used; both null for one in the usual form, whose `meta` is parsed on first use. */
  readonly given: { readonly meta?: unknown } | null;
  readonly meta: RpcMeta | null;
  /** The bytes as signed; null: unknown, undefined: those of the block. */
  readonly original: Uint8Array | null | undefined;
}

/**
 * A transaction whose parts are created on first use: most transactions of a block are only matched against
 * addresses. A class, unlike the factories elsewhere, so that its getters exist once and not per transaction.
 * Getters are not copied by spreading.
 */
export class LeanTransaction implements NormalTransaction {
  readonly index: number;
  readonly version: TransactionVersion;
  readonly keys: Uint32Array;
  readonly staticKeyCount: number;
  readonly loadedWritableCount: number;
  readonly tokenOwners: Uint32Array;
  readonly isVote: boolean;
  /** Offsets in a `meta` that was checked and not parsed; null: it was parsed. */
  private readonly usualMeta: ScannedMeta | null;
  private readonly block: BlockParts;
  private readonly layout: WireLayout;
  private readonly wireFrom: number;
  private readonly wireTo: number;
  readonly fault: TransactionFault | null;
  readonly isOpaque = false;
  private readonly body: Buffer | null;
  private readonly span: ScannedEntry | null;
  private readonly given: TransactionParts['given'];
  private readonly original: Uint8Array | null | undefined;
  private madeMeta: RpcMeta | null;
  private madeError: unknown = undefined;
  private madeSignature: string | undefined = undefined;
  private madeInstructions: readonly NormalInstruction[] | undefined = undefined;
  private madeInner: readonly InnerGroup[] | undefined = undefined;
  private madePreTokens: readonly TokenBalance[] | undefined = undefined;
  private madePostTokens: readonly TokenBalance[] | undefined = undefined;

  constructor(block: BlockParts, parts: TransactionParts) {
    this.block = block;
    this.layout = parts.layout;
    this.wireFrom = parts.wireFrom;
    this.wireTo = parts.wireTo;
    this.index = parts.index;
    this.version = parts.version;
    this.keys = parts.keys;
    this.staticKeyCount = parts.layout.keyCount;
    this.loadedWritableCount = parts.loadedWritableCount;
    this.tokenOwners = parts.tokenOwners;
    this.isVote = parts.isVote;
    this.madeMeta = parts.meta;
    this.usualMeta = parts.meta === null ? parts.span!.usual!.meta : null;
    this.fault = parts.fault;
    this.body = parts.body;
    this.span = parts.span;
    this.given = parts.given;
    this.original = parts.original;
  }

  private get rpcMeta(): RpcMeta {
    this.madeMeta ??= decodeExact(this.metaText) as RpcMeta;
    return this.madeMeta;
  }

  get meta(): Readonly<Record<string, unknown>> | null {
    if (this.given === null) return this.rpcMeta as RpcMeta & Record<string, unknown>;
    return isPlainObject(this.given.meta) ? this.given.meta : null;
  }

  get metaText(): Buffer {
    const { usualMeta: meta } = this;
    return meta === null ? metaTextOf(this.entryText, this.given) : this.body!.subarray(meta.from, meta.to);
  }

  get entryText(): Buffer {
    const { span } = this;
    return span === null ? Buffer.from(stringify(this.given)) : this.body!.subarray(span.from, span.to);
  }

  get wire(): Uint8Array | null {
    return this.original === undefined ? this.block.bytes.subarray(this.wireFrom, this.wireTo) : this.original;
  }

  get signature(): string {
    const { block, layout } = this;
    this.madeSignature ??=
      layout.signatureCount === 0
        ? encode64(placeholderSignature(block.slot, this.index))
        : encode64(block.bytes, layout.signaturesAt);
    return this.madeSignature;
  }

  get signatures(): readonly Uint8Array[] {
    const { block, layout } = this;
    if (layout.signatureCount === 0) return [placeholderSignature(block.slot, this.index)];
    return signaturesOf(block.bytes, layout.signaturesAt, layout.signatureCount);
  }

  get header(): MessageHeader {
    return messageHeaderAt(this.block.bytes, this.layout.headerAt);
  }

  get config(): TransactionConfig | null {
    return this.layout.version === 1 ? transactionConfigOf(this.block.bytes, this.layout) : null;
  }

  get recentBlockhash(): Uint8Array {
    return bytesAt(this.block.bytes, this.layout.blockhashAt, 32);
  }

  get instructions(): readonly NormalInstruction[] {
    this.madeInstructions ??= instructionsOf(this.block.bytes, this.layout);
    return this.madeInstructions;
  }

  get addressTableLookups(): readonly AddressTableLookup[] {
    const { bytes, keys } = this.block;
    return lookupsOf(bytes, this.layout, (at) => keys.find(bytesAt(bytes, at, 32)));
  }

  get error(): unknown {
    // Often the only member that is read.
    this.madeError ??= plainError(this.madeMeta === null ? (this.partOfMeta('error') ?? null) : this.madeMeta.err);
    return this.madeError;
  }

  /** Parsed alone; undefined when it is missing. */
  private partOfMeta(which: 'error' | 'preTokens' | 'postTokens'): unknown {
    const { from, to } = this.usualMeta![which];
    return from === to ? undefined : decodeExact(this.body!.subarray(from, to));
  }

  get fee(): Lamports {
    return this.rpcMeta.fee;
  }

  get preBalances(): readonly Lamports[] {
    return this.rpcMeta.preBalances;
  }

  get postBalances(): readonly Lamports[] {
    return this.rpcMeta.postBalances;
  }

  // The ledger reads them of every transaction, and little else of the meta.
  get preTokenBalances(): readonly TokenBalance[] {
    this.madePreTokens ??= this.tokens(this.madeMeta?.preTokenBalances, 'preTokens');
    return this.madePreTokens;
  }

  get postTokenBalances(): readonly TokenBalance[] {
    this.madePostTokens ??= this.tokens(this.madeMeta?.postTokenBalances, 'postTokens');
    return this.madePostTokens;
  }

  private tokens(made: RpcMeta['preTokenBalances'], which: 'preTokens' | 'postTokens'): readonly TokenBalance[] {
    const balances = this.madeMeta === null ? (this.partOfMeta(which) as typeof made) : made;
    return tokenBalancesOf(balances, this.block.keys);
  }

  get innerInstructions(): readonly InnerGroup[] {
    this.madeInner ??= innerGroupsOf(this.rpcMeta.innerInstructions);
    return this.madeInner;
  }

  get logMessages(): readonly string[] | null {
    return this.rpcMeta.logMessages ?? null;
  }
}

/** The text of `meta` in that of an entry. */
export function metaTextOf(entryText: Buffer, given: { readonly meta?: unknown } | null): Buffer {
  const member = objectMembers(entryText)?.findLast(({ name }) => name === 'meta');
  return member === undefined ? Buffer.from(stringify(given?.meta)) : entryText.subarray(member.start, member.end);
}

/** Stands where a transaction has no readable signature: 48 zero bytes, then slot and index, so that it is unique. */
export function placeholderSignature(slot: number, index: number): Uint8Array {
  const bytes = Buffer.alloc(64);
  bytes.writeBigUInt64BE(BigInt(Math.max(0, slot)), 48);
  bytes.writeBigUInt64BE(BigInt(index), 56);
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Errors of runtimes have small numbers only; in larger ones digits are lost, for they are written in many places as plain JSON. */
export function plainError(error: unknown): unknown {
  return typeof error === 'object' || typeof error === 'bigint' ? JSON.parse(stringify(error)) : error;
}

const voteProgram = lazy(() => new Uint32Array(decode32(VOTE_PROGRAM)!.buffer));

/** A simple vote has one or two signatures. */
const MAX_VOTE_SIGNATURES = 2;

/**
 * Whether a node counts a transaction as a simple vote: at most two signatures, a legacy message and exactly one instruction, of the Vote
 * program (Agave, `is_simple_vote_transaction` in solana-transaction). `version` is that of the transaction: the layout of one that came as
 * JSON can have another. `keys` are the ids of its keys.
 */
export function isVote(block: BlockParts, layout: WireLayout, version: TransactionVersion, keys: Uint32Array): boolean {
  if (layout.instructionCount !== 1 || version !== 'legacy' || layout.signatureCount > MAX_VOTE_SIGNATURES)
    return false;
  const vote = voteProgram();
  const { words } = block.keys;
  const program = keys[block.bytes[layout.instructionsAt]!]! * vote.length;
  for (let word = 0; word < vote.length; word++) if (words[program + word] !== vote[word]) return false;
  return true;
}
