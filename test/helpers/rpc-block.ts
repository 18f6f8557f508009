/** Answers of getBlock around wires that tests write. */
import { encode32 } from '../../src/lib/base58.ts';
import { type WireMessage, writeMessage } from './write-message.ts';

export interface TestTransaction {
  readonly message: WireMessage;
  /** base58 addresses, in the order of the lookups' indexes. */
  readonly loaded?: { readonly writable: readonly string[]; readonly readonly: readonly string[] };
  readonly signatures?: readonly Uint8Array[];
  readonly meta?: Readonly<Record<string, unknown>>;
}

export function wireOf({ message, signatures = [new Uint8Array(64).fill(7)] }: TestTransaction): Buffer {
  return Buffer.concat([Buffer.of(signatures.length), ...signatures, writeMessage(message)]);
}

export function entryOf(transaction: TestTransaction, wire: Uint8Array = wireOf(transaction)): object {
  const loadedAddresses = transaction.loaded ?? { writable: [], readonly: [] };
  const count = transaction.message.keys.length + loadedAddresses.writable.length + loadedAddresses.readonly.length;
  return {
    transaction: [Buffer.from(wire).toString('base64'), 'base64'],
    version: transaction.message.version,
    meta: {
      err: null,
      fee: 5000,
      preBalances: new Array<number>(count).fill(1),
      postBalances: new Array<number>(count).fill(2),
      innerInstructions: [],
      logMessages: [],
      preTokenBalances: [],
      postTokenBalances: [],
      loadedAddresses,
      ...transaction.meta,
    },
  };
}

export function blockOf(entries: readonly unknown[], slot = 100): Record<string, unknown> {
  return {
    blockhash: encode32(new Uint8Array(32).fill(slot & 255)),
    previousBlockhash: encode32(new Uint8Array(32).fill((slot - 1) & 255)),
    parentSlot: slot - 1,
    blockHeight: slot - 10,
    blockTime: 1_700_000_000,
    transactions: entries,
  };
}

/** A small message that tests vary. */
export function sampleMessage(changes: Partial<WireMessage> = {}): WireMessage {
  return {
    version: 'legacy',
    header: [1, 0, 1],
    keys: [1, 2, 3].map((byte) => new Uint8Array(32).fill(byte)),
    blockhash: new Uint8Array(32).fill(9),
    instructions: [{ program: 2, accounts: Uint8Array.of(0, 1), data: Uint8Array.of(1, 2, 3, 4) }],
    lookups: [],
    ...changes,
  };
}
