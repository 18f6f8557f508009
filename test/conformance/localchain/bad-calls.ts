/**
 * Calls that a node refuses, with its own answer (Agave 4.2.1): code, message, and `data` where it sends some. Places that depend
 * on the chain are left to the comparison with a running node.
 */
const K = 'Vote111111111111111111111111111111111111111';
const NOBODY = '11111111111111111111111111111112';
const SIGNATURE = '1'.repeat(64);
const NOT_AN_ARRAY = '`params` should be an array';
const CONTEXT = 'expected struct RpcContextConfig.';
const ENCODINGS = 'expected one of `binary`, `base58`, `base64`, `jsonParsed`, `base64+zstd`.';
const NO_VARIANT = 'Invalid params: data did not match any variant of untagged enum';
const WIRE = 'failed to deserialize solana_transaction::versioned::VersionedTransaction:';
const BELOW = 'Method does not support commitment below `confirmed`';
const LEVELS = 'expected one of `processed`, `confirmed`, `finalized`.';
const FAR = 1e15;

const atLeast = (count: number) => `\`params\` should have at least ${count} argument(s)`;
const type = (what: string, expected: string) => `Invalid params: invalid type: ${what}, ${expected}`;
const negative = (expected: string) => `Invalid params: invalid value: integer \`-1\`, expected ${expected}.`;

export type BadCall = readonly [method: string, params: unknown, code: number, message: string, data?: unknown];

export const BAD_CALLS: readonly BadCall[] = [
  ['getFoo', undefined, -32601, 'Method not found'],
  ['getFoo', { a: 1 }, -32601, 'Method not found'],
  ['getFoo', [1], -32601, 'Method not found'],
  ['getAsset', { id: K }, -32601, 'Method not found'],
  ['accountSubscribe', [K], -32601, 'Method not found'],
  ['getFoo', 7, -32600, 'Invalid request'],
  ['getBalance', 'x', -32600, 'Invalid request'],
  ['getBalance', undefined, -32602, atLeast(1)],
  ['getBalance', [], -32602, atLeast(1)],
  ['getBalance', null, -32602, atLeast(1)],
  ['getBalance', { pubkey: K }, -32602, NOT_AN_ARRAY],
  ['getBalance', [1], -32602, type('integer `1`', 'expected a string.')],
  ['getBalance', [null], -32602, type('null', 'expected a string.')],
  ['getBalance', [1.5], -32602, type('floating point `1.5`', 'expected a string.')],
  ['getBalance', [-1], -32602, type('integer `-1`', 'expected a string.')],
  ['getBalance', [true], -32602, type('boolean `true`', 'expected a string.')],
  ['getBalance', [[]], -32602, type('sequence', 'expected a string.')],
  ['getBalance', [{}], -32602, type('map', 'expected a string.')],
  ['getBalance', ['x'], -32602, 'Invalid param: WrongSize'],
  ['getBalance', ['0OIl'], -32602, 'Invalid param: Invalid'],
  ['getBalance', [`${K}1`], -32602, 'Invalid param: WrongSize'],
  ['getBalance', [K, 1], -32602, type('integer `1`', CONTEXT)],
  ['getBalance', [K, 'confirmed'], -32602, type('string "confirmed"', CONTEXT)],
  ['getBalance', [K, ['confirmed']], -32602, type('sequence', CONTEXT)],
  ['getBalance', [K, { minContextSlot: 'x' }], -32602, type('string "x"', 'expected u64.')],
  ['getBalance', [K, { minContextSlot: -1 }], -32602, negative('u64')],
  ['getBalance', [K, { minContextSlot: FAR }], -32016, 'Minimum context slot has not been reached'],
  ['getBalance', [K, {}, 1], -32602, 'Invalid parameters: Expected from 1 to 2 parameters.', '"Got: 3"'],
  ['getSlot', [{}, 1], -32602, 'Invalid parameters: Expected from 0 to 1 parameters.', '"Got: 2"'],
  ['getSlot', {}, -32602, NOT_AN_ARRAY],
  ['getHealth', [1], -32602, 'Invalid parameters: No parameters were expected', 'Array([Number(1)])'],
  ['getHealth', {}, -32602, 'Invalid parameters: No parameters were expected', 'Map({})'],
  [
    'getVersion',
    [null, 'x', [true], { b: 1, a: {} }],
    -32602,
    'Invalid parameters: No parameters were expected',
    'Array([Null, String("x"), Array [Bool(true)], Object {"a": Object {}, "b": Number(1)}])',
  ],
  ['getAccountInfo', [K, { encoding: 'x' }], -32602, `Invalid params: unknown variant \`x\`, ${ENCODINGS}`],
  ['getAccountInfo', [K, { encoding: 1 }], -32602, type('integer `1`', 'expected string or map.')],
  [
    'getAccountInfo',
    [K, { encoding: {} }],
    -32602,
    'Invalid params: invalid value: map, expected map with a single key.',
  ],
  ['getAccountInfo', [K, { dataSlice: 1 }], -32602, type('integer `1`', 'expected struct UiDataSliceConfig.')],
  ['getAccountInfo', [K, { dataSlice: {} }], -32602, 'Invalid params: missing field `offset`.'],
  ['getAccountInfo', [K, { dataSlice: { offset: 0 } }], -32602, 'Invalid params: missing field `length`.'],
  ['getAccountInfo', [K, { dataSlice: { offset: -1, length: 1 } }], -32602, negative('usize')],
  [
    'getAccountInfo',
    [K, { dataSlice: [0] }],
    -32602,
    'Invalid params: invalid length 1, expected struct UiDataSliceConfig with 2 elements.',
  ],
  ['getMultipleAccounts', ['x'], -32602, type('string "x"', 'expected a sequence.')],
  ['getMultipleAccounts', [Array(101).fill(K)], -32602, 'Too many inputs provided; max 100'],
  ['getProgramAccounts', [K, { filters: [1] }], -32602, type('integer `1`', 'expected string or map.')],
  [
    'getProgramAccounts',
    [K, { filters: [{ foo: 1 }] }],
    -32602,
    'Invalid params: unknown variant `foo`, expected one of `dataSize`, `memcmp`, `tokenAccountState`.',
  ],
  ['getProgramAccounts', [K, { filters: [{ memcmp: {} }] }], -32602, 'Invalid params: missing field `offset`.'],
  [
    'getProgramAccounts',
    [K, { filters: [{ memcmp: { offset: 0 } }] }],
    -32602,
    'Invalid params: missing field `bytes`.',
  ],
  ['getProgramAccounts', [K, { filters: [{ memcmp: { offset: 0, bytes: 1 } }] }], -32602, `${NO_VARIANT} DataType.`],
  [
    'getProgramAccounts',
    [K, { filters: [{ memcmp: { offset: 0, bytes: '0' } }] }],
    -32602,
    "Invalid param: Base58DecodeError(InvalidCharacter { character: '0', index: 0 })",
  ],
  [
    'getProgramAccounts',
    [K, { filters: [{ memcmp: { offset: 0, bytes: '!', encoding: 'base64' } }] }],
    -32602,
    'Invalid param: Base64DecodeError(InvalidByte(0, 33))',
  ],
  [
    'getProgramAccounts',
    [K, { filters: [{ memcmp: { offset: 0, bytes: Array(129).fill(1) } }] }],
    -32602,
    'Invalid param: DataTooLarge',
  ],
  ['getProgramAccounts', [K, { filters: Array(5).fill({ dataSize: 1 }) }], -32602, 'Too many filters provided; max 4'],
  ['getProgramAccounts', [K, { withContext: 1 }], -32602, type('integer `1`', 'expected a boolean.')],
  ['getTokenAccountBalance', [K], -32602, 'Invalid param: not a Token account'],
  ['getTokenAccountBalance', [NOBODY], -32602, 'Invalid param: could not find account'],
  ['getTokenSupply', [K], -32602, 'Invalid param: not a Token mint'],
  ['getTokenSupply', [NOBODY], -32602, 'Invalid param: could not find account'],
  ['getTokenLargestAccounts', [K], -32602, 'Invalid param: Token mint could not be unpacked'],
  ['getTokenLargestAccounts', [NOBODY], -32602, 'Invalid param: could not find mint'],
  ['getTokenAccountsByOwner', [K], -32602, atLeast(2)],
  ['getTokenAccountsByOwner', [K, {}], -32602, 'Invalid params: invalid value: map, expected map with a single key.'],
  [
    'getTokenAccountsByOwner',
    [K, { x: K }],
    -32602,
    'Invalid params: unknown variant `x`, expected `mint` or `programId`.',
  ],
  [
    'getTokenAccountsByOwner',
    [K, 'mint'],
    -32602,
    'Invalid params: invalid type: unit variant, expected newtype variant.',
  ],
  ['getTokenAccountsByOwner', [K, { programId: K }], -32602, 'Invalid param: unrecognized Token program id'],
  ['getTokenAccountsByOwner', [K, { mint: NOBODY }], -32602, 'Invalid param: could not find mint'],
  ['getBlock', ['x'], -32602, type('string "x"', 'expected u64.')],
  ['getBlock', [1e12], -32004, 'Block not available for slot 1000000000000'],
  ['getBlock', [0, { commitment: 'processed' }], -32602, BELOW],
  ['getBlock', [0, 'x'], -32602, `${NO_VARIANT} RpcEncodingConfigWrapper.`],
  ['getBlock', [0, { maxSupportedTransactionVersion: 256 }], -32602, `${NO_VARIANT} RpcEncodingConfigWrapper.`],
  ['getBlock', [18446744073709551615n], -32004, 'Block not available for slot 18446744073709551615'],
  ['getBlock', [18446744073709551616n], -32602, type('floating point `1.8446744073709552e+19`', 'expected u64.')],
  ['getBlocks', [0, 'x'], -32602, `${NO_VARIANT} RpcBlocksConfigWrapper.`],
  ['getBlocks', [0, 3, { commitment: 'processed' }], -32602, BELOW],
  ['getBlocksWithLimit', [0, 600000], -32602, 'Limit too large; max 500000'],
  ['getBlockTime', undefined, -32602, type('null', 'expected a tuple of size 1.')],
  ['getBlockTime', [0, 1], -32602, 'Invalid params: invalid length 2, expected fewer elements in array.'],
  ['getTransaction', ['x'], -32602, 'Invalid param: WrongSize'],
  ['getTransaction', [SIGNATURE, 'x'], -32602, `${NO_VARIANT} RpcEncodingConfigWrapper.`],
  ['getTransaction', [SIGNATURE, { commitment: 'processed' }], -32602, BELOW],
  ['getSignaturesForAddress', [K, { limit: 1001 }], -32602, 'Invalid limit; max 1000'],
  ['getSignaturesForAddress', [K, { before: 'x' }], -32602, 'Invalid param: WrongSize'],
  ['getSignaturesForAddress', [K, { before: SIGNATURE }], -32020, `Transaction ${SIGNATURE} not found`],
  ['getSignatureStatuses', [Array(257).fill(SIGNATURE)], -32602, 'Too many inputs provided; max 256'],
  ['getSignatureStatuses', [[SIGNATURE], {}], -32602, 'Invalid params: missing field `searchTransactionHistory`.'],
  ['isBlockhashValid', ['x'], -32602, 'WrongSize'],
  ['getFeeForMessage', ['x'], -32602, 'invalid base64 encoding: InvalidLength(1)'],
  [
    'getFeeForMessage',
    ['gAAA'],
    -32602,
    'failed to deserialize solana_message::versions::VersionedMessage: Attempting to read 3 bytes',
  ],
  ['getMinimumBalanceForRentExemption', [10485761], -32600, 'Invalid request'],
  [
    'getMinimumBalanceForRentExemption',
    [0, { commitment: 'x' }],
    -32602,
    `Invalid params: unknown variant \`x\`, ${LEVELS}`,
  ],
  ['getSlotLeaders', [0], -32602, 'Invalid params: invalid length 1, expected a tuple of size 2.'],
  ['getSlotLeaders', [0, 5001], -32602, 'Invalid limit; max 5000'],
  ['getSlotLeaders', [1e12, 1], -32602, 'Invalid slot range: leader schedule for epoch 2314814 is unavailable'],
  ['getLeaderSchedule', ['x'], -32602, `${NO_VARIANT} RpcLeaderScheduleConfigWrapper.`],
  ['getBlockProduction', [{ range: {} }], -32602, 'Invalid params: missing field `firstSlot`.'],
  [
    'getBlockProduction',
    [{ range: { firstSlot: 5, lastSlot: 1 } }],
    -32602,
    'lastSlot, 1, cannot be less than firstSlot, 5',
  ],
  ['getInflationReward', [[K], { epoch: 0 }], -32004, 'Block not available for slot 432000'],
  [
    'getLargestAccounts',
    [{ filter: 'x' }],
    -32602,
    'Invalid params: unknown variant `x`, expected `circulating` or `nonCirculating`.',
  ],
  ['getRecentPerformanceSamples', [721], -32602, 'Invalid limit; max 720'],
  ['getRecentPrioritizationFees', [Array(129).fill(K)], -32602, 'Too many inputs provided; max 128'],
  ['requestAirdrop', [K], -32602, atLeast(2)],
  ['requestAirdrop', [K, -1], -32602, negative('u64')],
  ['sendTransaction', ['x'], -32602, `${WIRE} Attempting to read 3520 bytes`],
  ['sendTransaction', ['0'], -32602, "invalid base58 encoding: InvalidCharacter { character: '0', index: 0 }"],
  ['sendTransaction', ['AA', { encoding: 'base64' }], -32602, 'invalid base64 encoding: InvalidPadding'],
  ['sendTransaction', ['AAAA', { encoding: 'base64' }], -32602, `${WIRE} Attempting to read 2 bytes`],
  [
    'sendTransaction',
    ['A'.repeat(1684)],
    -32602,
    'base58 encoded solana_transaction::versioned::VersionedTransaction too large: 1684 bytes (max: encoded/raw 1683/1232)',
  ],
  [
    'sendTransaction',
    ['x', { encoding: 'json' }],
    -32602,
    'unsupported encoding: json. Supported encodings: base58, base64',
  ],
  ['sendTransaction', ['x', { preflightCommitment: 'x' }], -32602, `Invalid params: unknown variant \`x\`, ${LEVELS}`],
  ['sendTransaction', ['x', { maxRetries: -1 }], -32602, negative('usize')],
  ['simulateTransaction', ['x', { accounts: {} }], -32602, 'Invalid params: missing field `addresses`.'],
];

/** Whole bodies, and what comes back for them. */
export const BAD_BODIES: readonly (readonly [body: string, answer: string])[] = [
  ...['', '{', '1', 'null', '"x"', '[1]', '[[]]', '[', '{"jsonrpc":"2.0","id":true,"method":"getHealth"}'].map(
    (body) => [body, '{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}\n'] as const,
  ),
  ['[]', ''],
  ['{"jsonrpc":"2.0","method":"getHealth"}', ''],
  ['[{"jsonrpc":"2.0","method":"getHealth"}]', ''],
  ['{}', '{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid request"},"id":null}\n'],
  [
    '{"jsonrpc":"2.0","id":1,"method":1}',
    '{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid request"},"id":1}\n',
  ],
  [
    '{"jsonrpc":"1.0","id":"a","method":"getSlot"}',
    '{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid request"},"id":"a"}\n',
  ],
  [
    '{"id":1,"method":"getHealth"}',
    '{"error":{"code":-32600,"message":"Unsupported JSON-RPC protocol version"},"id":1}\n',
  ],
  [
    '{"jsonrpc":"2.0","id":1,"method":"getHealth","extra":1}',
    '{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid request"},"id":1}\n',
  ],
  [
    '{"jsonrpc":"2.0","id":9007199254740993,"method":"getHealth"}',
    '{"jsonrpc":"2.0","result":"ok","id":9007199254740993}\n',
  ],
  [
    '{"jsonrpc":"2.0","id":18446744073709551615,"method":"getHealth"}',
    '{"jsonrpc":"2.0","result":"ok","id":18446744073709551615}\n',
  ],
  ['{"jsonrpc":"2.0","id":null,"method":"getHealth"}', '{"jsonrpc":"2.0","result":"ok","id":null}\n'],
  ['[{}]', '[{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid request"},"id":null}]\n'],
];
