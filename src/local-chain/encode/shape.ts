import { type ByteReader, byteReader } from './byte-reader.ts';

export type Info = Record<string, unknown>;

export type FieldReader = (read: ByteReader, keys: readonly string[]) => Info;

/** How one instruction of a program is shown. */
export interface Shape {
  readonly type: string;
  /** Names of its accounts in order; `?name` is shown when present, `~name` is null when absent. */
  readonly accounts: string;
  /** Name of the authority after those accounts: a multisig when signers follow it. */
  readonly authority?: string;
  /** Fields of its data, in the order of the bytes. */
  readonly fields?: FieldReader;
}

export type InstructionParser = (data: Uint8Array, keys: readonly string[]) => { type: string; info?: unknown } | null;

/** The parser of a program whose instructions start with their number, a u32 or one byte. */
export function shapeParser(shapes: readonly (Shape | undefined)[], tag: 'u32' | 'u8' = 'u32'): InstructionParser {
  return (data, keys) => {
    const read = byteReader(data);
    return showAs(shapes[tag === 'u32' ? read.u32() : read.u8()], read, keys);
  };
}

/** Null without a shape, and when a required account is missing. */
export function showAs(shape: Shape | undefined, read: ByteReader, keys: readonly string[]) {
  if (shape === undefined || keys.length === 0) return null;
  const accounts = namedAccounts(shape, keys);
  if (accounts === null) return null;
  const info = { ...accounts, ...shape.fields?.(read, keys) };
  return Object.keys(info).length === 0 ? { type: shape.type } : { type: shape.type, info };
}

function namedAccounts({ accounts, authority }: Shape, keys: readonly string[]): Info | null {
  const info: Info = {};
  const names = accounts.split(' ').filter(Boolean);
  for (const [index, name] of names.entries()) {
    const key = keys[index];
    const plain = name.replace(/^[?~]/, '');
    if (key !== undefined) info[plain] = key;
    else if (plain === name) return null;
    else if (name.startsWith('~')) info[plain] = null;
  }
  return authority === undefined ? info : withAuthority(info, keys.slice(names.length), authority);
}

/** The single authority, or the multisig with the signers that follow it. */
export function withAuthority(info: Info, [key, ...signers]: readonly string[], name: string): Info | null {
  if (key === undefined) return null;
  if (signers.length === 0) return { ...info, [name]: key };
  return { ...info, [`multisig${name[0]!.toUpperCase()}${name.slice(1)}`]: key, signers };
}
