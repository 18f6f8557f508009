import { encode64 } from '../../lib/base58.ts';
import { stringify } from '../../lib/json.ts';
import type {
  AddressTableLookup,
  InnerGroup,
  Lamports,
  MessageHeader,
  NormalInstruction,
  NormalTransaction,
  TokenBalance,
  TransactionFault,
  TransactionVersion,
} from '../../ports/block.ts';
import type { RpcMeta } from '../rpc-json.ts';
import type { KeyTableBuilder } from './key-table.ts';
import { tokenBalancesOf } from './meta.ts';
import { metaTextOf, placeholderSignature, plainError } from './transaction.ts';

export interface OpaqueParts {
  readonly slot: number;
  readonly index: number;
  readonly version: TransactionVersion;
  readonly fault: TransactionFault;
  /** Empty when none could be read. */
  readonly signatures: readonly Uint8Array[];
  readonly table: KeyTableBuilder;
  readonly keys: Uint32Array;
  readonly staticKeyCount: number;
  readonly loadedWritableCount: number;
  readonly tokenOwners: Uint32Array;
  /** What of it can be used. */
  readonly meta: RpcMeta;
  readonly wire: Uint8Array | null;
  /** The parsed entry. */
  readonly given: { readonly meta?: unknown };
  /** The text of the entry; null for one that was given as a value. */
  readonly text: Buffer | null;
}

const NO_HEADER: MessageHeader = {
  numRequiredSignatures: 0,
  numReadonlySignedAccounts: 0,
  numReadonlyUnsignedAccounts: 0,
};

/** A transaction whose message could not be read. It keeps what the node sent, and what of it says who takes part. */
export class OpaqueTransaction implements NormalTransaction {
  readonly isOpaque = true;
  readonly isVote = false;
  readonly header = NO_HEADER;
  readonly config = null;
  readonly recentBlockhash = new Uint8Array(32);
  readonly instructions: readonly NormalInstruction[] = [];
  readonly innerInstructions: readonly InnerGroup[] = [];
  readonly addressTableLookups: readonly AddressTableLookup[] = [];
  readonly signatures: readonly Uint8Array[];
  private readonly parts: OpaqueParts;

  constructor(parts: OpaqueParts) {
    this.parts = parts;
    this.signatures = parts.signatures.length > 0 ? parts.signatures : [placeholderSignature(parts.slot, parts.index)];
  }

  get index(): number {
    return this.parts.index;
  }

  get version(): TransactionVersion {
    return this.parts.version;
  }

  get fault(): TransactionFault {
    return this.parts.fault;
  }

  get signature(): string {
    return encode64(this.signatures[0]!);
  }

  get keys(): Uint32Array {
    return this.parts.keys;
  }

  get staticKeyCount(): number {
    return this.parts.staticKeyCount;
  }

  get loadedWritableCount(): number {
    return this.parts.loadedWritableCount;
  }

  get tokenOwners(): Uint32Array {
    return this.parts.tokenOwners;
  }

  get error(): unknown {
    return plainError(this.parts.meta.err);
  }

  get fee(): Lamports {
    return this.parts.meta.fee;
  }

  get preBalances(): readonly Lamports[] {
    return this.parts.meta.preBalances;
  }

  get postBalances(): readonly Lamports[] {
    return this.parts.meta.postBalances;
  }

  get preTokenBalances(): readonly TokenBalance[] {
    return tokenBalancesOf(this.parts.meta.preTokenBalances, this.parts.table);
  }

  get postTokenBalances(): readonly TokenBalance[] {
    return tokenBalancesOf(this.parts.meta.postTokenBalances, this.parts.table);
  }

  get logMessages(): readonly string[] | null {
    return this.parts.meta.logMessages ?? null;
  }

  get meta(): Readonly<Record<string, unknown>> | null {
    const { meta } = this.parts.given;
    return typeof meta === 'object' && meta !== null ? (meta as Readonly<Record<string, unknown>>) : null;
  }

  get metaText(): Buffer {
    return metaTextOf(this.entryText, this.parts.given);
  }

  get entryText(): Buffer {
    return this.parts.text ?? Buffer.from(stringify(this.parts.given));
  }

  get wire(): Uint8Array | null {
    return this.parts.wire;
  }
}
