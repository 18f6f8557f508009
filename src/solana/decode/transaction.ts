import { decode32, encode64 } from '../../lib/base58.ts';
import { lazy } from '../../lib/lru.ts';
import type {
  AddressTableLookup,
  InnerGroup,
  MessageHeader,
  NormalInstruction,
  NormalTransaction,
  TokenBalance,
  TransactionConfig,
  TransactionVersion,
} from '../../ports/block.ts';
import type { RpcMeta } from '../rpc-json.ts';
import type { KeyTableBuilder } from './key-table.ts';
import { innerGroupsOf, tokenBalancesOf } from './meta.ts';
import { decodeResponse } from './response.ts';
import type { Span } from './scan-block.ts';
import { HIGHEST_WIRE_VERSION } from './walk-wire.ts';
import { configOf, headerOf, instructionsOf, lookupsOf, signaturesOf, viewOf, type WireLayout } from './wire-layout.ts';

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
  /** Exactly one of these two is set. */
  readonly meta: RpcMeta | null;
  readonly metaText: MetaText | null;
}

/** Position of the text of a `meta` that was checked but not parsed. */
export interface MetaText {
  readonly body: Buffer;
  readonly from: number;
  readonly to: number;
  /** Within it: `err`, empty for null, and the lists of token balances, empty where one is missing. */
  readonly error: Span;
  readonly preTokens: Span;
  readonly postTokens: Span;
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
  private readonly textOfMeta: MetaText | null;
  private readonly block: BlockParts;
  private readonly layout: WireLayout;
  private readonly wireFrom: number;
  private readonly wireTo: number;
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
    this.textOfMeta = parts.metaText;
  }

  private get rpcMeta(): RpcMeta {
    this.madeMeta ??= parse(this.textOfMeta!);
    return this.madeMeta;
  }

  get meta(): Readonly<Record<string, unknown>> {
    return this.rpcMeta as RpcMeta & Record<string, unknown>;
  }

  get metaText(): Buffer {
    const { textOfMeta: text } = this;
    return text === null ? Buffer.from(JSON.stringify(this.madeMeta)) : text.body.subarray(text.from, text.to);
  }

  get wire(): Uint8Array | null {
    const { layout, version } = this;
    const bytes = this.block.bytes.subarray(this.wireFrom, this.wireTo);
    if (version === 'legacy')
      return layout.version < 0 ? bytes : withoutVersion(bytes, layout.headerAt - this.wireFrom - 1);
    return layout.version === version && version <= HIGHEST_WIRE_VERSION ? bytes : null;
  }

  get signature(): string {
    this.madeSignature ??= encode64(this.block.bytes, this.layout.signaturesAt);
    return this.madeSignature;
  }

  get signatures(): readonly Uint8Array[] {
    return signaturesOf(this.block.bytes, this.layout.signaturesAt, this.layout.signatureCount);
  }

  get header(): MessageHeader {
    return headerOf(this.block.bytes, this.layout.headerAt);
  }

  get config(): TransactionConfig | null {
    return this.layout.version === 1 ? configOf(this.block.bytes, this.layout) : null;
  }

  get recentBlockhash(): Uint8Array {
    return viewOf(this.block.bytes, this.layout.blockhashAt, 32);
  }

  get instructions(): readonly NormalInstruction[] {
    this.madeInstructions ??= instructionsOf(this.block.bytes, this.layout);
    return this.madeInstructions;
  }

  get addressTableLookups(): readonly AddressTableLookup[] {
    const { bytes, keys } = this.block;
    return lookupsOf(bytes, this.layout, (at) => keys.find(viewOf(bytes, at, 32)));
  }

  get error(): unknown {
    // Often the only member that is read.
    this.madeError ??= this.madeMeta === null ? (this.partOfMeta('error') ?? null) : this.madeMeta.err;
    return this.madeError;
  }

  /** Parsed alone; undefined when it is missing. */
  private partOfMeta(which: 'error' | 'preTokens' | 'postTokens'): unknown {
    const { body, [which]: part } = this.textOfMeta!;
    return part.from === part.to ? undefined : decodeResponse(body.subarray(part.from, part.to));
  }

  get fee(): number {
    return this.rpcMeta.fee;
  }

  get preBalances(): readonly number[] {
    return this.rpcMeta.preBalances;
  }

  get postBalances(): readonly number[] {
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
    this.madeInner ??= innerGroupsOf(this.rpcMeta.innerInstructions, this.block.slot, this.index);
    return this.madeInner;
  }

  get logMessages(): readonly string[] | null {
    return this.rpcMeta.logMessages ?? null;
  }
}

/** A legacy transaction that came as JSON was laid out as version 0: a byte before its header, and an empty list of lookups. */
function withoutVersion(bytes: Uint8Array, versionAt: number): Uint8Array {
  return Buffer.concat([bytes.subarray(0, versionAt), bytes.subarray(versionAt + 1, -1)]);
}

function parse({ body, from, to }: MetaText): RpcMeta {
  return decodeResponse(body.subarray(from, to)) as RpcMeta;
}

const VOTE_PROGRAM = lazy(() => new Uint32Array(decode32('Vote111111111111111111111111111111111111111')!.buffer));

/** Whether a transaction has exactly one instruction, of the Vote program. The ids of its keys begin at `keys[keysAt]`. */
export function isVote(block: BlockParts, layout: WireLayout, keys: Uint32Array, keysAt: number): boolean {
  if (layout.instructionCount !== 1) return false;
  const vote = VOTE_PROGRAM();
  const { words } = block.keys;
  const program = keys[keysAt + block.bytes[layout.instructionsAt]!]! * vote.length;
  for (let word = 0; word < vote.length; word++) if (words[program + word] !== vote[word]) return false;
  return true;
}
