/** The recorded cases of parsed data: transactions and what their instructions are. */
import assert from 'node:assert/strict';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';
import {
  type FindInterface,
  type ParsedInstruction,
  parseTransaction,
} from '../../src/solana/idl/parse-transaction.ts';
import { readIdl } from '../../src/solana/idl/read-idl.ts';
import { createWords } from '../../src/solana/parsers/parser.ts';
import { readFixture, readJsonFixture } from './fixtures.ts';

export interface CaseInstruction {
  readonly program: string;
  readonly kind?: string;
  readonly name: string | null;
  /** What it was before its data were cut. */
  readonly known?: string;
  /** Neutral values, see `written`. */
  readonly args?: unknown;
  /** Labels: `name`, `group/name`, `?name` for one that is absent, `+` for one after the named ones. */
  readonly accounts?: readonly string[];
}

export interface CaseTransaction {
  readonly id: string;
  readonly wire: string;
  readonly meta: Readonly<Record<string, unknown>>;
  readonly expected: {
    readonly fee: number;
    readonly status: 'OK' | 'ERROR';
    readonly error: unknown;
    readonly decodedError: unknown;
    readonly native: readonly object[];
    readonly tokens: readonly object[];
    readonly instructions: readonly (CaseInstruction | null)[];
  };
}

/** The interfaces of the manifest by address. */
export function manifestInterfaces(): FindInterface {
  const { interfaces } = readJsonFixture<{ interfaces: { address: string }[] }>('parsed/manifest.json');
  const known = new Map(interfaces.map(({ address }) => [address, readIdl(idlText(address))]));
  return (programId) => known.get(programId) ?? null;
}

export const idlText = (address: string): string => readFixture(`parsed/idls/${address}.json`).toString('utf8');

const SLOT = 300_000_000;

export function parseCase({ wire, meta }: Pick<CaseTransaction, 'wire' | 'meta'>, find: FindInterface) {
  const { transactions, keys } = decodeEntries(SLOT, [{ transaction: [wire, 'base64'], meta }], new Uint8Array(32));
  const parts = { find, words: createWords(null) };
  return parseTransaction(transactions[0]!, { slot: SLOT, blockTime: null, keys }, parts);
}

/** A neutral value in the form of answers. */
function written(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(written);
  const members = value as Readonly<Record<string, unknown>>;
  if ('$int' in members) return members['$int'];
  if ('$bytes' in members) return [...Buffer.from(members['$bytes'] as string, 'base64')];
  if ('$enum' in members) return { [members['$enum'] as string]: written(members['body']) ?? {} };
  if ('$tuple' in members) return { ...(written(members['$tuple']) as unknown[]) };
  if ('$map' in members) return written(members['$map']);
  return Object.fromEntries(Object.entries(members).map(([name, member]) => [name, written(member)]));
}

/** How an instruction differs from what it is; null when it does not. */
export function instructionFault(
  found: ParsedInstruction,
  { program, name, args, accounts }: CaseInstruction,
): string | null {
  let remaining = 0;
  const names = (accounts ?? []).flatMap((label) => {
    if (label.startsWith('?')) return [];
    return [label === '+' ? `remaining_${remaining++}` : label.replaceAll('/', '_')];
  });
  try {
    assert.deepEqual(
      [found.programName, found.instructionName, found.decoded?.args, found.decoded?.accounts.map((one) => one.name)],
      [program, name, name === null ? undefined : written(args), name === null ? undefined : names],
    );
    return null;
  } catch (error) {
    return (error as Error).message.slice(0, 800);
  }
}
