import { decode as decodeMsgPack } from '@msgpack/msgpack';
import { type ByteReader, createByteReader, LayoutError } from '../../lib/bytes.ts';
import { JsonNumber, parseVerbatim } from '../../lib/json.ts';
import { CORE_PROGRAM } from '../programs.ts';
import { type Decoded, keyText, type RawAccount, readText, tryDecode, undecoded } from './decoded.ts';

/** An asset of Metaplex Core: one account, without mint and token account. Keys are base58. */
export interface CoreAsset {
  readonly owner: string;
  readonly updateAuthority:
    | { readonly kind: 'none' }
    | { readonly kind: 'address'; readonly address: string }
    | { readonly kind: 'collection'; readonly address: string };
  readonly name: string;
  readonly uri: string;
  readonly seq: bigint | null;
  readonly plugins: CorePlugins;
}

export interface CoreCollection {
  readonly updateAuthority: string;
  readonly name: string;
  readonly uri: string;
  readonly numMinted: number;
  readonly currentSize: number;
  readonly plugins: CorePlugins;
}

/** First bytes of the accounts, also used in filters. */
export const CORE_KEY = { asset: 1, collection: 5 } as const;
/** Where the owner of an asset stands, and the authority of a collection. */
export const CORE_OWNER_AT = 1;
/** Where the authority of an asset stands: its kind, then its key. */
export const CORE_AUTHORITY_AT = 33;
export const CORE_AUTHORITY = { address: 1, collection: 2 } as const;

/** Reads an asset. */
export function decodeCoreAsset(account: RawAccount): Decoded<CoreAsset> {
  return decodeCore(account, CORE_KEY.asset, readAsset);
}

/** Reads a collection. */
export function decodeCoreCollection(account: RawAccount): Decoded<CoreCollection> {
  return decodeCore(account, CORE_KEY.collection, readCollection);
}

function decodeCore<T>(
  { owner, lamports, data }: RawAccount,
  key: number,
  read: (reader: ByteReader, data: Uint8Array) => T,
): Decoded<T> {
  if (lamports === 0n || data.length === 0 || data[0] === 0) return undecoded('missing');
  if (owner !== CORE_PROGRAM || data[0] !== key) return undecoded('foreign');
  return tryDecode(() => read(createByteReader(data, 1), data));
}

/** What the program leaves of an asset or collection that was burnt: an account of one byte. */
export function isBurntCore({ owner, lamports, data }: RawAccount): boolean {
  return owner === CORE_PROGRAM && lamports > 0n && data.length === 1 && data[0] === 0;
}

function readAsset(reader: ByteReader, data: Uint8Array): CoreAsset {
  const owner = keyText(reader);
  const updateAuthority = readAuthority(reader);
  const [name, uri, seq] = [readText(reader), readText(reader), reader.option(reader.u64)];
  return { owner, updateAuthority, name, uri, seq, plugins: readCorePlugins(reader, data) };
}

function readAuthority(reader: ByteReader): CoreAsset['updateAuthority'] {
  const kind = reader.u8();
  if (kind === 0) return { kind: 'none' };
  if (kind > 2) throw new LayoutError(`${kind} is no update authority`, reader.offset - 1);
  return { kind: kind === 1 ? 'address' : 'collection', address: keyText(reader) };
}

function readCollection(reader: ByteReader, data: Uint8Array): CoreCollection {
  const [updateAuthority, name, uri] = [keyText(reader), readText(reader), readText(reader)];
  const [numMinted, currentSize] = [reader.u32(), reader.u32()];
  return { updateAuthority, name, uri, numMinted, currentSize, plugins: readCorePlugins(reader, data) };
}

/**
 * Plugins of a Core asset or collection, as asset APIs show them: member names are in snake case, variants without content are their name,
 * and others are an object with one member.
 */
export interface CorePlugins {
  /** By the name of the plugin. */
  readonly known: Readonly<Record<string, CorePlugin>>;
  /** Plugins of types that were added later, and damaged ones. */
  readonly unknown: readonly UnknownPlugin[];
  readonly external: readonly ExternalPlugin[];
  readonly unknownExternal: readonly UnknownExternalPlugin[];
}

interface Placed {
  /** Position among all plugins of the account, by offset. */
  readonly index: number;
  /** Offset in the data of the account. */
  readonly offset: number;
  readonly authority: PluginAuthority;
}

interface CorePlugin extends Placed {
  readonly data: Json;
}

interface UnknownPlugin extends Placed {
  readonly type: number;
  /** base64 */
  readonly data: string;
}

interface ExternalData {
  readonly lifecycle_checks?: Readonly<Record<string, readonly string[]>>;
  readonly unknown_lifecycle_checks?: readonly (readonly [event: number, checks: readonly string[]])[];
  readonly data_offset?: number;
  readonly data_len?: number;
  /** Text is JSON where the schema says so, else base64. */
  readonly data?: Json;
}

interface ExternalPlugin extends Placed, ExternalData {
  readonly type: string;
  readonly adapter_config: Json;
}

interface UnknownExternalPlugin extends Placed, ExternalData {
  readonly type: number;
  /** base64 */
  readonly unknown_adapter_config: string;
}

interface PluginAuthority {
  readonly type: 'None' | 'Owner' | 'UpdateAuthority' | 'Address';
  readonly address: string | null;
}

type Json =
  | null
  | boolean
  | number
  | bigint
  | JsonNumber
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };

const KEY = { header: 3, registry: 4 } as const;
/** Type, authority without an address, offset. */
const RECORD_BYTES = 10;
/** Bytes of an external plugin record without its content: type, authority, three absent options, offset. */
const EXTERNAL_RECORD_BYTES = 13;
const CHECK_BYTES = 5;
const KEY_BYTES = 32;

const NO_CORE_PLUGINS: CorePlugins = { known: {}, unknown: [], external: [], unknownExternal: [] };

interface PluginRecord extends Omit<Placed, 'index'> {
  readonly type: number;
  readonly isExternal: false;
}

interface ExternalRecord
  extends Omit<PluginRecord, 'isExternal'>,
    Pick<ExternalData, 'lifecycle_checks' | 'unknown_lifecycle_checks'> {
  readonly isExternal: true;
  readonly dataOffset: number | null;
  readonly dataLength: number | null;
}

/**
 * Reads the plugins that the header after an asset or collection leads to; `reader` stands at the header. A registry that cannot be read
 * counts as empty, as nothing of it can be shown.
 */
function readCorePlugins(reader: ByteReader, data: Uint8Array): CorePlugins {
  const registry = readRegistry(reader, data);
  if (registry === null) return NO_CORE_PLUGINS;
  const { internal, external, end } = registry;
  const placed = [...internal, ...external].sort((a, b) => a.offset - b.offset);
  const known: Record<string, CorePlugin> = {};
  const unknown: UnknownPlugin[] = [];
  const adapters: ExternalPlugin[] = [];
  const unknownExternal: UnknownExternalPlugin[] = [];
  placed.forEach((record, index) => {
    const bytes = data.subarray(record.offset, placed[index + 1]?.offset ?? end);
    const { type, offset, authority } = record;
    const place = { index, offset, authority };
    if (record.isExternal) {
      const adapter = readAdapter(type, bytes);
      const rest = externalData(record, data, adapter?.schema ?? null);
      if (adapter !== null) adapters.push({ ...place, type: adapter.name, adapter_config: adapter.config, ...rest });
      else unknownExternal.push({ ...place, type, unknown_adapter_config: base64(bytes), ...rest });
      return;
    }
    const plugin = readPlugin(type, bytes);
    if (plugin !== null) known[plugin.name] = { data: plugin.data, ...place };
    else unknown.push({ ...place, type, data: base64(bytes) });
  });
  return { known, unknown, external: adapters, unknownExternal };
}

function readRegistry(reader: ByteReader, data: Uint8Array) {
  return orNull(() => {
    if (reader.left === 0 || reader.u8() !== KEY.header) return null;
    const end = reader.count();
    if (end > data.length) return null;
    const registry = createByteReader(data, end);
    if (registry.u8() !== KEY.registry) return null;
    const internal = registry.list(() => readRecord(registry), RECORD_BYTES);
    // Accounts of the program's first versions end here.
    const external =
      registry.left === 0 ? [] : registry.list(() => readExternalRecord(registry), EXTERNAL_RECORD_BYTES);
    return { internal, external, end };
  });
}

function readRecord(reader: ByteReader): PluginRecord {
  const [type, authority, offset] = [reader.u8(), readPluginAuthority(reader), reader.count()];
  return { isExternal: false, type, authority, offset };
}

function readExternalRecord(reader: ByteReader): ExternalRecord {
  const [type, authority] = [reader.u8(), readPluginAuthority(reader)];
  const checks = reader.option(() => reader.list(() => [reader.u8(), readChecks(reader)] as const, CHECK_BYTES));
  const offset = reader.count();
  const [dataOffset, dataLength] = [reader.option(reader.count), reader.option(reader.count)];
  const named = checks?.filter(([event]) => EVENTS[event] !== undefined);
  const unnamed = checks?.filter(([event]) => EVENTS[event] === undefined) ?? [];
  return {
    ...({ isExternal: true, type, authority, offset, dataOffset, dataLength } as const),
    ...(named === undefined
      ? {}
      : { lifecycle_checks: Object.fromEntries(named.map(([event, kinds]) => [EVENTS[event], kinds])) }),
    ...(unnamed.length === 0 ? {} : { unknown_lifecycle_checks: unnamed }),
  };
}

const EVENTS = ['create', 'transfer', 'burn', 'update', 'execute'] as const;
const CHECKS = ['CanListen', 'CanApprove', 'CanReject'] as const;

/** What an external plugin may do at an event: a bit each. */
function readChecks(reader: ByteReader): readonly string[] {
  const flags = reader.u32();
  return CHECKS.filter((_, bit) => (flags & (1 << bit)) !== 0);
}

const AUTHORITIES = ['None', 'Owner', 'UpdateAuthority', 'Address'] as const;

function readPluginAuthority(reader: ByteReader): PluginAuthority {
  const type = variant(AUTHORITIES, reader);
  return { type, address: type === 'Address' ? keyText(reader) : null };
}

// ------------------------------------------------------------------------------------------------- internal plugins

type PluginReader = (reader: ByteReader) => Json;

const empty: PluginReader = () => ({});
const frozen: PluginReader = (reader) => ({ frozen: reader.bool() });
const keys = (reader: ByteReader): Json => reader.list(() => keyText(reader), KEY_BYTES);

/** Bodies by type. */
const PLUGINS: readonly (readonly [name: string, read: PluginReader])[] = [
  ['royalties', readRoyalties],
  ['freeze_delegate', frozen],
  ['burn_delegate', empty],
  ['transfer_delegate', empty],
  ['update_delegate', (reader) => ({ additional_delegates: keys(reader) })],
  ['permanent_freeze_delegate', frozen],
  [
    'attributes',
    (reader) => ({ attribute_list: reader.list(() => ({ key: readText(reader), value: readText(reader) }), 8) }),
  ],
  ['permanent_transfer_delegate', empty],
  ['permanent_burn_delegate', empty],
  ['edition', (reader) => ({ number: reader.u32() })],
  [
    'master_edition',
    (reader) => {
      const [max_supply, name, uri] = [reader.option(reader.u32), optionalText(reader), optionalText(reader)];
      return { max_supply, name, uri };
    },
  ],
  ['add_blocker', empty],
  ['immutable_metadata', empty],
  [
    'verified_creators',
    (reader) => ({ signatures: reader.list(() => ({ address: keyText(reader), verified: reader.bool() }), 33) }),
  ],
  [
    'autograph',
    (reader) => ({ signatures: reader.list(() => ({ address: keyText(reader), message: readText(reader) }), 36) }),
  ],
  ['bubblegum_v2', empty],
  ['freeze_execute', frozen],
  ['permanent_freeze_execute', frozen],
  ['groups', (reader) => ({ groups: keys(reader) })],
];

function readPlugin(type: number, bytes: Uint8Array): { readonly name: string; readonly data: Json } | null {
  const [name, read] = PLUGINS[type] ?? [];
  if (name === undefined || read === undefined) return null;
  return orNull(() => {
    const reader = createByteReader(bytes);
    return reader.u8() === type ? { name, data: read(reader) } : null;
  });
}

function readRoyalties(reader: ByteReader): Json {
  const basis_points = reader.u16();
  const creators = reader.list(() => ({ address: keyText(reader), percentage: reader.u8() }), KEY_BYTES + 1);
  const rule = variant(['None', 'program_allow_list', 'program_deny_list'], reader);
  return { basis_points, creators, rule_set: rule === 'None' ? rule : { [rule]: keys(reader) } };
}

const optionalText = (reader: ByteReader): string | null => reader.option(() => readText(reader));

// ------------------------------------------------------------------------------------------------- external plugins

/** The external plugin that makes an asset an agent (mpl-core 0.12.1, external_plugin_adapter_type.rs). */
export const AGENT_IDENTITY = 'AgentIdentity';

const SCHEMAS = ['Binary', 'Json', 'MsgPack'] as const;
type Schema = (typeof SCHEMAS)[number];

interface Adapter {
  readonly name: string;
  readonly config: Json;
  /** How the data of the plugin is written. */
  readonly schema: Schema | null;
}

const ADAPTERS: readonly (readonly [name: string, read: (reader: ByteReader) => { readonly [name: string]: Json }])[] =
  [
    ['LifecycleHook', readHook],
    [
      'Oracle',
      (reader) => {
        const [base_address, base_address_config] = [keyText(reader), reader.option(() => readExtraAccount(reader))];
        return { base_address, base_address_config, results_offset: readResultsOffset(reader) };
      },
    ],
    ['AppData', readAppData],
    ['LinkedLifecycleHook', readHook],
    ['LinkedAppData', readAppData],
    [
      'DataSection',
      (reader) => {
        const parent = variant(['linked_lifecycle_hook', 'linked_app_data'], reader);
        const value: Json = parent === 'linked_app_data' ? authorityJson(reader) : keyText(reader);
        return { parent_key: { [parent]: value }, schema: variant(SCHEMAS, reader) };
      },
    ],
    [AGENT_IDENTITY, (reader) => ({ uri: readText(reader) })],
  ];

function readAdapter(type: number, bytes: Uint8Array): Adapter | null {
  const [name, read] = ADAPTERS[type] ?? [];
  if (name === undefined || read === undefined) return null;
  return orNull(() => {
    const reader = createByteReader(bytes);
    if (reader.u8() !== type) return null;
    const config = read(reader);
    return { name, config, schema: (config['schema'] as Schema | undefined) ?? null };
  });
}

const authorityJson = (reader: ByteReader): Json => ({ ...readPluginAuthority(reader) });

function readHook(reader: ByteReader) {
  const hooked_program = keyText(reader);
  const extra_accounts = reader.option(() => reader.list(() => readExtraAccount(reader), 3));
  const data_authority = reader.option(() => authorityJson(reader));
  return { hooked_program, extra_accounts, data_authority, schema: variant(SCHEMAS, reader) };
}

function readAppData(reader: ByteReader) {
  return { data_authority: authorityJson(reader), schema: variant(SCHEMAS, reader) };
}

function readResultsOffset(reader: ByteReader): Json {
  const kind = variant(['NoOffset', 'Anchor', 'custom'], reader);
  return kind === 'custom' ? { custom: reader.u64() } : kind;
}

const EXTRA_ACCOUNTS = [
  'preconfigured_program',
  'preconfigured_collection',
  'preconfigured_owner',
  'preconfigured_recipient',
  'preconfigured_asset',
  'custom_pda',
  'address',
] as const;
const SEEDS = ['Collection', 'Owner', 'Recipient', 'Asset', 'address', 'bytes'] as const;

function readExtraAccount(reader: ByteReader): Json {
  const kind = variant(EXTRA_ACCOUNTS, reader);
  const flags = () => ({ is_signer: reader.bool(), is_writable: reader.bool() });
  if (kind === 'address') {
    const address = keyText(reader);
    return { [kind]: { address, ...flags() } };
  }
  if (kind !== 'custom_pda') return { [kind]: flags() };
  const seeds = reader.list(() => readSeed(reader), 1);
  const custom_program_id = reader.option(() => keyText(reader));
  return { [kind]: { seeds, custom_program_id, ...flags() } };
}

function readSeed(reader: ByteReader): Json {
  const kind = variant(SEEDS, reader);
  if (kind === 'address') return { [kind]: keyText(reader) };
  return kind === 'bytes' ? { [kind]: [...reader.blob()] } : kind;
}

function externalData(record: ExternalRecord, data: Uint8Array, schema: Schema | null): ExternalData {
  const { lifecycle_checks, unknown_lifecycle_checks, dataOffset, dataLength } = record;
  const isInside = dataOffset !== null && dataLength !== null && dataOffset + dataLength <= data.length;
  return {
    ...(lifecycle_checks === undefined ? {} : { lifecycle_checks }),
    ...(unknown_lifecycle_checks === undefined ? {} : { unknown_lifecycle_checks }),
    ...(dataOffset === null ? {} : { data_offset: dataOffset }),
    ...(dataLength === null ? {} : { data_len: dataLength }),
    ...(isInside ? { data: readData(data.subarray(dataOffset, dataOffset + dataLength), schema) } : {}),
  };
}

/** What does not fit its schema, or is nested too deeply to be shown, is shown as bytes. */
function readData(bytes: Uint8Array, schema: Schema | null): Json {
  try {
    if (schema === 'Json') return jsonOf(parseVerbatim(Buffer.from(bytes).toString('utf8')), MAX_DEPTH);
    if (schema === 'MsgPack') return jsonOf(decodeMsgPack(bytes, { useBigInt64: true }), MAX_DEPTH);
  } catch {
    // Anybody may write anything here.
  }
  return base64(bytes);
}

const MAX_DEPTH = 100;

/** Values of MessagePack without a form in JSON become texts. Throws RangeError for values nested more deeply than `depth`. */
function jsonOf(value: unknown, depth: number): Json {
  if (depth === 0) throw new RangeError('nested too deeply');
  if (value instanceof Uint8Array) return base64(value);
  if (Array.isArray(value)) return value.map((item) => jsonOf(item, depth - 1));
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'bigint') return value >= -MAX_EXACT && value <= MAX_EXACT ? Number(value) : value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (value instanceof JsonNumber) return value;
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, jsonOf(member, depth - 1)]));
  return (value ?? null) as Json;
}

const MAX_EXACT = BigInt(Number.MAX_SAFE_INTEGER);

// -------------------------------------------------------------------------------------------------------- helpers

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');

function variant<const T extends string>(names: readonly T[], reader: ByteReader): T {
  const name = names[reader.u8()];
  if (name === undefined) throw new LayoutError(`none of ${names.length} variants`, reader.offset - 1);
  return name;
}

function orNull<T>(read: () => T | null): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}
