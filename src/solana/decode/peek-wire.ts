import { encode32, encode64 } from '../../lib/base58.ts';
import type { MessageHeader, NormalInstruction, TransactionConfig, TransactionVersion } from '../../ports/block.ts';
import { badTransaction } from './faults.ts';
import { configOf } from './version-1.ts';
import { walkWire } from './walk-wire.ts';
import { emptyLayout } from './wire-layout.ts';
import { headerOf, instructionsOf, viewOf } from './wire-views.ts';

/** What a sender needs to know of a transaction that has not been executed. */
export interface WirePeek {
  /** First signature, base58: the id of the transaction. */
  readonly signature: string;
  /** Whether the first signature is all zeros: the fee payer has not signed. */
  readonly isUnsigned: boolean;
  readonly signatureCount: number;
  readonly version: TransactionVersion;
  /** Recent blockhash or nonce, base58. */
  readonly recentBlockhash: string;
  readonly staticKeyCount: number;
  /** 32 bytes, a view; RangeError behind the static keys. */
  staticKey(index: number): Uint8Array;
  readonly header: MessageHeader;
  /** Version 1 only. */
  readonly config: TransactionConfig | null;
  /** Indexes may also point at keys that a lookup table holds. */
  readonly instructions: readonly NormalInstruction[];
}

/**
 * Reads a wire transaction. Throws CHAIN_BAD_TRANSACTION (facts {index: 0, reason}) when it is malformed or of a version other
 * than legacy, 0 and 1.
 */
export function peekWire(bytes: Uint8Array): WirePeek {
  const layout = emptyLayout();
  const fault = walkWire({ bytes, at: 0, end: bytes.length }, layout);
  if (fault !== null) throw badTransaction(0, fault);
  const first = viewOf(bytes, layout.signaturesAt, 64);
  return {
    signature: encode64(bytes, layout.signaturesAt),
    isUnsigned: first.every((byte) => byte === 0),
    signatureCount: layout.signatureCount,
    version: layout.version < 0 ? 'legacy' : layout.version,
    header: headerOf(bytes, layout.headerAt),
    config: layout.version === 1 ? configOf(bytes, layout) : null,
    recentBlockhash: encode32(bytes, layout.blockhashAt),
    staticKeyCount: layout.keyCount,
    staticKey(index) {
      if (!(index >= 0 && index < layout.keyCount)) throw new RangeError(`no static key ${index}`);
      return viewOf(bytes, layout.keysAt + index * 32, 32);
    },
    instructions: instructionsOf(bytes, layout),
  };
}
