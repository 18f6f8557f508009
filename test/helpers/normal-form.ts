import { encode32, encode64 } from '../../src/lib/base58.ts';
import type { ChainBlock, NormalInstruction, NormalTransaction, TokenBalance } from '../../src/ports/block.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** A decoded transaction with every part read and every id replaced by its key, so that two can be compared. */
export function normalForm(tx: NormalTransaction, block: ChainBlock): Record<string, unknown> {
  const text = (id: number): string | null => (id < 0 ? null : block.keys.base58(id));
  const instruction = ({ programIndex, accounts, data }: NormalInstruction) => ({
    programIndex,
    accounts: [...accounts],
    data: hex(data),
  });
  const balance = ({ mintKey, ownerKey, programKey, ...rest }: TokenBalance) => ({
    ...rest,
    mint: text(mintKey),
    owner: text(ownerKey),
    program: text(programKey),
  });
  return {
    index: tx.index,
    signature: tx.signature,
    signatures: tx.signatures.map((signature) => encode64(signature)),
    version: tx.version,
    header: { ...tx.header },
    config: tx.config,
    keys: [...tx.keys].map(text),
    staticKeyCount: tx.staticKeyCount,
    loadedWritableCount: tx.loadedWritableCount,
    tokenOwners: [...tx.tokenOwners].map(text),
    recentBlockhash: encode32(tx.recentBlockhash),
    instructions: tx.instructions.map(instruction),
    addressTableLookups: tx.addressTableLookups.map((lookup) => ({
      table: text(lookup.tableKey),
      writable: [...lookup.writableIndexes],
      readonly: [...lookup.readonlyIndexes],
    })),
    isVote: tx.isVote,
    error: tx.error,
    fee: tx.fee,
    preBalances: tx.preBalances,
    postBalances: tx.postBalances,
    preTokenBalances: tx.preTokenBalances.map(balance),
    postTokenBalances: tx.postTokenBalances.map(balance),
    innerInstructions: tx.innerInstructions.map((group) => ({
      index: group.index,
      instructions: group.instructions.map((inner) => ({ ...instruction(inner), stackHeight: inner.stackHeight })),
    })),
    logMessages: tx.logMessages,
    meta: tx.meta,
  };
}
