/**
 * Entries of blocks in forms that no runtime of today makes, or that nodes send rarely: beyond today's limits, with unknown versions, bits and
 * members, and with members that are missing or have another form. Every change of the decoder runs through them.
 */
import { encode, encode32, encode64 } from '../../src/lib/base58.ts';
import { entryOf, sampleMessage, wireOf } from './rpc-block.ts';

export interface FormPlace {
  /** 64 bytes that no other transaction has. */
  readonly signature: Uint8Array;
  /** Key of the fee payer, which watchers look for. */
  readonly payer: Uint8Array;
}

export interface BlockForm {
  readonly name: string;
  /**
   * What a reader must find: all parts; all but a signature (`unsigned`); the payer and the signature (`keys`); the payer alone (`payer`);
   * the signature alone (`signature`); or nothing but the entry itself (`none`).
   */
  readonly readable: 'all' | 'unsigned' | 'keys' | 'payer' | 'signature' | 'none';
  /** The entry as text, since numbers may be larger than a double holds. */
  entry(place: FormPlace): string;
  /** In encoding json, where the node has it; the same as `entry` by default. */
  json?(place: FormPlace): string;
}

const filled = (byte: number, length = 32) => new Uint8Array(length).fill(byte);
const keyOf = (number: number) => Buffer.concat([Buffer.alloc(30, 3), Buffer.of(number >> 8, number & 0xff)]);

interface Version1Form {
  readonly keyCount?: number;
  readonly instructionCount?: number;
  readonly signatureCount?: number;
  readonly readonlySigned?: number;
  readonly mask?: number;
  readonly repeatsKey?: boolean;
  readonly heapBytes?: number;
  readonly dataBytes?: number;
  readonly programIndex?: number;
}

/** The bytes of a version 1 transaction, by SIMD-0385. */
function version1Of({ signature, payer }: FormPlace, form: Version1Form = {}): Buffer {
  const { keyCount = 3, instructionCount = 1, signatureCount = 1, mask = 0b11100, dataBytes = 4 } = form;
  const keys = Array.from({ length: keyCount }, (_, at) => (at === 0 ? payer : keyOf(at)));
  if (form.repeatsKey === true) keys[keyCount - 1] = keys[1]!;
  const values: Buffer[] = [];
  for (let bit = 0; bit < 32; bit++) {
    if (((mask >>> bit) & 1) === 0) continue;
    values.push(Buffer.alloc(4));
    values.at(-1)!.writeUInt32LE(bit === 4 ? (form.heapBytes ?? 65_536) : 70_000 + bit);
  }
  const maskBytes = Buffer.alloc(4);
  maskBytes.writeUInt32LE(mask >>> 0);
  const header = Buffer.of(form.programIndex ?? keyCount - 1, 2, dataBytes & 0xff, dataBytes >> 8);
  return Buffer.concat([
    Buffer.of(0x81, signatureCount, form.readonlySigned ?? 0, 1),
    maskBytes,
    filled(9),
    Buffer.of(instructionCount, keyCount),
    ...keys,
    ...values,
    ...Array.from({ length: instructionCount }, () => header),
    ...Array.from({ length: instructionCount }, () => Buffer.concat([Buffer.of(0, 1), filled(1, dataBytes)])),
    ...Array.from({ length: signatureCount }, (_, at) => (at === 0 ? signature : filled(at + 1, 64))),
  ]);
}

const balancesOf = (count: number) => ({
  preBalances: new Array<number>(count).fill(10_000),
  postBalances: new Array<number>(count).fill(10_000),
});

const META = {
  err: null,
  status: { Ok: null },
  fee: 5_000,
  innerInstructions: [],
  logMessages: [],
  preTokenBalances: [],
  postTokenBalances: [],
  rewards: [],
  loadedAddresses: { writable: [], readonly: [] },
  computeUnitsConsumed: 150,
};

const base64Of = (wire: Uint8Array) => [Buffer.from(wire).toString('base64'), 'base64'];
const version1Entry = (wire: Uint8Array, keyCount: number, changes: object = {}) =>
  JSON.stringify({ transaction: base64Of(wire), version: 1, meta: { ...META, ...balancesOf(keyCount), ...changes } });

const version1 = (name: string, form: Version1Form, readable: BlockForm['readable'] = 'all'): BlockForm => ({
  name,
  readable,
  entry: (place) => version1Entry(version1Of(place, form), form.keyCount ?? 3),
});

/** A legacy transaction with another `meta`; `null` removes a member. */
const plainWire = ({ signature, payer }: FormPlace) =>
  wireOf({ message: sampleMessage({ keys: [payer, filled(2), filled(3)] }), signatures: [signature] });
const plainMessage = ({ payer }: FormPlace) => sampleMessage({ keys: [payer, filled(2), filled(3)] });
const plainEntry = (place: FormPlace, meta: object = {}) =>
  JSON.stringify(entryOf({ message: plainMessage(place), meta: { ...META, ...meta } }, plainWire(place)));

const withMeta = (name: string, meta: object, readable: BlockForm['readable'] = 'all'): BlockForm => ({
  name,
  readable,
  entry: (place) => plainEntry(place, meta),
});
/** Replaces texts in the JSON of a usual entry: for numbers that a double cannot hold. */
const withText = (name: string, meta: object, replace: readonly (readonly [string, string])[]): BlockForm => ({
  name,
  readable: 'all',
  entry: (place) => replace.reduce((text, [from, to]) => text.replaceAll(from, to), plainEntry(place, meta)),
});
const withWire = (
  name: string,
  readable: BlockForm['readable'],
  change: (wire: Buffer, place: FormPlace) => Uint8Array,
  json?: (place: FormPlace) => string,
): BlockForm => ({
  name,
  readable,
  entry: (place) => {
    const entry = JSON.parse(plainEntry(place)) as object;
    const wire = change(plainWire(place), place);
    // As a node names it, which knows the version.
    const version = wire[0]! > 0x80 ? { version: wire[0]! & 0x7f } : {};
    return JSON.stringify({ ...entry, ...version, transaction: base64Of(wire) });
  },
  ...(json === undefined ? {} : { json }),
});

/** The transaction in encoding `json`. */
export const jsonEntry = (place: FormPlace, changes: { version?: unknown; message?: object } = {}): string =>
  JSON.stringify({
    transaction: {
      signatures: [encode64(place.signature)],
      message: {
        accountKeys: [place.payer, filled(2), filled(3)].map((key) => encode32(key)),
        header: { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 1 },
        recentBlockhash: encode32(filled(9)),
        instructions: [{ programIdIndex: 2, accounts: [0, 1], data: encode(Uint8Array.of(1, 2)), stackHeight: 1 }],
        ...changes.message,
      },
    },
    version: changes.version ?? 2,
    // That of the same transaction in base64.
    meta: { ...META, preBalances: [1, 1, 1], postBalances: [2, 2, 2] },
  });

const HUGE = '18446744073709551615';
const tokenBalance = (changes: object) => ({
  accountIndex: 1,
  mint: encode32(filled(2)),
  owner: encode32(filled(3)),
  programId: encode32(filled(3)),
  uiTokenAmount: { amount: '12', decimals: 0, uiAmount: 12, uiAmountString: '12' },
  ...changes,
});
const inner = (changes: object) => [
  { index: 0, instructions: [{ programIdIndex: 2, accounts: [0, 1], data: '2', stackHeight: 2, ...changes }] },
];

export const BLOCK_FORMS: readonly BlockForm[] = [
  version1('64 keys', { keyCount: 64 }),
  version1('65 keys', { keyCount: 65 }),
  version1('96 keys', { keyCount: 96 }),
  version1('255 keys', { keyCount: 255 }),
  version1('65 instructions', { instructionCount: 65 }),
  version1('255 instructions', { instructionCount: 255 }),
  version1('13 signatures', { keyCount: 20, signatureCount: 13 }),
  version1('42 signatures', { keyCount: 60, signatureCount: 42 }),
  version1('a repeated key', { keyCount: 5, repeatsKey: true }),
  version1('a heap of 1,025 bytes', { heapBytes: 1_025 }),
  version1('a heap of 4 GiB', { heapBytes: 0xffff_ffff }),
  version1('4,100 bytes and more', { instructionCount: 5, dataBytes: 1_000 }),
  version1('40,000 bytes of data', { dataBytes: 40_000 }),
  version1('config bit 5', { mask: 0b111100 }),
  version1('config bits 5 and 31', { mask: 0x8000_003c }),
  version1('all config bits', { mask: 0xffff_ffff }),
  version1('one of the two bits of the fee', { mask: 0b11101 }),
  version1('the other bit of the fee', { mask: 0b11110 }),
  version1('a read-only fee payer', { readonlySigned: 1 }),
  version1('no instructions', { instructionCount: 0 }),
  version1('the fee payer as program', { programIndex: 0 }),
  version1('a program behind the keys', { programIndex: 200 }, 'payer'),
  {
    name: 'version 1 without signature',
    readable: 'unsigned',
    entry: (place) => version1Entry(version1Of(place, { signatureCount: 0 }), 3),
  },
  {
    name: 'version 1 cut off',
    readable: 'payer',
    entry: (place) => version1Entry(version1Of(place).subarray(0, -20), 3),
  },
  {
    name: 'version 1 with bytes behind it',
    readable: 'payer',
    entry: (place) => version1Entry(Buffer.concat([version1Of(place), Buffer.of(1, 2)]), 3),
  },
  withWire('message version 2 before its signatures, also as json', 'all', versionByte(130), (place) =>
    jsonEntry(place),
  ),
  withWire('message version 2 with an unknown message as json', 'keys', versionByte(130), (place) =>
    jsonEntry(place, { message: { instructions: { later: true } } }),
  ),
  withWire('message version 2 with a part that json adds', 'all', versionByte(130), (place) =>
    jsonEntry(place, { message: { later: [1, 2] } }),
  ),
  withWire('message version 2 that the node does not have as json', 'none', versionByte(130)),
  withWire('message version 127', 'none', versionByte(255)),
  withWire('message version 5 behind its signatures', 'signature', (wire) =>
    Buffer.concat([wire.subarray(0, 65), Buffer.of(0x85), wire.subarray(65)]),
  ),
  withWire('a legacy transaction cut off', 'keys', (wire) => wire.subarray(0, -3)),
  withWire('bytes behind a legacy transaction', 'keys', (wire) => Buffer.concat([wire, Buffer.of(7)])),
  withWire('a legacy transaction without signature', 'unsigned', (wire) =>
    Buffer.concat([Buffer.of(0), wire.subarray(65)]),
  ),
  withWire('a byte', 'none', () => Buffer.of(1)),
  {
    name: 'an unknown encoding',
    readable: 'none',
    entry: (place) => JSON.stringify({ ...(JSON.parse(plainEntry(place)) as object), transaction: ['AA==', 'base99'] }),
  },
  {
    name: 'base64+zstd',
    readable: 'none',
    entry: (place) =>
      JSON.stringify({ ...(JSON.parse(plainEntry(place)) as object), transaction: ['KLUv', 'base64+zstd'] }),
  },
  {
    name: 'base58',
    readable: 'all',
    entry: (place) =>
      JSON.stringify({
        ...(JSON.parse(plainEntry(place)) as object),
        transaction: [encode(plainWire(place)), 'base58'],
      }),
  },
  { name: 'json instead of base64', readable: 'all', entry: (place) => jsonEntry(place, { version: 'legacy' }) },
  {
    name: 'json without signatures',
    readable: 'unsigned',
    entry: (place) => jsonEntry(place).replace(/"signatures":\[[^\]]*\]/, '"signatures":[]'),
  },
  {
    name: 'only accounts',
    readable: 'keys',
    entry: (place) =>
      JSON.stringify({
        transaction: {
          signatures: [encode64(place.signature)],
          accountKeys: [{ pubkey: encode32(place.payer), signer: true, writable: true, source: 'transaction' }],
        },
        meta: { ...META, ...balancesOf(1) },
      }),
  },
  { name: 'transaction null', readable: 'none', entry: () => '{"transaction":null,"meta":null,"version":null}' },
  { name: 'an entry that is null', readable: 'none', entry: () => 'null' },
  { name: 'an entry that is a text', readable: 'none', entry: () => '"later"' },
  {
    name: 'version as text',
    readable: 'all',
    entry: (place) => plainEntry(place).replace('"version":"legacy"', '"version":"0"'),
  },
  {
    name: 'no version',
    readable: 'all',
    entry: (place) => plainEntry(place).replace('"version":"legacy",', ''),
  },
  {
    name: 'unknown members of the entry',
    readable: 'all',
    entry: (place) => plainEntry(place).replace('{', '{"later":{"x":[1,2]},"another":null,'),
  },
  {
    name: 'meta null',
    readable: 'all',
    entry: (place) => JSON.stringify({ ...(JSON.parse(plainEntry(place)) as object), meta: null }),
  },
  {
    name: 'no meta',
    readable: 'all',
    entry: (place) => JSON.stringify({ ...(JSON.parse(plainEntry(place)) as object), meta: undefined }),
  },
  ...['err', 'fee', 'preBalances', 'postBalances', 'innerInstructions', 'logMessages', 'preTokenBalances'].flatMap(
    (member) => [
      withMeta(`meta.${member} missing`, { [member]: undefined }),
      withMeta(`meta.${member} null`, { [member]: null }),
      withMeta(`meta.${member} in another form`, { [member]: { later: 1 } }),
    ],
  ),
  ...['rewards', 'computeUnitsConsumed', 'costUnits', 'returnData', 'loadedAddresses', 'status'].flatMap((member) => [
    withMeta(`meta.${member} missing`, { [member]: undefined }),
    withMeta(`meta.${member} null`, { [member]: null }),
    withMeta(`meta.${member} as text`, { [member]: 'later' }),
    withMeta(`meta.${member} as object`, { [member]: { later: [1] } }),
  ]),
  withMeta('an unknown member of meta', { later: { deep: [1, { x: null }] }, another: 'text' }),
  withMeta('an unknown error as text', { err: 'Later', status: { Err: 'Later' } }),
  withMeta('an unknown error as object', { err: { Later: { x: 1 } }, status: { Err: { Later: { x: 1 } } } }),
  withMeta('an unknown error of an instruction', { err: { InstructionError: [0, 'Later'] } }),
  withMeta('an unknown nested error', { err: { InstructionError: [0, { Later: { Custom: [1, 'x'] } }] } }),
  withMeta('BailOut', { err: { InstructionError: [0, 'BailOut'] } }),
  withMeta('a custom error above 2^32', { err: { InstructionError: [0, { Custom: 2 ** 40 }] } }),
  withMeta('an instruction error of instruction 300', { err: { InstructionError: [300, { Custom: 1 }] } }),
  withMeta('an error that is a number', { err: 7 }),
  withMeta('an error that is a list', { err: [1, 2] }),
  withMeta('included and not run', {
    err: 'InsufficientFundsForFee',
    status: { Err: 'InsufficientFundsForFee' },
    fee: 0,
    logMessages: null,
    innerInstructions: null,
    computeUnitsConsumed: 200_000,
  }),
  withMeta('a stack height of 9', { innerInstructions: inner({ stackHeight: 9 }) }),
  withMeta('a stack height that is a text', { innerInstructions: inner({ stackHeight: 'x' }) }),
  withMeta('an inner instruction that is parsed', { innerInstructions: inner({ data: undefined, parsed: {} }) }),
  withMeta('an inner instruction whose data is no base58', { innerInstructions: inner({ data: '0OIl' }) }),
  withMeta('an inner instruction of an account behind the keys', { innerInstructions: inner({ accounts: [9] }) }),
  withMeta('inner instructions of an instruction that does not exist', {
    innerInstructions: [{ ...inner({})[0], index: 9 }],
  }),
  withMeta('logs that are no texts', { logMessages: [1, null, {}] }),
  withMeta('balances of fewer accounts', { preBalances: [1, 2] }),
  withMeta('negative balances', { preBalances: [-1, -2, -3] }),
  withMeta('balances with a fraction', { postBalances: [1.5, 2, 3] }),
  withMeta('a fee that is a text', { fee: '5000' }),
  withMeta('a negative fee', { fee: -5 }),
  withMeta('a fee with a fraction', { fee: 0.5 }),
  withText('a fee of 2^64 - 1', { fee: 424_242 }, [['424242', HUGE]]),
  withText('balances of 2^64 - 1', { preBalances: [424_242, 1, 2] }, [['424242', HUGE]]),
  withText('balances of 2^70', { postBalances: [424_242, 1, 2] }, [['424242', '1180591620717411303424']]),
  withText('compute units of 2^64 - 1', { computeUnitsConsumed: 424_242 }, [['424242', HUGE]]),
  withText(
    'a reward of -2^63',
    { rewards: [{ pubkey: encode32(filled(2)), lamports: 424_242, postBalance: 1, rewardType: 'Later' }] },
    [['424242', '-9223372036854775808']],
  ),
  withMeta('rewards of unknown types', {
    rewards: [
      { pubkey: encode32(filled(2)), lamports: -800_000_000, postBalance: 1, rewardType: 'VATDebit', commission: null },
      { pubkey: encode32(filled(2)), lamports: 1, postBalance: 1, rewardType: null, commissionBps: 512 },
      { pubkey: 7, later: true },
      null,
    ],
  }),
  withMeta('a token amount above 2^53', {
    postTokenBalances: [tokenBalance({ uiTokenAmount: { amount: HUGE, decimals: 9, uiAmount: null } })],
  }),
  withMeta('a token balance without owner', { postTokenBalances: [tokenBalance({ owner: undefined })] }),
  withMeta('a token balance with an invalid mint', { postTokenBalances: [tokenBalance({ mint: 'later' })] }),
  withMeta('a token amount that is no number', {
    preTokenBalances: [tokenBalance({ uiTokenAmount: { amount: 'x', decimals: 0 } })],
  }),
  withMeta('a token balance of an account behind the keys', {
    preTokenBalances: [tokenBalance({ accountIndex: 200 })],
  }),
  withMeta('a token balance that is null', { preTokenBalances: [null] }),
  withMeta(
    'loaded addresses without lookups',
    { loadedAddresses: { writable: [encode32(filled(8))], readonly: [] } },
    'keys',
  ),
  {
    name: 'version 0 with empty lookups and no loaded addresses',
    readable: 'all',
    entry: (place) => lookupEntry(place, [], undefined),
  },
  {
    name: 'version 0 whose loaded addresses are missing',
    readable: 'keys',
    entry: (place) => lookupEntry(place, [0, 1], undefined),
  },
  {
    name: 'version 0 whose loaded addresses are invalid',
    readable: 'keys',
    entry: (place) => lookupEntry(place, [0], { writable: ['later'], readonly: [] }),
  },
];

function lookupEntry(place: FormPlace, writableIndexes: readonly number[], loadedAddresses: unknown): string {
  const message = {
    ...plainMessage(place),
    version: 0 as const,
    lookups: [
      { table: filled(6), writable: Uint8Array.from(writableIndexes), readonly: new Uint8Array(0) },
      { table: filled(7), writable: new Uint8Array(0), readonly: new Uint8Array(0) },
    ],
  };
  const wire = wireOf({ message, signatures: [place.signature] });
  const balances = balancesOf(3 + writableIndexes.length);
  return JSON.stringify(entryOf({ message, meta: { ...META, ...balances, loadedAddresses } }, wire));
}

function versionByte(byte: number) {
  return (wire: Buffer): Buffer => Buffer.concat([Buffer.of(byte), wire.subarray(1)]);
}
