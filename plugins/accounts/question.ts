import { createHash } from 'node:crypto';
import type { TSchema } from '@sinclair/typebox';
import { decode, decode32 } from '../../src/lib/base58.ts';
import { byteList, isPlainObject } from '../../src/lib/json.ts';
import { RpcError, Type } from '../../src/plugin/plugin.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../src/solana/programs.ts';
import { address, EXAMPLES, oneOf, orNull, text } from '../../src/solana/schemas.ts';

const TOKEN_PROGRAMS = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM] as const;

const MAX_LIMIT = 10_000;
const DEFAULT_LIMIT = 1_000;
const MAX_FILTERS = 4;
const MAX_MEMCMP_BYTES = 128;
const ENCODINGS: readonly string[] = ['base58', 'base64', 'base64+zstd', 'jsonParsed'];
const COMMITMENTS: readonly string[] = ['processed', 'confirmed', 'finalized'];
const MINT_OFFSET = 0;
const OWNER_OFFSET = 32;
const STATE_OFFSET = 108;

/** What an account has to be to be on a page. */
export type Filter =
  | { readonly kind: 'size'; readonly bytes: number }
  | { readonly kind: 'bytes'; readonly offset: number; readonly bytes: Uint8Array }
  /** A token account that is initialized. */
  | { readonly kind: 'token' };

export interface AccountPageQuestion {
  /** The call that lists the accounts, and all of its params but what makes it a list of keys. */
  readonly method: 'getProgramAccounts' | 'getTokenAccountsByOwner';
  readonly params: readonly unknown[];
  readonly listOptions: Readonly<Record<string, unknown>>;
  /** Programs that may own the accounts. */
  readonly owners: readonly string[];
  readonly filters: readonly Filter[];
  /** How the page shows the accounts. */
  readonly encoding: string;
  readonly dataSlice: { readonly offset: number; readonly length: number } | null;
  /** Config members that are sent to the node: `commitment`, `minContextSlot`. */
  readonly context: Readonly<Record<string, unknown>>;
  readonly limit: number;
  readonly cursor: AccountCursor | null;
  readonly withContext: boolean;
  /** Names the list: who asks another question cannot go on in it. */
  readonly digest: Buffer;
}

/** Where a page begins: behind a key, in a list if that is still there. */
export interface AccountCursor {
  readonly list: Buffer;
  readonly after: Buffer;
}

export const TOKEN = TOKEN_PROGRAMS[0];
/** What a page gives as `paginationKey` looks like this. */
export const CURSOR = 'mQx1uJ0VvR8AAAAAAAAAAMlY1wPpQ0x6sYpQm3mJ1l9b8fXr0VhQmQx1uJ0VvR8A';
const orAbsent = (schema: TSchema) => Type.Optional(orNull(schema));
const number = (description: string, example: number, minimum = 0, maximum = Number.MAX_SAFE_INTEGER) =>
  Type.Integer({ minimum, maximum, description, examples: [example] });
const never = () => Type.Optional(Type.Never());
const filter = Type.Union(
  [
    Type.Literal('tokenAccountState', { description: 'Initialized token accounts' }),
    Type.Object(
      { tokenAccountState: Type.Unknown({ description: 'Anything', examples: [{}] }) },
      { description: 'Initialized token accounts' },
    ),
    Type.Object(
      { dataSize: number('Bytes of the account', 165), tokenAccountState: never() },
      { description: 'Size of the data' },
    ),
    Type.Object(
      {
        memcmp: Type.Object(
          {
            offset: number('Where the bytes begin', 32),
            bytes: Type.Union(
              [
                text('base58, or base64 with encoding base64', EXAMPLES.address, { maxLength: 2 * MAX_MEMCMP_BYTES }),
                Type.Array(Type.Integer({ minimum: 0, maximum: 255 }), {
                  maxItems: MAX_MEMCMP_BYTES,
                  description: 'Bytes as numbers',
                }),
              ],
              { description: 'The bytes, as text or as numbers' },
            ),
            encoding: Type.Optional(Type.Unknown({ description: 'base64, otherwise base58', examples: ['base58'] })),
          },
          { description: 'Bytes that the data have at a place' },
        ),
        dataSize: never(),
        tokenAccountState: never(),
      },
      { description: `Up to ${MAX_MEMCMP_BYTES} bytes of the data` },
    ),
  ],
  { description: 'A condition', examples: [{ dataSize: 165 }] },
);
const pageOptions = {
  encoding: orAbsent(oneOf(ENCODINGS, 'Form of the data; default base64', 'base64')),
  commitment: orAbsent(oneOf(COMMITMENTS, 'State of the chain', 'confirmed')),
  minContextSlot: orAbsent(number('Slot that the state has to include', 381_204_511)),
  limit: orAbsent(number(`Accounts of a page; default ${DEFAULT_LIMIT}`, 100, 1, MAX_LIMIT)),
  paginationKey: orAbsent(text('`paginationKey` of the page before', CURSOR)),
  dataSlice: orAbsent(
    Type.Object({ offset: number('First byte', 0), length: number('Bytes', 32) }, { description: 'Part of the data' }),
  ),
  changedSinceSlot: Type.Optional(Type.Null({ description: 'Not offered here' })),
};
const list = (items: readonly TSchema[], least: number, example: readonly unknown[]) =>
  Type.Unsafe<unknown>({ type: 'array', items, minItems: least, examples: [example] });

/** `params` of getProgramAccountsV2. */
export const programParams = list(
  [
    address('Address of the program', TOKEN_PROGRAMS[0], { title: 'program' }),
    orNull(
      Type.Object({
        ...pageOptions,
        filters: orAbsent(Type.Array(filter, { maxItems: MAX_FILTERS, description: 'All have to match' })),
        withContext: Type.Optional(Type.Unknown({ description: 'True: return the slot too', examples: [true] })),
      }),
      {
        title: 'options',
        description: 'How to list, and where the page begins',
        examples: [{ limit: 100, filters: [{ dataSize: 165 }] }],
      },
    ),
  ],
  1,
  [TOKEN_PROGRAMS[0], { limit: 100, filters: [{ dataSize: 165 }] }],
);

const notBoth = Type.Optional(Type.Null({ description: 'Not together with the other one' }));

/** `params` of getTokenAccountsByOwnerV2. */
export const ownerParams = list(
  [
    address('Address of the owner', EXAMPLES.address, { title: 'owner' }),
    Type.Union(
      [
        Type.Object({ mint: address('Only this mint', EXAMPLES.mint), programId: notBoth }),
        Type.Object({ programId: address('Only this program', TOKEN_PROGRAMS[0]), mint: notBoth }),
      ],
      { title: 'which', description: 'Either a mint or a program', examples: [{ programId: TOKEN_PROGRAMS[0] }] },
    ),
    orNull(Type.Object({ ...pageOptions, filters: Type.Optional(Type.Null({ description: 'Not offered here' })) }), {
      title: 'options',
      description: 'How to list, and where the page begins',
      examples: [{ limit: 100 }],
    }),
  ],
  2,
  [EXAMPLES.address, { programId: TOKEN_PROGRAMS[0] }, { limit: 100 }],
);

const DIGEST_BYTES = 8;
export const LIST_ID_BYTES = 8;
const KEY_BYTES = 32;

/** `[programId, {…}]`. Throws -32602. */
export function readProgramQuestion(params: unknown): AccountPageQuestion {
  const [program, given] = Array.isArray(params) ? (params as unknown[]) : [];
  const programId = readKey(program, 'params[0]');
  const options = readOptions(given, 'params[1]');
  const filters = readFilters(options['filters']);
  const listOptions = options['filters'] == null ? {} : { filters: options['filters'] };
  return finish(
    'getProgramAccounts',
    [programId],
    listOptions,
    [programId],
    filters,
    options,
    options['withContext'] === true,
  );
}

/** `[owner, {mint | programId}, {…}]`. Throws -32602. */
export function readOwnerQuestion(params: unknown): AccountPageQuestion {
  const [given, which, last] = Array.isArray(params) ? (params as unknown[]) : [];
  const owner = readKey(given, 'params[0]');
  const chosen = readOptions(which, 'params[1]');
  const { mint, programId } = chosen;
  if ((mint == null) === (programId == null)) throw invalid('params[1] has to have either mint or programId');
  const options = readOptions(last, 'params[2]');
  if (options['filters'] != null) throw invalid('getTokenAccountsByOwnerV2 has no filters');
  const filters: Filter[] = [{ kind: 'token' }, { kind: 'bytes', offset: OWNER_OFFSET, bytes: decode32(owner)! }];
  if (mint != null) {
    const key = readKey(mint, 'params[1].mint');
    filters.push({ kind: 'bytes', offset: MINT_OFFSET, bytes: decode32(key)! });
    return finish('getTokenAccountsByOwner', [owner, { mint: key }], {}, TOKEN_PROGRAMS, filters, options, true);
  }
  const program = readKey(programId, 'params[1].programId');
  return finish('getTokenAccountsByOwner', [owner, { programId: program }], {}, [program], filters, options, true);
}

function finish(
  method: AccountPageQuestion['method'],
  params: readonly unknown[],
  listOptions: AccountPageQuestion['listOptions'],
  owners: readonly string[],
  filters: readonly Filter[],
  options: Readonly<Record<string, unknown>>,
  withContext: boolean,
): AccountPageQuestion {
  if (options['changedSinceSlot'] != null) {
    throw invalid(
      'changedSinceSlot needs an index of accounts, which is not kept here; leave it out, or see accounts.passOn',
    );
  }
  const encoding = options['encoding'] ?? 'base64';
  if (!ENCODINGS.includes(encoding as never)) throw invalid(`encoding has to be one of ${ENCODINGS.join(', ')}`);
  const { commitment, minContextSlot } = options;
  if (commitment != null && !COMMITMENTS.includes(commitment as never)) {
    throw invalid(`commitment has to be one of ${COMMITMENTS.join(', ')}`);
  }
  if (minContextSlot != null) readCount(minContextSlot, 'minContextSlot', 0, Number.MAX_SAFE_INTEGER);
  const limit = options['limit'] == null ? DEFAULT_LIMIT : readCount(options['limit'], 'limit', 1, MAX_LIMIT);
  // The way an account is shown may change from page to page; what is listed may not.
  const listed = JSON.stringify([method, params, listOptions, commitment ?? null]);
  const digest = createHash('sha256').update(listed).digest().subarray(0, DIGEST_BYTES);
  return {
    method,
    params,
    listOptions,
    owners,
    filters,
    withContext,
    limit,
    digest,
    encoding: encoding as string,
    dataSlice: readSlice(options['dataSlice']),
    context: {
      ...(commitment == null ? {} : { commitment }),
      ...(minContextSlot == null ? {} : { minContextSlot }),
    },
    cursor: readCursor(options['paginationKey'], digest),
  };
}

/** Only characters that need no escape in an address. */
export const writeCursor = (digest: Buffer, { list, after }: AccountCursor): string =>
  Buffer.concat([digest, list, after]).toString('base64url');

function readCursor(value: unknown, digest: Buffer): AccountCursor | null {
  if (value == null) return null;
  const bytes = typeof value === 'string' && value.length < 100 ? Buffer.from(value, 'base64url') : Buffer.alloc(0);
  if (bytes.length !== DIGEST_BYTES + LIST_ID_BYTES + KEY_BYTES || bytes.toString('base64url') !== value) {
    throw invalid('paginationKey is not one that a page gave');
  }
  if (!bytes.subarray(0, DIGEST_BYTES).equals(digest)) {
    throw invalid('paginationKey belongs to a call with another program, owner, filter or commitment');
  }
  const at = DIGEST_BYTES + LIST_ID_BYTES;
  return { list: bytes.subarray(DIGEST_BYTES, at), after: bytes.subarray(at) };
}

function readFilters(value: unknown): Filter[] {
  if (value == null) return [];
  if (!Array.isArray(value) || value.length > MAX_FILTERS)
    throw invalid(`filters has to be a list of at most ${MAX_FILTERS}`);
  return value.map((one: unknown, index) => {
    const name = `filters[${index}]`;
    if (one === 'tokenAccountState') return { kind: 'token' };
    if (!isPlainObject(one)) throw invalid(`${name} has to be an object`);
    if ('tokenAccountState' in one) return { kind: 'token' };
    if ('dataSize' in one) {
      return { kind: 'size', bytes: readCount(one['dataSize'], `${name}.dataSize`, 0, Number.MAX_SAFE_INTEGER) };
    }
    const memcmp = one['memcmp'];
    if (!isPlainObject(memcmp)) throw invalid(`${name} has to have dataSize or memcmp`);
    const offset = readCount(memcmp['offset'], `${name}.memcmp.offset`, 0, Number.MAX_SAFE_INTEGER);
    return { kind: 'bytes', offset, bytes: readBytes(memcmp, `${name}.memcmp`) };
  });
}

function readBytes({ bytes, encoding }: Readonly<Record<string, unknown>>, name: string): Uint8Array {
  const found = Array.isArray(bytes)
    ? byteList(bytes)
    : typeof bytes !== 'string' || bytes.length > 2 * MAX_MEMCMP_BYTES
      ? null
      : encoding === 'base64'
        ? Buffer.from(bytes, 'base64')
        : decode(bytes);
  if (found === null || found.length > MAX_MEMCMP_BYTES) {
    throw invalid(`${name}.bytes has to be at most ${MAX_MEMCMP_BYTES} bytes as base58, base64 or a list`);
  }
  return found;
}

function readSlice(value: unknown): AccountPageQuestion['dataSlice'] {
  if (value == null) return null;
  if (!isPlainObject(value)) throw invalid('dataSlice has to be an object');
  const most = Number.MAX_SAFE_INTEGER;
  return {
    offset: readCount(value['offset'], 'dataSlice.offset', 0, most),
    length: readCount(value['length'], 'dataSlice.length', 0, most),
  };
}

function readKey(value: unknown, name: string): string {
  if (typeof value !== 'string' || decode32(value) === null) throw invalid(`${name} has to be a base58 address`);
  return value;
}

function readOptions(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null) return {};
  if (!isPlainObject(value)) throw invalid(`${name} has to be an object`);
  return value;
}

function readCount(value: unknown, name: string, least: number, most: number): number {
  if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most) return value as number;
  throw invalid(`${name} has to be a whole number from ${least} to ${most}`);
}

/** The part of the data that the filters look at: what has to be read to check them. */
export function checkedRange(filters: readonly Filter[]): { readonly offset: number; readonly length: number } {
  const ranges = filters.flatMap((one) => {
    if (one.kind === 'bytes') return [[one.offset, one.offset + one.bytes.length] as const];
    return one.kind === 'token' ? [[STATE_OFFSET, STATE_OFFSET + 1] as const] : [];
  });
  if (ranges.length === 0) return { offset: 0, length: 0 };
  const offset = Math.min(...ranges.map(([from]) => from));
  return { offset, length: Math.max(...ranges.map(([, to]) => to)) - offset };
}

/** `data` begins at `offset` of the account's data, of which there are `space` bytes. */
export function passes(filters: readonly Filter[], data: Buffer, offset: number, space: number): boolean {
  return filters.every((one) => {
    if (one.kind === 'size') return space === one.bytes;
    if (one.kind === 'token') return (data[STATE_OFFSET - offset] ?? 0) > 0;
    const at = one.offset - offset;
    return data.subarray(at, at + one.bytes.length).equals(one.bytes);
  });
}

const invalid = (details: string) => new RpcError('invalidParams', { details });
