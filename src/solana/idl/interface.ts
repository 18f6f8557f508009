/** The instructions of one program as its interface (IDL) describes them, found by their first bytes and decoded with names. */
import { isPlainObject } from '../../lib/json.ts';
import { lazy } from '../../lib/lazy.ts';
import { DataReader, misfit, type ReadValue } from './read-values.ts';

/** An account of an instruction with its rights in the message. */
export interface AccountUse {
  readonly pubkey: string;
  readonly isSigner: boolean;
  readonly isWritable: boolean;
}

export interface NamedAccount extends AccountUse {
  readonly name: string;
}

/** Which instruction a program was called with. */
export interface InstructionCall {
  /** In snake_case, as all names of it. */
  readonly name: string;
  /** Without the optional ones that are absent; those after the named ones are `remaining_0`, … */
  readonly accounts: readonly NamedAccount[];
}

export interface DecodedInstruction extends InstructionCall {
  readonly args: unknown;
}

export interface ProgramError {
  /** Name as the interface spells it. */
  readonly name: string;
  readonly msg: string | null;
}

export interface ProgramInterface {
  /** In snake_case; null where the interface gives none. */
  readonly name: string | null;
  /** base58; null where the interface gives none. */
  readonly address: string | null;
  /** Null when the data is of no instruction, ends early or does not fit. */
  decode(data: Uint8Array, accounts: readonly AccountUse[], programId: string): DecodedInstruction | null;
  /** The instruction whose discriminator the data have, whether its arguments fit or not; null when none, or several names, have it. */
  callOf(data: Uint8Array, accounts: readonly AccountUse[], programId: string): InstructionCall | null;
  errorOf(code: number): ProgramError | null;
  /** Whether an instruction has this name, as the interface spells it or in snake_case. */
  hasInstruction(name: string): boolean;
  /** Names of its instructions in snake_case, in the order of the interface; a name may occur twice. */
  instructions(): readonly string[];
  /** Names of its events in snake_case. */
  events(): readonly string[];
  /** Names that accounts have in its instructions, each once. */
  roles(): readonly string[];
}

export interface AccountName {
  readonly name: string;
  readonly isOptional: boolean;
}

/** Bytes that the data has at an offset. */
interface DataCondition {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** An instruction in an interface. Everything but its name and its conditions is read when it is first decoded. */
export interface CallShape {
  /** Name as the interface spells it. */
  readonly name: string;
  /** All of them hold for its data. */
  readonly conditions: readonly DataCondition[];
  /** The data has exactly this size; null: any. */
  readonly size: number | null;
  /** Where the arguments begin. */
  readonly argsAt: number;
  readonly args: () => ReadValue;
  readonly accounts: () => readonly AccountName[];
  /** Optional accounts that are not given are left out, and those after them move up; else the program stands in their place. */
  readonly omitsAccounts: boolean;
}

export interface InterfaceParts {
  readonly name: unknown;
  readonly address: unknown;
  readonly calls: readonly CallShape[];
  readonly errors: () => ReadonlyMap<number, ProgramError>;
  /** Objects with a name; anything else is left out. */
  readonly events: readonly unknown[];
}

/** More in one interface are refused. */
export const MAX_INSTRUCTIONS = 4_096;
/** More accounts than an instruction can have are not named. */
export const MAX_ACCOUNTS = 256;
const MAX_NAME = 128;
/** Longer messages of errors are cut. */
const MAX_MESSAGE = 2_048;

/** One decoder serves all interfaces: decoding never waits, and never nests. */
const reader = new DataReader();

interface Call {
  readonly name: string;
  readonly idlName: string;
  readonly shape: CallShape;
  readonly order: number;
  /** Null while it was not needed; then what decodes it. */
  compiled: { readonly args: ReadValue; readonly accounts: readonly AccountName[] } | null;
}

export function createInterface({ name, address, calls: shapes, errors, events }: InterfaceParts): ProgramInterface {
  const calls = shapes.flatMap((shape, order): Call[] => {
    const snake = snakeName(shape.name);
    return snake === null ? [] : [{ name: snake, idlName: shape.name, shape, order, compiled: null }];
  });
  const dispatch = createDispatch(calls);
  const errorsByCode = lazy(errors);
  const names = lazy(() => new Set(calls.flatMap((call) => [call.name, call.idlName])));
  return {
    name: snakeName(name),
    address: typeof address === 'string' ? address : null,
    decode(data, accounts, programId) {
      const call = dispatch.first(data);
      if (call === null) return null;
      const compiled = compile(call);
      const args = reader.run(data, call.shape.argsAt, compiled.args);
      if (args === undefined) return null;
      return { name: call.name, args, accounts: nameAccounts(call.shape, compiled.accounts, accounts, programId) };
    },
    callOf(data, accounts, programId) {
      // One without a discriminator takes any data.
      const [call, ...others] = dispatch.all(data).filter(({ shape }) => shape.conditions.length > 0);
      if (call === undefined || others.some(({ name }) => name !== call.name)) return null;
      return { name: call.name, accounts: nameAccounts(call.shape, compile(call).accounts, accounts, programId) };
    },
    errorOf: (code) => errorsByCode().get(code) ?? null,
    hasInstruction: (wanted) => names().has(wanted),
    instructions: () => calls.map((call) => call.name),
    events: () =>
      events
        .slice(0, MAX_INSTRUCTIONS)
        .flatMap((event) => (isPlainObject(event) ? (snakeName(event['name']) ?? []) : [])),
    roles() {
      const roles = new Set<string>();
      for (const call of calls) {
        for (const account of compile(call).accounts) roles.add(account.name);
      }
      return [...roles];
    },
  };
}

function compile(call: Call): NonNullable<Call['compiled']> {
  // What the interface describes badly never decodes.
  call.compiled ??= {
    args: reader.run(new Uint8Array(0), 0, call.shape.args) ?? misfit,
    accounts: reader.run(new Uint8Array(0), 0, call.shape.accounts) ?? [],
  };
  return call.compiled;
}

function nameAccounts(
  { omitsAccounts }: CallShape,
  all: readonly AccountName[],
  uses: readonly AccountUse[],
  programId: string,
): NamedAccount[] {
  const names = omitsAccounts ? givenNames(all, uses.length) : all;
  const named: NamedAccount[] = [];
  for (let at = 0; at < uses.length; at++) {
    const { pubkey, isSigner, isWritable } = uses[at]!;
    const one = names[at];
    // The program stands in the place of an account that is not given.
    if (one?.isOptional === true && pubkey === programId && !omitsAccounts) continue;
    named.push({ name: one?.name ?? `remaining_${at - names.length}`, pubkey, isSigner, isWritable });
  }
  return named;
}

/** The names of so many accounts, as far as they are certain. */
function givenNames(names: readonly AccountName[], count: number): readonly AccountName[] {
  if (count >= names.length) return names;
  const demanded = names.filter(({ isOptional }) => !isOptional);
  if (count === demanded.length) return demanded;
  const first = names.findIndex(({ isOptional }) => isOptional);
  return first < 0 ? names : names.slice(0, first);
}

/** Bytes of a discriminator that the first look-up uses; a number holds them. */
const MAX_PREFIX = 6;

interface Dispatch {
  /** The first instruction, in the order of the interface, whose conditions hold. */
  first(data: Uint8Array): Call | null;
  /** All instructions whose conditions hold. */
  all(data: Uint8Array): readonly Call[];
}

function createDispatch(calls: readonly Call[]): Dispatch {
  const byLength = new Map<number, Map<number, Call[]>>();
  for (const call of calls) {
    const first = call.shape.conditions.find(({ offset }) => offset === 0);
    const length = Math.min(first?.bytes.length ?? 0, MAX_PREFIX);
    const prefix = prefixOf(first?.bytes ?? new Uint8Array(0), length);
    const table = byLength.get(length) ?? new Map<number, Call[]>();
    byLength.set(length, table);
    const list = table.get(prefix);
    if (list === undefined) table.set(prefix, [call]);
    else list.push(call);
  }
  const tables = [...byLength];
  const callsFor = (data: Uint8Array, length: number, table: ReadonlyMap<number, Call[]>): readonly Call[] =>
    (length > data.length ? undefined : table.get(prefixOf(data, length))) ?? [];
  return {
    first(data) {
      let found: Call | null = null;
      for (const [length, table] of tables) {
        const call = callsFor(data, length, table).find(({ shape }) => fits(data, shape));
        if (call !== undefined && (found === null || call.order < found.order)) found = call;
      }
      return found;
    },
    all: (data) =>
      tables.flatMap(([length, table]) => callsFor(data, length, table).filter(({ shape }) => fits(data, shape))),
  };
}

function prefixOf(bytes: Uint8Array, length: number): number {
  let value = 0;
  for (let at = 0; at < length; at++) value = value * 256 + bytes[at]!;
  return value;
}

function fits(data: Uint8Array, { conditions, size }: CallShape): boolean {
  if (size !== null && data.length !== size) return false;
  for (const { offset, bytes } of conditions) {
    if (offset + bytes.length > data.length) return false;
    for (let at = 0; at < bytes.length; at++) if (data[offset + at] !== bytes[at]) return false;
  }
  return true;
}

/** The name in snake_case: `sqrtPriceLimitX64` is `sqrt_price_limit_x64`, `newURL` `new_url`; null for what is no name. */
export function snakeName(text: unknown): string | null {
  if (typeof text !== 'string' || text === '' || text.length > MAX_NAME) return null;
  return text
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .replace(/[^\p{L}\p{N}_]+/gu, '_')
    .toLowerCase();
}

/** The same; what is no name makes its instruction undecodable. */
export const demandName = (text: unknown): string => snakeName(text) ?? misfit();

/** The errors of an interface by code, the first of each; `text` is the member that holds the message. */
export function readProgramErrors(
  items: readonly unknown[],
  text: 'msg' | 'message',
): ReadonlyMap<number, ProgramError> {
  const errors = new Map<number, ProgramError>();
  for (const item of items) {
    if (!isPlainObject(item)) continue;
    const { code, name } = item;
    if (typeof code === 'number' && typeof name === 'string' && !errors.has(code))
      errors.set(code, errorOf(name, item[text]));
  }
  return errors;
}

function errorOf(name: string, message: unknown): ProgramError {
  return {
    name: name.slice(0, MAX_NAME),
    msg: typeof message === 'string' ? message.slice(0, MAX_MESSAGE) : null,
  };
}
