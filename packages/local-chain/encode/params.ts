import { decode } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { RpcErrorObject } from '../../../src/lib/json-rpc.ts';
import type { BankLevel } from '../../../src/ports/chain.ts';

/**
 * Parameters are parsed by the rules, and refused with the texts, of serde, which Agave uses: clients and
 * their authors look for these texts. Each reader throws -32602.
 */
export type ParamReader<T> = (value: unknown) => T;

/** An integer from 0 to 2^64 - 1: a bigint when a number is not exact. */
export type Unsigned = number | bigint;

const U64_MAX = 0xffff_ffff_ffff_ffffn;

export const text: ParamReader<string> = (value) => (typeof value === 'string' ? value : refuse(value, 'a string'));
const flag: ParamReader<boolean> = (value) => (typeof value === 'boolean' ? value : refuse(value, 'a boolean'));
export const u64 = unsigned('u64', U64_MAX);
export const usize = unsigned('usize', U64_MAX);
const u8 = unsigned('u8', 255n) as ParamReader<number>;

function unsigned(name: string, max: bigint): ParamReader<Unsigned> {
  return (value) => {
    if (!isInteger(value)) return refuse(value, name);
    return value >= 0 && value <= max ? value : refuse(value, name, 'value');
  };
}

function optional<T>(read: ParamReader<T>): ParamReader<T | undefined> {
  return (value) => (value === null || value === undefined ? undefined : read(value));
}

export function list<T>(read: ParamReader<T>): ParamReader<readonly T[]> {
  return (value) => (Array.isArray(value) ? value.map(read) : refuse(value, 'a sequence'));
}

/** A variant by its name, or `{"name": content}`. Variants without content have the reader `null`. */
function choice<V extends Readonly<Record<string, ParamReader<unknown> | null>>>(variants: V) {
  type Choice = {
    [K in keyof V & string]: { kind: K; content: V[K] extends ParamReader<infer T> ? T : null };
  }[keyof V & string];
  return (value: unknown): Choice => {
    const named = typeof value === 'string';
    if (!named && !isMap(value)) return refuse(value, 'string or map');
    const entries = named ? [[value, undefined] as const] : Object.entries(value as Record<string, unknown>);
    if (entries.length !== 1) throw invalid('invalid value: map, expected map with a single key');
    const [kind, content] = entries[0]!;
    if (!Object.hasOwn(variants, kind)) {
      throw invalid(`unknown variant \`${kind}\`, expected ${oneOf(Object.keys(variants))}`);
    }
    const read = variants[kind];
    if (read === null || read === undefined) {
      return named || content === null ? ({ kind, content: null } as Choice) : refuse(content, 'unit');
    }
    if (named) throw invalid('invalid type: unit variant, expected newtype variant');
    return { kind, content: read(content) } as Choice;
  };
}

/** One of a few names. */
function name<K extends string>(...names: readonly K[]): ParamReader<K> {
  const read = choice(Object.fromEntries(names.map((each) => [each, null])));
  return (value) => read(value).kind as K;
}

interface Field<T> {
  readonly read: ParamReader<T>;
  /** Default of a missing field; without it the field is required. */
  readonly missing?: () => T;
}

type Fields = Readonly<Record<string, Field<unknown>>>;
export type Struct<F extends Fields> = { readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never };

const required = <T>(read: ParamReader<T>): Field<T> => ({ read });
const maybe = <T>(read: ParamReader<T>): Field<T | undefined> => ({ read: optional(read), missing: () => undefined });
/** A field that a client may omit, but not set to null. */
const or = <T>(read: ParamReader<T>, value: T): Field<T> => ({ read, missing: () => value });

/** An object; unknown names are ignored. A plain one may also be a list of its fields. */
function struct<F extends Fields>(title: string, fields: F, { flat = false } = {}): ParamReader<Struct<F>> {
  const names = Object.keys(fields);
  return (value) => {
    if (Array.isArray(value) && !flat) return fromList(title, fields, value);
    if (!isMap(value)) return refuse(value, `struct ${title}`);
    const found: Record<string, unknown> = {};
    for (const key of Object.keys(value).sort()) {
      if (Object.hasOwn(fields, key)) found[key] = fields[key]!.read(value[key]);
    }
    for (const key of names) {
      if (Object.hasOwn(found, key)) continue;
      const { missing } = fields[key]!;
      if (missing === undefined) throw invalid(`missing field \`${key}\``);
      found[key] = missing();
    }
    return found as Struct<F>;
  };
}

function fromList<F extends Fields>(title: string, fields: F, values: readonly unknown[]): Struct<F> {
  const names = Object.keys(fields);
  if (values.length < names.length) {
    const elements = names.length === 1 ? '1 element' : `${names.length} elements`;
    throw invalid(`invalid length ${values.length}, expected struct ${title} with ${elements}`);
  }
  if (values.length > names.length) throw invalid(`invalid length ${values.length}, expected fewer elements in array`);
  return Object.fromEntries(names.map((key, index) => [key, fields[key]!.read(values[index])])) as Struct<F>;
}

/** The first of two forms that matches. */
function either<A, B>(title: string, first: ParamReader<A>, second: ParamReader<B>): ParamReader<A | B> {
  return (value) => {
    for (const read of [first, second]) {
      try {
        return read(value);
      } catch {}
    }
    throw invalid(`data did not match any variant of untagged enum ${title}`);
  };
}

/** Never fails: a mismatch counts as missing, as in a struct that is merged into another. */
function lenient<T>(read: ParamReader<T>): ParamReader<T | undefined> {
  return (value) => {
    try {
      return optional(read)(value);
    } catch {
      return undefined;
    }
  };
}

export function invalid(message: string): Error {
  return invalidParams(`Invalid params: ${message}.`);
}

function refuse(value: unknown, expected: string, what: 'type' | 'value' = 'type'): never {
  throw invalid(`invalid ${what}: ${shown(value)}, expected ${expected}`);
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (Array.isArray(value)) return 'sequence';
  switch (typeof value) {
    case 'boolean':
      return `boolean \`${value}\``;
    case 'string':
      return `string ${JSON.stringify(value)}`;
    case 'number':
    case 'bigint':
      return isInteger(value) ? `integer \`${value}\`` : `floating point \`${floatText(Number(value))}\``;
    default:
      return 'map';
  }
}

function floatText(value: number): string {
  if (!Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 1e16 ? value.toExponential() : `${value}.0`;
}

/** Whether Agave reads it as an integer: beyond 64 bits it is a floating point number there. */
function isInteger(value: unknown): value is Unsigned {
  if (typeof value === 'bigint') return value >= -(1n << 63n) && value <= U64_MAX;
  return Number.isInteger(value) && Math.abs(value as number) <= Number.MAX_SAFE_INTEGER;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function oneOf(names: readonly string[]): string {
  const quoted = names.map((each) => `\`${each}\``);
  if (quoted.length === 1) return quoted[0]!;
  return quoted.length === 2 ? quoted.join(' or ') : `one of ${quoted.join(', ')}`;
}

/** The configuration objects of Agave's methods, by the names in its errors. */

const commitmentLevel: ParamReader<BankLevel> = name('processed', 'confirmed', 'finalized');
const accountEncoding = name('binary', 'base58', 'base64', 'jsonParsed', 'base64+zstd');
const transactionEncoding = name('binary', 'base64', 'base58', 'json', 'jsonParsed');
export type WireEncoding = ReturnType<typeof transactionEncoding>;
export type AccountEncoding = ReturnType<typeof accountEncoding>;

const flat = { flat: true };
/** A commitment inside another configuration: an invalid one counts as absent. */
const inner = or<BankLevel | undefined>(lenient(commitmentLevel), undefined);
const context = { commitment: inner, minContextSlot: maybe(u64) };
const slice = struct('UiDataSliceConfig', { offset: required(usize), length: required(usize) });
const account = { encoding: maybe(accountEncoding), dataSlice: maybe(slice), ...context };

export interface ContextConfig {
  readonly commitment?: BankLevel | undefined;
  readonly minContextSlot?: Unsigned | undefined;
}
export type AccountConfig = Struct<typeof account>;

export const commitmentConfig = struct('CommitmentConfig', { commitment: required(commitmentLevel) });
export const contextConfig = struct('RpcContextConfig', context, flat);
export const accountConfig = struct('RpcAccountInfoConfig', account, flat);

const memcmp = struct(
  'Memcmp',
  {
    offset: required(usize),
    bytes: required(either('DataType', text, list(u8))),
    encoding: maybe(name('base58', 'base64', 'bytes')),
  },
  flat,
);
const filter = choice({ dataSize: u64, memcmp, tokenAccountState: null });
export type ProgramAccountFilter = ReturnType<typeof filter>;
export const programAccountsConfig = struct(
  'RpcProgramAccountsConfig',
  { filters: maybe(list(filter)), ...account, withContext: maybe(flag), sortResults: maybe(flag) },
  flat,
);
export const tokenAccountsFilter = choice({ mint: text, programId: text });

const blockConfig = struct(
  'RpcBlockConfig',
  {
    encoding: maybe(transactionEncoding),
    transactionDetails: maybe(name('full', 'signatures', 'none', 'accounts')),
    rewards: maybe(flag),
    commitment: inner,
    maxSupportedTransactionVersion: maybe(u8),
  },
  flat,
);
const transaction = {
  encoding: maybe(transactionEncoding),
  commitment: inner,
  maxSupportedTransactionVersion: maybe(u8),
};
const transactionConfig = struct('RpcTransactionConfig', transaction, flat);
const transactionConfigWithMinSlot = struct(
  'RpcTransactionConfig',
  { ...transaction, minContextSlot: maybe(u64) },
  flat,
);
const onlyEncoding = (value: unknown) => ({ encoding: transactionEncoding(value) });
export const blockConfigOrEncoding = either<Partial<ReturnType<typeof blockConfig>>, ReturnType<typeof blockConfig>>(
  'RpcEncodingConfigWrapper',
  onlyEncoding,
  blockConfig,
);
export const transactionConfigOrEncoding = either<
  Partial<ReturnType<typeof transactionConfig>>,
  ReturnType<typeof transactionConfig>
>('RpcEncodingConfigWrapper', onlyEncoding, transactionConfig);
/** Since Agave 4.4. */
export const transactionConfigWithMinSlotOrEncoding = either<
  Partial<ReturnType<typeof transactionConfigWithMinSlot>>,
  ReturnType<typeof transactionConfigWithMinSlot>
>('RpcEncodingConfigWrapper', onlyEncoding, transactionConfigWithMinSlot);
export const endSlotOrConfig = either('RpcBlocksConfigWrapper', u64, contextConfig);

export const signaturesConfig = struct(
  'RpcSignaturesForAddressConfig',
  { before: maybe(text), until: maybe(text), limit: maybe(usize), ...context },
  flat,
);
export const statusConfig = struct('RpcSignatureStatusConfig', { searchTransactionHistory: required(flag) });
/** Since Agave 4.4. */
export const contextStatusConfig = struct(
  'RpcSignatureStatusConfig',
  { searchTransactionHistory: or(flag, false), ...context },
  flat,
);
export const sendConfig = struct('RpcSendTransactionConfig', {
  skipPreflight: or(flag, false),
  preflightCommitment: maybe(commitmentLevel),
  encoding: maybe(transactionEncoding),
  maxRetries: maybe(usize),
  minContextSlot: maybe(u64),
});
const simulatedAccounts = struct('RpcSimulateTransactionAccountsConfig', {
  encoding: maybe(accountEncoding),
  addresses: required(list(text)),
});
const simulation = {
  sigVerify: or(flag, false),
  replaceRecentBlockhash: or(flag, false),
  commitment: inner,
  encoding: maybe(transactionEncoding),
  accounts: maybe(simulatedAccounts),
  minContextSlot: maybe(u64),
  innerInstructions: or(flag, false),
};
export const simulateConfig = struct('RpcSimulateTransactionConfig', simulation, flat);
/** Since Agave 4.5. */
export const encodedSimulateConfig = struct(
  'RpcSimulateTransactionConfig',
  { ...simulation, innerInstructionsEncoding: maybe(transactionEncoding) },
  flat,
);
export const airdropConfig = struct(
  'RpcRequestAirdropConfig',
  { recentBlockhash: maybe(text), commitment: inner },
  flat,
);

export const leaderConfig = struct(
  'RpcLeaderScheduleConfig',
  { identity: maybe(text), keyByVoteAccount: or(flag, false), commitment: inner },
  flat,
);
const rankMap = struct('RpcRankMapConfig', { identity: maybe(text), minContextSlot: maybe(u64) }, flat);
/** Since Agave 4.5; unknown members are refused. */
export const rankMapConfig: typeof rankMap = (value) => {
  const unknown = isMap(value)
    ? Object.keys(value).find((key) => key !== 'identity' && key !== 'minContextSlot')
    : undefined;
  if (unknown !== undefined) throw invalid(`unknown field \`${unknown}\`, expected \`identity\` or \`minContextSlot\``);
  return rankMap(value);
};
export const slotOrLeaderConfig = either('RpcLeaderScheduleConfigWrapper', u64, leaderConfig);
const productionRange = struct('RpcBlockProductionConfigRange', { firstSlot: required(u64), lastSlot: maybe(u64) });
export const productionConfig = struct(
  'RpcBlockProductionConfig',
  { identity: maybe(text), range: maybe(productionRange), commitment: inner },
  flat,
);
export const voteAccountsConfig = struct(
  'RpcGetVoteAccountsConfig',
  {
    votePubkey: maybe(text),
    commitment: inner,
    keepUnstakedDelinquents: maybe(flag),
    delinquentSlotDistance: maybe(u64),
  },
  flat,
);
export const largestConfig = struct(
  'RpcLargestAccountsConfig',
  { commitment: inner, filter: maybe(name('circulating', 'nonCirculating')), sortResults: maybe(flag) },
  flat,
);
export const supplyConfig = struct(
  'RpcSupplyConfig',
  { commitment: inner, excludeNonCirculatingAccountsList: or(flag, false) },
  flat,
);
export const rewardConfig = struct('RpcEpochConfig', { epoch: maybe(u64), ...context }, flat);

export const logsFilter = choice({ all: null, allWithVotes: null, mentions: list(text) });
export const logsConfig = struct('RpcTransactionLogsConfig', { commitment: inner }, flat);
export const signatureSubscribeConfig = struct(
  'RpcSignatureSubscribeConfig',
  { commitment: inner, enableReceivedNotification: maybe(flag) },
  flat,
);

/** Checks after the parameters were parsed. Each throws -32602 with Agave's text. */

export function pubkey(value: string, prefix = 'Invalid param: '): string {
  return fixedBase58(value, 32, 44, prefix);
}

export function signature(value: string): string {
  return fixedBase58(value, 64, 88, 'Invalid param: ');
}

function fixedBase58(value: string, bytes: number, most: number, prefix: string): string {
  if (value.length > most) throw invalidParams(`${prefix}WrongSize`);
  const decoded = decode(value);
  if (decoded === null) throw invalidParams(`${prefix}Invalid`);
  if (decoded.length !== bytes) throw invalidParams(`${prefix}WrongSize`);
  return value;
}

/** For methods that know only sealed blocks. */
export function sealedOnly<C extends ContextConfig>(config: C | undefined): C | undefined {
  const commitment: BankLevel | undefined = config?.commitment;
  if (commitment === 'processed') throw invalidParams('Method does not support commitment below `confirmed`');
  return config;
}

export function atMost<T>(values: readonly T[], most: number): readonly T[] {
  if (values.length > most) throw invalidParams(`Too many inputs provided; max ${most}`);
  return values;
}

/** A number that was checked to be small. */
export function small(value: Unsigned): number {
  return Number(value);
}

/** Bytes of base58 text, or Agave's description of the error. */
export function base58Bytes(text: string): Uint8Array | string {
  const bytes = decode(text);
  if (bytes !== null) return bytes;
  const index = [...text].findIndex((character) => !/[1-9A-HJ-NP-Za-km-z]/.test(character));
  const character = [...text][index] ?? '';
  if ((character.codePointAt(0) ?? 0) > 127) return `NonAsciiCharacter { index: ${index} }`;
  return `InvalidCharacter { character: '${character}', index: ${index} }`;
}

/** Bytes of canonical base64 text, or Agave's description of the error. */
export function base64Bytes(text: string): Uint8Array | string {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.toString('base64') === text) return bytes;
  const encoded = Buffer.from(text, 'utf8');
  const symbols = encoded.findIndex((byte) => !/[A-Za-z0-9+/]/.test(String.fromCharCode(byte)));
  const count = symbols === -1 ? encoded.length : symbols;
  const isPadding = encoded.subarray(count).every((byte) => byte === 0x3d);
  if (!isPadding || (symbols !== -1 && count % 4 < 2)) return `InvalidByte(${count}, ${encoded[count]})`;
  if (count % 4 === 1) return `InvalidLength(${encoded.length})`;
  if ((count + (encoded.length - count)) % 4 !== 0) return 'InvalidPadding';
  return `InvalidLastSymbol(${count - 1}, ${encoded[count - 1]})`;
}

/** JSON-RPC error numbers of a Solana node. */
export const RPC = {
  blockCleanedUp: -32001,
  sendFailed: -32002,
  signatureFailed: -32003,
  notInLeaderSchedule: -32022,
  blockNotAvailable: -32004,
  slotSkipped: -32007,
  unsupportedVersion: -32015,
  minContextSlot: -32016,
  filterTransactionNotFound: -32020,
  noSnapshot: -32008,
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
} as const;

/** An error that a client gets as a JSON-RPC error object. */
export function rpcError(code: number, message: string, data?: unknown): CodedError {
  return new CodedError('LOCAL_RPC', message, { facts: { rpcCode: code, data } });
}

export function invalidParams(message: string): CodedError {
  return rpcError(RPC.invalidParams, message);
}

/** The error object for any error: refusals of the simulator are invalid params, the rest are internal errors. */
export function toErrorObject(error: unknown): RpcErrorObject {
  if (!(error instanceof CodedError)) {
    return { code: RPC.internal, message: `Internal error: ${error instanceof Error ? error.message : String(error)}` };
  }
  if (error.code !== 'LOCAL_RPC') return { code: RPC.invalidParams, message: error.message };
  const { rpcCode, data } = error.facts;
  return { code: rpcCode as number, message: error.message, ...(data === undefined ? {} : { data }) };
}
