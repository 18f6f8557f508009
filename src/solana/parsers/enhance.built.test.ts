/** Programs without recordings: instructions built from public discriminators are classified correctly. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import {
  addressFor,
  type BuiltCall,
  type BuiltToken,
  builtElement,
  solTransfer,
  tokenBurn,
  tokenMint,
  tokenTransfer,
} from '../../../test/helpers/built-transaction.ts';
import { rebuildBlock } from '../../../test/helpers/rebuild-enhanced.ts';
import { DEVNET, MEMO_PROGRAMS, MEMO_V4_PROGRAM } from '../programs.ts';
import { enhance } from './enhance.ts';
import { TRADING_PROGRAMS } from './swap.ts';

const [payer, pool, mintA, mintB] = ['payer', 'pool', 'mint a', 'mint b'].map(addressFor) as [
  string,
  string,
  string,
  string,
];
const [ownA, ownB, vaultA, vaultB] = ['own a', 'own b', 'vault a', 'vault b'].map(addressFor) as [
  string,
  string,
  string,
  string,
];
const hex = (text: string): Buffer => Buffer.from(text, 'hex');
const named = (name: string): Buffer => createHash('sha256').update(`global:${name}`).digest().subarray(0, 8);
const u64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
};

function read(calls: readonly BuiltCall[], options: Parameters<typeof builtElement>[2] = {}) {
  const block = rebuildBlock(builtElement(payer, calls, options));
  const onFault = (...fault: unknown[]) => assert.fail(String(fault));
  return enhance(block.transactions[0]!, block, { onFault });
}

const LIGHT = 'cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m';
const SNS = 'namesLPneVptA9Z5rqUDD9tMTWEJwofgaYwp8cawRkX';
const CLMM = 'CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK';
const CPMM = 'CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C';
const PUMP = '6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P';
const PUMP_AMM = 'pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA';
const SQUADS_V3 = 'SMPLecH534NA9acpos4G6x7uf3LWbCAwZQE9e8ZekMu';
const SQUADS = 'SQDS4ep65T869zMMBKyuUq6aD6EgTu8psMjkvj52pCf';
const MARINADE = 'MarBmsSgKXdrN1egZf5sqe1TMai9K1rChYNDJgjq7aD';
const STAKE_POOL = 'SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy';
const ROUTER = 'stkitrT1Uoy18Dk1fTrgPw8W6MVzoCfYoAFT4MLsmhq';
const INFINITY = '5ocnV1qiCgaQR8Jb8xWnVbApfaygJ8tNoZfgPwsgx9kx';
const PHOENIX = 'PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY';
const OPENBOOK = 'srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX';
const OPENBOOK_V2 = 'opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb';
const DLMM = 'LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo';
const DAMM = 'Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB';
const DAMM_V2 = 'cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG';
const TENSOR = 'TSWAPaqyCSx2KABk68Shruf4rp7CxcNi8hAsbdwmHbN';
const TENSOR_COMPRESSED = 'TCMPhJdwDryooaGtiocG1u3xcYbRpiJzb283XfCZsDp';
const MAGIC_EDEN = 'M2mx93ekt1fmXSVkTrUL9xVFHkmME8HTUi5Cyc5aF7K';

/** Bytes as shown by explorers and interface files, next to their names, so that both are checked. */
const ANCHOR: readonly (readonly [program: string, name: string, bytes: string, type: string, source: string])[] = [
  [LIGHT, 'create_token_pool', '17a91b7a93a9d198', 'CREATE_TOKEN_POOL', 'UNKNOWN'],
  [LIGHT, 'mint_to', 'f12230ba25b37bc0', 'MINT_TO', 'UNKNOWN'],
  [LIGHT, 'transfer', 'a334c8e78c0345ba', 'TRANSFER', 'UNKNOWN'],
  [LIGHT, 'burn', '746e1d386bdb2a5d', 'BURN', 'UNKNOWN'],
  [CPMM, 'initialize', 'afaf6d1f0d989bed', 'CREATE_POOL', 'RAYDIUM'],
  [CPMM, 'deposit', 'f223c68952e1f2b6', 'ADD_LIQUIDITY', 'RAYDIUM'],
  [CPMM, 'withdraw', 'b712469c946da122', 'WITHDRAW_LIQUIDITY', 'RAYDIUM'],
  [CLMM, 'create_pool', 'e992d18ecf6840bc', 'CREATE_POOL', 'RAYDIUM'],
  [DEVNET.RAYDIUM_CLMM, 'create_pool', 'e992d18ecf6840bc', 'CREATE_POOL', 'RAYDIUM'],
  [DEVNET.RAYDIUM_CPMM, 'deposit', 'f223c68952e1f2b6', 'ADD_LIQUIDITY', 'RAYDIUM'],
  [CLMM, 'increase_liquidity_v2', '851d59df45eeb00a', 'ADD_LIQUIDITY', 'RAYDIUM'],
  [CLMM, 'decrease_liquidity_v2', '3a7fbc3e4f52c460', 'WITHDRAW_LIQUIDITY', 'RAYDIUM'],
  [PUMP, 'create', '181ec828051c0777', 'CREATE', 'UNKNOWN'],
  [PUMP, 'buy', '66063d1201daebea', 'SWAP', 'UNKNOWN'],
  [PUMP, 'sell', '33e685a4017f83ad', 'SWAP', 'UNKNOWN'],
  [PUMP_AMM, 'create_pool', 'e992d18ecf6840bc', 'CREATE_POOL', 'PUMP_AMM'],
  [PUMP_AMM, 'deposit', 'f223c68952e1f2b6', 'DEPOSIT', 'PUMP_AMM'],
  [PUMP_AMM, 'withdraw', 'b712469c946da122', 'WITHDRAW', 'PUMP_AMM'],
  [SQUADS, 'vault_transaction_create', '30fa4ea8d0e2dad3', 'CREATE_VAULT_TRANSACTION', 'SQUADS'],
  [SQUADS, 'vault_transaction_execute', 'c208a15799a419ab', 'EXECUTE_VAULT_TRANSACTION', 'SQUADS'],
  [SQUADS, 'proposal_approve', '9025a488bcd82af8', 'APPROVE_PROPOSAL', 'SQUADS'],
  [SQUADS, 'proposal_create', 'dc3c49e01e6c4f9f', 'CREATE_PROPOSAL', 'SQUADS'],
  [MARINADE, 'deposit', 'f223c68952e1f2b6', 'STAKE_SOL', 'MARINADE'],
  [MARINADE, 'liquid_unstake', '1e1e77f0bfe30c10', 'UNSTAKE_SOL', 'MARINADE'],
  [DLMM, 'add_liquidity_by_strategy', '0703967f94283dc8', 'ADD_LIQUIDITY_BY_STRATEGY', 'UNKNOWN'],
  [DLMM, 'remove_liquidity_by_range', '1a526698f04a691a', 'REMOVE_LIQUIDITY_BY_RANGE', 'UNKNOWN'],
  [DLMM, 'claim_fee', 'a9204f8988e84689', 'CLAIM_FEE', 'UNKNOWN'],
  [MAGIC_EDEN, 'mip1_sell', '3a32ac6fa697165e', 'NFT_LISTING', 'MAGIC_EDEN'],
  [MAGIC_EDEN, 'ocp_sell', '1629d9dc15683d63', 'NFT_LISTING', 'MAGIC_EDEN'],
  [MAGIC_EDEN, 'mip1_execute_sale_v2', 'eca3ccad4790eb76', 'NFT_SALE', 'MAGIC_EDEN'],
  [MAGIC_EDEN, 'ocp_execute_sale_v2', 'c8531f529c9c1461', 'NFT_SALE', 'MAGIC_EDEN'],
];

test('instructions of Anchor programs are recognized by the bytes of their names', () => {
  for (const [program, name, bytes, type, source] of ANCHOR) {
    assert.equal(named(name).toString('hex'), bytes, name);
    const data = Buffer.concat([hex(bytes), Buffer.alloc(24, 7)]);
    const made = read([{ program, accounts: [payer, pool], data }]);
    assert.deepEqual([made.type, made.source], [type, source], `${program} ${name}`);
  }
});

test('instructions of Anchor programs, by name alone', () => {
  for (const [program, name, type, source] of [
    [SQUADS_V3, 'create', 'CREATE_MULTISIG', 'SQUADS'],
    [SQUADS_V3, 'add_member_and_change_threshold', 'ADD_MEMBER_AND_CHANGE_THRESHOLD', 'SQUADS'],
    [SQUADS_V3, 'execute_transaction', 'EXECUTE_TRANSACTION', 'SQUADS'],
    [SQUADS, 'program_config_init', 'PROGRAM_CONFIG_INIT', 'SQUADS'],
    [DAMM, 'initialize_permissionless_pool', 'INIT_PERMISSIONLESS_POOL', 'UNKNOWN'],
    [DAMM, 'add_balance_liquidity', 'ADD_BALANCE_LIQUIDITY', 'UNKNOWN'],
    [DAMM_V2, 'initialize_pool', 'CREATE_POOL', 'UNKNOWN'],
    [DAMM_V2, 'remove_all_liquidity', 'REMOVE_ALL_LIQUIDITY', 'UNKNOWN'],
    [OPENBOOK_V2, 'place_order', 'PLACE_ORDER', 'UNKNOWN'],
    [OPENBOOK_V2, 'settle_funds', 'SETTLE_FUNDS', 'UNKNOWN'],
    [TENSOR, 'list', 'NFT_LISTING', 'TENSOR'],
    [TENSOR, 'delist', 'NFT_CANCEL_LISTING', 'TENSOR'],
    [TENSOR, 'wns_buy_nft', 'NFT_SALE', 'TENSOR'],
    [TENSOR_COMPRESSED, 'buy_core', 'NFT_SALE', 'TENSOR'],
    [TENSOR_COMPRESSED, 'take_bid_legacy', 'NFT_SALE', 'TENSOR'],
  ] as const) {
    const made = read([{ program, accounts: [payer, pool], data: Buffer.concat([named(name), Buffer.alloc(16)]) }]);
    assert.deepEqual([made.type, made.source], [type, source], `${program} ${name}`);
  }
});

test('instructions of programs with numbered instructions', () => {
  const serum = (tag: number): Buffer => Buffer.from([0, tag, 0, 0, 0]);
  for (const [program, data, type] of [
    [SNS, Buffer.from([0, 32, 0, 0, 0]), 'CREATE'],
    [SNS, Buffer.from([1, 0, 0, 0, 0]), 'UPDATE'],
    [SNS, Buffer.concat([Buffer.from([2]), Buffer.alloc(32, 1)]), 'TRANSFER_OWNERSHIP'],
    [SNS, Buffer.from([3]), 'CLOSE_ACCOUNT'],
    [SNS, Buffer.from([4, 200, 0, 0, 0]), 'UPDATE'],
    [PHOENIX, Buffer.from([2, 0]), 'PLACE_ORDER'],
    [PHOENIX, Buffer.from([6]), 'CANCEL_ALL_ORDERS'],
    [PHOENIX, Buffer.from([100]), 'INITIALIZE_MARKET'],
    [OPENBOOK, serum(10), 'PLACE_ORDER'],
    [OPENBOOK, serum(5), 'SETTLE_FUNDS'],
    [DEVNET.OPENBOOK, serum(5), 'SETTLE_FUNDS'],
    [OPENBOOK, serum(14), 'CLOSE_OPEN_ORDERS_ACCOUNT'],
    [STAKE_POOL, Buffer.concat([Buffer.from([14]), u64(5n)]), 'STAKE_SOL'],
    [STAKE_POOL, Buffer.concat([Buffer.from([26]), u64(5n), u64(1n)]), 'UNSTAKE_SOL'],
    [INFINITY, Buffer.from([3]), 'ADD_LIQUIDITY'],
    [ROUTER, Buffer.concat([Buffer.from([0]), u64(5n)]), 'STAKE_SOL'],
    [ROUTER, Buffer.concat([Buffer.from([1]), u64(5n)]), 'SWAP'],
    [ROUTER, Buffer.from([2]), 'INITIALIZE_ACCOUNT'],
    [ROUTER, Buffer.from([3]), 'CLOSE_ACCOUNT'],
    [ROUTER, Buffer.from([4]), 'COLLECT_FEES'],
    [ROUTER, Buffer.from([5]), 'STAKE_SOL'],
    [ROUTER, Buffer.concat([Buffer.from([6]), u64(5n), u64(1n)]), 'UNSTAKE_SOL'],
    [ROUTER, Buffer.from([200]), 'UNKNOWN'],
  ] as const) {
    const made = read([{ program, accounts: [payer, pool], data }]);
    assert.deepEqual([made.type, made.source], [type, 'UNKNOWN'], `${program} ${data.toString('hex')}`);
  }
});

const swapped: readonly BuiltToken[] = [
  { account: ownA, owner: payer, mint: mintA, change: -1_500_000n, decimals: 6 },
  { account: vaultA, owner: pool, mint: mintA, change: 1_500_000n, decimals: 6 },
  { account: vaultB, owner: pool, mint: mintB, change: -20n, decimals: 1 },
  { account: ownB, owner: payer, mint: mintB, change: 20n, decimals: 1 },
];
const exchange = [tokenTransfer(ownA, vaultA, payer, 1_500_000n), tokenTransfer(vaultB, ownB, pool, 20n)];

test('an exchange on any market is a swap, whatever its instruction', () => {
  for (const program of TRADING_PROGRAMS.filter((one) => one !== PUMP)) {
    const call = {
      program,
      accounts: [payer, ownA, vaultA, vaultB, ownB],
      data: hex('fefefefefefefefe'),
      inner: exchange,
    };
    const made = read([{ program: MEMO_V4_PROGRAM, data: Buffer.from('a memo') }, call], { tokens: swapped });
    assert.equal(made.type, 'SWAP', program);
    assert.equal(made.description, `${payer} swapped 1.5 ${mintA} for 2 ${mintB}`);
    assert.deepEqual(
      (made['tokenTransfers'] as { tokenAmount: number }[]).map(({ tokenAmount }) => tokenAmount),
      [1.5, 2],
    );
  }
});

test('one staked token becomes another: burned here, minted there', () => {
  const made = read(
    [
      {
        program: ROUTER,
        accounts: [payer, ownA, ownB],
        data: Buffer.concat([Buffer.from([7]), u64(5n)]),
        inner: [tokenBurn(ownA, mintA, payer, 1_500_000n), tokenMint(mintB, ownB, pool, 20n)],
      },
    ],
    { tokens: swapped.filter(({ owner }) => owner === payer) },
  );
  assert.deepEqual([made.type, made.source], ['SWAP', 'UNKNOWN']);
  assert.equal(made.description, `${payer} swapped 1.5 ${mintA} for 2 ${mintB}`);
  const { swap } = made['events'] as { swap: { innerSwaps: { programInfo: { programName: string } }[] } };
  assert.equal(swap.innerSwaps[0]?.programInfo.programName, 'SANCTUM_ROUTER');
});

test('a swap on devnet, where the pool has another address', () => {
  const data = Buffer.concat([Buffer.from([9]), u64(1_500_000n), u64(1n)]);
  const call = { program: DEVNET.RAYDIUM_LIQUIDITY_POOL_V4, accounts: [payer, ownA, ownB], data, inner: exchange };
  const made = read([call], { tokens: swapped });
  assert.deepEqual([made.type, made.source], ['SWAP', 'RAYDIUM']);
});

test('listings contain their price', () => {
  const price = u64(1_250_000_000n);
  const compressed = Buffer.concat([named('list'), u64(3n), Buffer.alloc(4), Buffer.alloc(96), price]);
  for (const [program, data, seller] of [
    [TENSOR, Buffer.concat([named('list'), price]), payer],
    [TENSOR_COMPRESSED, Buffer.concat([named('list_core'), price]), payer],
    [TENSOR_COMPRESSED, compressed, payer],
    [MAGIC_EDEN, Buffer.concat([named('mip1_sell'), price, u64(0n)]), payer],
    [MAGIC_EDEN, Buffer.concat([named('ocp_sell'), price, u64(0n)]), payer],
    [MAGIC_EDEN, Buffer.concat([named('core_sell'), price, u64(0n)]), payer],
  ] as const) {
    const made = read([{ program, accounts: [payer, pool], data }]);
    assert.equal(made.type, 'NFT_LISTING');
    const { nft } = made['events'] as { nft: { amount: number; seller: string } };
    assert.deepEqual([nft.amount, nft.seller], [1_250_000_000, seller], program);
  }
});

test('a memo does not affect the classification', () => {
  for (const program of MEMO_PROGRAMS) {
    const memo = { program, accounts: [payer], data: Buffer.from('thanks') };
    assert.equal(read([memo]).type, 'UNKNOWN');
    const lamports = { [payer]: -70, [pool]: 70 };
    const paid = read([memo, solTransfer(payer, pool, 70n)], { lamports });
    assert.deepEqual([paid.type, paid.source], ['TRANSFER', 'SYSTEM_PROGRAM'], program);
  }
});

const SOL = 'So11111111111111111111111111111111111111112';
const bot = { program: addressFor('some bot'), accounts: [payer, ownA, ownB], data: Buffer.from([7, 7]) };
const tip = solTransfer(payer, addressFor('tip'), 1_000_000n);
const gain = (mint: string, change: bigint, account = ownB): BuiltToken => ({
  account,
  owner: payer,
  mint,
  change,
  decimals: 1,
});

test('a swap on an unknown program: one token of the payer goes out, another one comes in', () => {
  interface Legs {
    nativeInput: { amount: string } | null;
    nativeOutput: { amount: string } | null;
    tokenInputs: { mint: string; rawTokenAmount: { tokenAmount: string } }[];
    tokenOutputs: { mint: string; rawTokenAmount: { tokenAmount: string } }[];
  }
  const rent = solTransfer(payer, ownB, 2_039_280n);
  // Token for token, with a tip, and shares of the fee that the pool mints for itself.
  const shares = tokenMint(addressFor('shares'), addressFor('fee'), pool, 5n);
  // SOL for a token: fee, tip and rent of the new account are not part of the price.
  const bought = { ...bot, inner: [rent, solTransfer(payer, pool, 70_000_000n), exchange[1]!] };
  const forSol = { [payer]: -73_039_280, [ownB]: 2_039_280, [pool]: 70_000_000, [addressFor('tip')]: 1_000_000 };
  // A token for SOL that the program pays out without an instruction.
  const sold = { ...bot, inner: [exchange[0]!] };
  const cases = [
    [[{ ...bot, inner: [...exchange, shares] }, tip], { tokens: swapped }, [mintA, '1500000'], [mintB, '20']],
    [[bought, tip], { tokens: swapped.slice(2), lamports: forSol }, [SOL, '70000000'], [mintB, '20']],
    [[sold], { tokens: swapped.slice(0, 2), lamports: { [payer]: 90, [pool]: -90 } }, [mintA, '1500000'], [SOL, '90']],
  ] as const;
  for (const [calls, options, input, output] of cases) {
    const made = read(calls, options);
    assert.deepEqual([made.type, made.source], ['SWAP', 'UNKNOWN']);
    const { swap } = made['events'] as { swap: Legs };
    const leg = (native: { amount: string } | null, [token]: Legs['tokenInputs']) =>
      native === null ? [token?.mint, token?.rawTokenAmount.tokenAmount] : [SOL, native.amount];
    assert.deepEqual(leg(swap.nativeInput, swap.tokenInputs), input);
    assert.deepEqual(leg(swap.nativeOutput, swap.tokenOutputs), output);
  }
});

test('similar to a swap, but not one', () => {
  const out = gain(mintA, -1_500_000n, ownA);
  const cases: readonly (readonly [string, readonly BuiltCall[], readonly BuiltToken[]])[] = [
    [
      'a deposit for shares',
      [{ ...bot, inner: [exchange[0]!, tokenMint(mintB, ownB, pool, 20n)] }],
      [out, gain(mintB, 20n)],
    ],
    [
      'a withdrawal',
      [{ ...bot, inner: [tokenBurn(ownA, mintA, payer, 1_500_000n), exchange[1]!] }],
      [out, gain(mintB, 20n)],
    ],
    ['a payment', [{ ...bot, inner: [exchange[0]!] }], [out]],
    ['two tokens for one', [{ ...bot, inner: exchange }], [out, gain(mintB, 20n), gain(addressFor('c'), -3n, vaultA)]],
    [
      'a sale of a single token',
      [{ ...bot, inner: [exchange[0]!, tokenTransfer(vaultB, ownB, pool, 1n)] }],
      [out, { ...gain(mintB, 1n), decimals: 0 }],
    ],
    [
      'repaid debt and returned collateral',
      [{ ...bot, program: 'KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD', inner: exchange }],
      swapped,
    ],
  ];
  for (const [what, calls, tokens] of cases) assert.equal(read(calls, { tokens }).type, 'UNKNOWN', what);
});

test('all versions of the aggregator are swaps, also when a pool mints shares of its fee', () => {
  const shares = tokenMint(addressFor('shares'), addressFor('fee'), pool, 5n);
  for (const program of [
    'JUP6i4ozu5ydDCnLiMogSckDPpbtr7BJ4FtzYWkb5Rk',
    'JUP2jxvXaqu7NQY1GmNF4m1vodw12LVXYxbFL2uJvfo',
    'JUP3c2Uh3WA4Ng34tw6kPd2G4C5BB21Xo36Je1s32Ph',
    'JUP4Fb2cqiRUcaTHdrPC8h2gNsA2ETXiPDD33WcGuJB',
    'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4',
  ]) {
    const call = { ...bot, program, data: hex('e517cb977ae3ad2a'), inner: [...exchange, shares] };
    const made = read([call], { tokens: swapped });
    assert.deepEqual([made.type, made.source], ['SWAP', 'JUPITER'], program);
    assert.equal(made.description, `${payer} swapped 1.5 ${mintA} for 2 ${mintB}`);
    assert.ok('swap' in (made['events'] as object));
  }
});

interface SwapEvent {
  readonly swap: {
    readonly nativeInput: { readonly amount: string } | null;
    readonly tokenFees: readonly { readonly rawTokenAmount: { readonly tokenAmount: string } }[];
    readonly tokenOutputs: readonly { readonly mint: string }[];
    readonly innerSwaps: readonly {
      readonly programInfo: { readonly account: string; readonly instructionName: string };
      readonly tokenInputs: readonly { readonly tokenAmount: number }[];
      readonly tokenOutputs: readonly { readonly tokenAmount: number }[];
      readonly tokenFees: readonly { readonly tokenAmount: number }[];
    }[];
  };
}

test('a route of an older version of the aggregator is a swap on each market that it calls', () => {
  const [whirlpools, raydium, dex] = TRADING_PROGRAMS.slice(0, 3) as [string, string, string];
  const [mintX, own, ledger, vaultX, feeB] = ['x', 'shared', 'ledger', 'vault x', 'fee b'].map(addressFor) as [
    string,
    string,
    string,
    string,
    string,
  ];
  const [sharedA, sharedX, sharedB, poolX] = ['sa', 'sx', 'sb', 'px'].map(addressFor) as [
    string,
    string,
    string,
    string,
  ];
  const market = (program: string): BuiltCall => ({ program, accounts: [pool], data: Buffer.from([1]) });
  const token = (account: string, owner: string, mint: string, change: bigint): BuiltToken => ({
    account,
    owner,
    mint,
    change,
    decimals: 0,
  });
  const tokens = [
    token(ownA, payer, mintA, -100n),
    token(vaultA, pool, mintA, 100n),
    token(sharedA, own, mintA, 0n),
    token(vaultX, pool, mintX, -50n),
    token(sharedX, own, mintX, 0n),
    token(poolX, pool, mintX, 50n),
    token(vaultB, pool, mintB, -20n),
    token(sharedB, own, mintB, 0n),
    token(ownB, payer, mintB, 19n),
    token(feeB, ledger, mintB, 1n),
  ];
  const shared = [
    tokenTransfer(ownA, sharedA, payer, 100n),
    market(whirlpools),
    tokenTransfer(sharedA, vaultA, own, 100n),
    tokenTransfer(vaultX, sharedX, pool, 50n),
    // A market that calls the exchange behind it.
    market(raydium),
    market(dex),
    tokenTransfer(sharedX, poolX, own, 50n),
    tokenTransfer(vaultB, sharedB, pool, 20n),
    tokenTransfer(sharedB, ownB, own, 20n),
    tokenTransfer(ownB, feeB, payer, 1n),
  ];
  const program = 'JUP4Fb2cqiRUcaTHdrPC8h2gNsA2ETXiPDD33WcGuJB';
  const made = read([{ program, data: named('shared_accounts_route'), inner: shared }], { tokens });
  assert.deepEqual([made.type, made.description], ['SWAP', `${payer} swapped 100 ${mintA} for 20 ${mintB}`]);
  const { swap } = made['events'] as SwapEvent;
  const amounts = (rows: readonly { readonly tokenAmount: number }[]) => rows.map(({ tokenAmount }) => tokenAmount);
  assert.deepEqual(
    swap.innerSwaps.map(({ programInfo: info, ...one }) => [
      info.account,
      info.instructionName,
      amounts(one.tokenInputs),
      amounts(one.tokenOutputs),
      amounts(one.tokenFees),
    ]),
    [
      [whirlpools, 'sharedAccountsRoute', [100], [50], []],
      [dex, 'sharedAccountsRoute', [50], [20], [1]],
    ],
  );
  assert.deepEqual(
    swap.tokenFees.map(({ rawTokenAmount }) => rawTokenAmount.tokenAmount),
    ['1'],
  );
});

test('an older version that stakes lamports for tokens swaps', () => {
  const inner = [
    { program: MARINADE, accounts: [payer, pool], data: named('deposit') },
    solTransfer(payer, pool, 1_000n),
    tokenMint(mintB, ownB, pool, 20n),
  ];
  const call = { program: 'JUP2jxvXaqu7NQY1GmNF4m1vodw12LVXYxbFL2uJvfo', data: named('marinade_deposit'), inner };
  const made = read([call], { tokens: [swapped[3]!], lamports: { [payer]: -1_000, [pool]: 1_000 } });
  assert.deepEqual([made.type, made.source], ['SWAP', 'JUPITER']);
  const { swap } = made['events'] as SwapEvent;
  assert.equal(swap.nativeInput?.amount, '1000');
  assert.deepEqual(
    swap.tokenOutputs.map(({ mint }) => mint),
    [mintB],
  );
  // The account of tokens that the aggregator remembers, and what it checks and takes, are no swaps.
  for (const name of ['set_token_ledger', 'risk_check_and_fee'])
    assert.equal(read([{ ...call, data: named(name) }], { tokens: [swapped[3]!] }).type, 'UNKNOWN', name);
});

test('an unknown program: no type, and all its movements', () => {
  const inner = [...exchange, solTransfer(payer, pool, 9n)];
  const lamports = { [payer]: -9, [pool]: 9 };
  const call = { program: addressFor('some program'), accounts: [payer, ownA], data: Buffer.from([1, 2, 3]), inner };
  // Another account trades: the payer only gives SOL.
  const others = swapped.map((one) => ({ ...one, owner: one.owner === payer ? addressFor('user') : one.owner }));
  const made = read([call], { tokens: others, lamports });
  assert.deepEqual([made.type, made.source, made.description, made['events']], ['UNKNOWN', 'UNKNOWN', '', {}]);
  assert.deepEqual(made['nativeTransfers'], [{ amount: 9, fromUserAccount: payer, toUserAccount: pool }]);
  const rows = made['tokenTransfers'] as { mint: string; tokenAmount: number; fromUserAccount: string }[];
  assert.deepEqual(
    rows.map(({ mint, tokenAmount, fromUserAccount }) => [mint, tokenAmount, fromUserAccount]),
    [
      [mintA, 1.5, addressFor('user')],
      [mintB, 2, pool],
    ],
  );
  const data = made['accountData'] as {
    account: string;
    nativeBalanceChange: number;
    tokenBalanceChanges: unknown[];
  }[];
  assert.equal(
    data.reduce((sum, { nativeBalanceChange }) => sum + nativeBalanceChange, 0),
    -Number(made['fee']),
  );
  assert.equal(data.flatMap(({ tokenBalanceChanges }) => tokenBalanceChanges).length, 4);
});
