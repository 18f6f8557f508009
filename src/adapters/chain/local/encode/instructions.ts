import { decode, encode } from '../../../../lib/base58.ts';
import { parseAta } from './parse-ata.ts';
import { parseMemo } from './parse-memo.ts';
import { parseSystem } from './parse-system.ts';
import { parseToken } from './parse-token.ts';

export interface CompiledInstruction {
  readonly programIdIndex: number;
  readonly accounts: readonly number[];
  /** Bytes, or base58 text. */
  readonly data: Uint8Array | string;
}

/** What a parser makes of an instruction; null where it does not know it. */
export type InstructionParser = (data: Uint8Array, accounts: readonly string[]) => unknown;

interface KnownProgram {
  readonly name: string;
  readonly parse: InstructionParser;
}

const PROGRAMS: Readonly<Record<string, KnownProgram>> = {
  '11111111111111111111111111111111': { name: 'system', parse: parseSystem },
  TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA: { name: 'spl-token', parse: parseToken },
  TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb: { name: 'spl-token-2022', parse: parseToken },
  ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL: { name: 'spl-associated-token-account', parse: parseAta },
  Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo: { name: 'spl-memo', parse: parseMemo },
  MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr: { name: 'spl-memo', parse: parseMemo },
};

/** An instruction for `jsonParsed`: parsed where the program and the instruction are known here, else its bare parts. */
export function parseInstruction(item: CompiledInstruction, keys: readonly string[], stackHeight: number | null) {
  const programId = keys[item.programIdIndex] ?? '';
  const accounts = item.accounts.map((index) => keys[index] ?? '');
  const known = Object.hasOwn(PROGRAMS, programId) ? PROGRAMS[programId] : undefined;
  const parsed = known === undefined ? null : tryParse(known.parse, bytesOf(item.data), accounts);
  if (known !== undefined && parsed !== null) return { parsed, program: known.name, programId, stackHeight };
  const data = typeof item.data === 'string' ? item.data : encode(item.data);
  return { accounts, data, programId, stackHeight };
}

/** Instruction data is anybody's: what ends too early is shown unparsed. */
function tryParse(parse: InstructionParser, data: Uint8Array, accounts: readonly string[]): unknown {
  try {
    return parse(data, accounts);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function bytesOf(data: Uint8Array | string): Uint8Array {
  return typeof data === 'string' ? (decode(data) ?? new Uint8Array(0)) : data;
}
