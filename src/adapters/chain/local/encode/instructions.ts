import { encode } from '../../../../lib/base58.ts';

interface CompiledInstruction {
  readonly programIdIndex: number;
  readonly accounts: readonly number[];
  /** Bytes, or base58 text. */
  readonly data: Uint8Array | string;
}

/** An instruction for `jsonParsed`: parsed where the program is known here, else program, accounts and data. */
export function parseInstruction(item: CompiledInstruction, keys: readonly string[], stackHeight: number | null) {
  return {
    accounts: item.accounts.map((index) => keys[index]),
    data: typeof item.data === 'string' ? item.data : encode(item.data),
    programId: keys[item.programIdIndex],
    stackHeight,
  };
}
