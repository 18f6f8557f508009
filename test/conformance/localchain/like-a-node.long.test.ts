import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  NONCE_ACCOUNT_LENGTH,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionInstruction,
} from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { BAD_BODIES } from './bad-calls.ts';
import { call, post, refusals } from './refused-calls.ts';

const validator =
  process.env['PARHELION_VALIDATOR'] ?? join(findProjectRoot(), '../shared/tools/solana-test-validator');
/** Ports of the node: HTTP, websockets, faucet, gossip, and a separate range. */
const PORT = 18_160;
const UP_MS = 180_000;
const PACE_MS = 200;

interface Shown {
  readonly lamports: number;
  readonly owner: string;
  /** Bytes as text and their encoding, or what they mean. */
  readonly data: readonly [string, string] & {
    readonly program: string;
    readonly parsed: { readonly type: string; readonly info: unknown };
  };
}

/** Names and kinds of everything in an answer: numbers, texts and lists of two chains differ, their form does not. */
function form(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value === null ? null : typeof value;
  if (Array.isArray(value)) return value.length === 0 ? [] : [form(value[0])];
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, member]): [string, unknown] => [key.length > 31 ? 'address' : key, form(member)])
      .sort(([left], [right]) => (left < right ? -1 : 1)),
  );
}

const missing = await chainMissing();
const noNode = existsSync(validator)
  ? null
  : `no solana-test-validator at ${validator} (PARHELION_VALIDATOR names another place)`;
if (noNode !== null) console.error(`SKIPPED: the comparison of the local chain with a node: ${noNode}`);

suite('a local chain beside a node', { skip: missing ?? noNode ?? false }, () => {
  const chains: { name: string; url: string }[] = [];
  const stops: (() => Promise<void>)[] = [];
  const payer = Keypair.generate();
  let setAccount: TestChain['setAccount'];

  before(async () => {
    const [node, local] = await Promise.all([
      startNode(),
      startChain({ slotMs: 400, firstSlot: 1, time: { kind: 'wall' } }),
    ]);
    stops.push(node.stop, () => local.stop());
    setAccount = local.setAccount;
    chains.push({ name: 'node', url: node.url }, { name: 'local', url: local.rpcUrl });
    for (const { url } of chains) {
      const { result } = await call(url, 'requestAirdrop', [payer.publicKey.toBase58(), 10 * LAMPORTS_PER_SOL]);
      await until(async () => {
        const { value } = (await call(url, 'getSignatureStatuses', [[result]])).result as {
          value: ({ confirmationStatus: string } | null)[];
        };
        return ['confirmed', 'finalized'].includes(value[0]?.confirmationStatus ?? '');
      });
    }
  });
  after(async () => {
    for (const stop of stops) await stop();
  });

  /** The same on both; answers in the order node, local. */
  async function both<T>(run: (url: string) => Promise<T>): Promise<[T, T]> {
    return [await run(chains[0]!.url), await run(chains[1]!.url)];
  }

  async function signed(url: string, ...instructions: TransactionInstruction[]): Promise<string> {
    const { result } = await call(url, 'getLatestBlockhash', [{ commitment: 'confirmed' }]);
    const { blockhash } = (result as { value: { blockhash: string } }).value;
    const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add(...instructions);
    transaction.sign(payer);
    return transaction.serialize().toString('base64');
  }

  test('the same calls are refused in the same words', async () => {
    const [node, local] = await both(refusals);
    assert.deepEqual(local, node);
    const bodies = await both((url) => Promise.all(BAD_BODIES.map(([body]) => post(url, body))));
    assert.deepEqual(bodies[1], bodies[0]);
  });

  test('answers have the same form', async () => {
    const calls: [string, unknown[]?][] = [
      ['getBlockCommitment', [5]],
      ['getBlockProduction'],
      ['getEpochInfo'],
      ['getEpochSchedule'],
      ['getInflationGovernor'],
      ['getInflationRate'],
      ['getLargestAccounts'],
      ['getLeaderSchedule'],
      ['getLatestBlockhash'],
      ['getMaxRetransmitSlot'],
      ['getMaxShredInsertSlot'],
      ['getRecentPrioritizationFees'],
      ['getSlotLeader'],
      ['getSlotLeaders', [5, 2]],
      ['getStakeMinimumDelegation'],
      ['getAgGenesisCert'],
      ...[
        'C1ock11111111111111111111111111111111',
        'Rent111111111111111111111111111111111',
        'EpochSchedu1e111111111111111111111111',
      ].map((tail): [string, unknown[]] => ['getAccountInfo', [`Sysvar${tail}`, { encoding: 'jsonParsed' }]]),
      ['getAccountInfo', ['TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA', { encoding: 'jsonParsed' }]],
      ['getMultipleAccounts', [[payer.publicKey.toBase58()], { commitment: 'confirmed' }]],
    ];
    for (const [method, params] of calls) {
      const [node, local] = await both(async (url) => form((await call(url, method, params)).result));
      assert.deepEqual(local, node, method);
    }
    // A young node on a busy machine may count itself as delinquent.
    const [node, local] = await both(async (url) => {
      const { current, delinquent } = (await call(url, 'getVoteAccounts')).result as Record<string, object[]>;
      return Object.keys([...current!, ...delinquent!][0]!).toSorted();
    });
    assert.deepEqual(local, node);
  });

  test('trial runs and refusals of transactions are the same, numbers included', async () => {
    const target = Keypair.generate().publicKey;
    const nobody = Keypair.generate().publicKey;
    const pay = (lamports: number) =>
      SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: target, lamports });
    const unknown = new TransactionInstruction({ programId: nobody, keys: [], data: Buffer.from([1]) });
    const payerAsProgram = new TransactionInstruction({ programId: payer.publicKey, keys: [], data: Buffer.alloc(0) });
    const cases: [string, TransactionInstruction[], object][] = [
      ['a payment', [pay(LAMPORTS_PER_SOL)], {}],
      [
        'with inner instructions and accounts',
        [pay(LAMPORTS_PER_SOL)],
        { innerInstructions: true, accounts: { addresses: [target] } },
      ],
      ['too many accounts', [pay(1)], { accounts: { addresses: Array(9).fill(target) } }],
      ['base58', [pay(1)], { accounts: { addresses: [target], encoding: 'base58' } }],
      ['more than there is', [pay(900 * LAMPORTS_PER_SOL)], {}],
      ['less than rent', [pay(10)], {}],
      ['no such program', [unknown], {}],
      ['the payer as a program', [payerAsProgram], {}],
      ['two contradicting checks', [pay(1)], { sigVerify: true, replaceRecentBlockhash: true }],
    ];
    for (const [title, instructions, config] of cases) {
      const [node, local] = await both(async (url) => {
        const wire = await signed(url, ...instructions);
        const options = { encoding: 'base64', commitment: 'confirmed', ...config };
        const { result, error } = await call(url, 'simulateTransaction', [wire, options]);
        const sent = error === undefined && (result as { value: { err: unknown } }).value.err !== null;
        const send = { encoding: 'base64', preflightCommitment: 'confirmed' };
        return [
          error ?? (result as { value: unknown }).value,
          sent ? (await call(url, 'sendTransaction', [wire, send])).error : null,
        ];
      });
      assert.deepEqual(local, node, title);
    }
  });

  test('without preflight the answer is the signature, and minContextSlot is judged at the commitment', async () => {
    const [node, local] = await both(async (url) => {
      const wire = await signed(
        url,
        SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: payer.publicKey, lamports: 1 }),
      );
      const skip = { encoding: 'base64', skipPreflight: true, maxRetries: 0 };
      const first = (await call(url, 'sendTransaction', [wire, skip])).result;
      const again = (await call(url, 'sendTransaction', [wire, skip])).result;
      const bad = Buffer.from(wire, 'base64');
      bad[5]! ^= 1;
      const forged = await call(url, 'sendTransaction', [bad.toString('base64'), skip]);
      const slots: string[] = [];
      for (const commitment of ['processed', 'confirmed']) {
        const { context } = (await call(url, 'getLatestBlockhash', [{ commitment }])).result as {
          context: { slot: number };
        };
        const other = await signed(
          url,
          SystemProgram.transfer({
            fromPubkey: payer.publicKey,
            toPubkey: payer.publicKey,
            lamports: 2 + slots.length,
          }),
        );
        const options = { encoding: 'base64', preflightCommitment: commitment, minContextSlot: context.slot };
        slots.push(typeof (await call(url, 'sendTransaction', [other, options])).result);
      }
      return [typeof first, first === again, typeof forged.result, slots];
    });
    assert.deepEqual(local, node);
    assert.deepEqual(local, ['string', true, 'string', ['string', 'string']]);
  });

  test('a transaction reads the same from its block and by its signature', async () => {
    const target = Keypair.generate().publicKey;
    const [node, local] = await both(async (url) => {
      const wire = await signed(
        url,
        SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: target, lamports: 5_000_000 }),
      );
      const { result: signature } = await call(url, 'sendTransaction', [
        wire,
        { encoding: 'base64', preflightCommitment: 'confirmed' },
      ]);
      let landed: Record<string, unknown> | null = null;
      await until(async () => {
        const options = { commitment: 'confirmed', maxSupportedTransactionVersion: 0, encoding: 'jsonParsed' };
        landed = (await call(url, 'getTransaction', [signature, options])).result as Record<string, unknown> | null;
        return landed !== null;
      });
      const { meta, version, transaction } = landed! as {
        meta: Record<string, unknown>;
        version: unknown;
        transaction: object;
      };
      const { preBalances: _, postBalances: __, ...rest } = meta;
      return { rest, version, transaction: form(transaction), whole: form(landed) };
    });
    assert.deepEqual(local, node);
  });

  test('vote, nonce and config accounts of the node read the same on both', async () => {
    const [node, local] = [chains[0]!, chains[1]!];
    const nonce = Keypair.generate();
    const config = Keypair.generate();
    const authority = payer.publicKey;
    const CONFIG_PROGRAM = new PublicKey('Config1111111111111111111111111111111111111');
    const text = JSON.stringify({ name: 'A validator', website: 'https://example.org' });
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    // Two keys, of which the second has signed, and the text as the program of the validators writes it.
    const keys = [
      2,
      ...new PublicKey('Va1idator1nfo111111111111111111111111111111').toBytes(),
      0,
      ...authority.toBytes(),
      1,
    ];
    const stored = Buffer.concat([Buffer.from(keys), length, Buffer.from(text)]);
    const create = (key: Keypair, space: number, programId: PublicKey) =>
      SystemProgram.createAccount({
        fromPubkey: authority,
        newAccountPubkey: key.publicKey,
        lamports: LAMPORTS_PER_SOL / 10,
        space,
        programId,
      });
    const instructions = [
      create(nonce, NONCE_ACCOUNT_LENGTH, SystemProgram.programId),
      SystemProgram.nonceInitialize({ noncePubkey: nonce.publicKey, authorizedPubkey: authority }),
      create(config, stored.length, CONFIG_PROGRAM),
      new TransactionInstruction({
        programId: CONFIG_PROGRAM,
        keys: [
          { pubkey: config.publicKey, isSigner: true, isWritable: true },
          { pubkey: authority, isSigner: true, isWritable: false },
        ],
        data: stored,
      }),
    ];
    const { result } = await call(node.url, 'getLatestBlockhash', [{ commitment: 'confirmed' }]);
    const { blockhash } = (result as { value: { blockhash: string } }).value;
    const transaction = new Transaction({ feePayer: authority, recentBlockhash: blockhash }).add(...instructions);
    transaction.sign(payer, nonce, config);
    const wire = transaction.serialize().toString('base64');
    const options = { encoding: 'base64', preflightCommitment: 'confirmed' };
    const sent = await call(node.url, 'sendTransaction', [wire, options]);
    assert.equal(sent.error, undefined, JSON.stringify(sent.error));
    const read = async (url: string, key: string, encoding: string) => {
      const config = { encoding, commitment: 'confirmed' };
      const { value } = (await call(url, 'getAccountInfo', [key, config])).result as { value: Shown | null };
      return value;
    };
    await until(async () => (await read(node.url, config.publicKey.toBase58(), 'base64')) !== null);

    const votes = (await call(node.url, 'getVoteAccounts')).result as Record<string, { votePubkey: string }[]>;
    const [vote] = [...votes['current']!, ...votes['delinquent']!];
    for (const [key, program, type] of [
      [vote!.votePubkey, 'vote', 'vote'],
      [nonce.publicKey.toBase58(), 'nonce', 'initialized'],
      [config.publicKey.toBase58(), 'config', 'validatorInfo'],
    ] as const) {
      // The vote account moves on: read until nothing came between the two.
      let bytes = await read(node.url, key, 'base64');
      let shown = await read(node.url, key, 'jsonParsed');
      for (let again = await read(node.url, key, 'base64'); bytes!.data[0] !== again!.data[0]; ) {
        bytes = again;
        shown = await read(node.url, key, 'jsonParsed');
        again = await read(node.url, key, 'base64');
      }
      assert.deepEqual([shown!.data.program, shown!.data.parsed.type], [program, type]);
      const { lamports, owner, data } = bytes!;
      await setAccount(key, { lamports, owner, data: Buffer.from(data[0], 'base64') });
      const { data: own } = (await read(local.url, key, 'jsonParsed'))!;
      assert.deepEqual(own, shown!.data, program);
    }
  });
});

async function startNode(): Promise<{ url: string; stop: () => Promise<void> }> {
  const ledger = mkdtempSync(join(tmpdir(), 'parhelion-node-'));
  const url = `http://127.0.0.1:${PORT}`;
  const child = spawn(
    validator,
    [
      '--reset',
      '--quiet',
      '--ledger',
      ledger,
      '--bind-address',
      '127.0.0.1',
      '--rpc-port',
      `${PORT}`,
      '--faucet-port',
      `${PORT + 2}`,
      '--gossip-port',
      `${PORT + 3}`,
      '--dynamic-port-range',
      `${PORT + 4}-${PORT + 36}`,
      '--limit-ledger-size',
      '50000000',
    ],
    { stdio: 'ignore' },
  );
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = async () => {
    child.kill('SIGKILL');
    await gone;
    rmSync(ledger, { recursive: true, force: true });
  };
  try {
    await until(async () => ((await call(url, 'getBlockHeight', [{ commitment: 'confirmed' }])).result as number) > 6);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, stop };
}

/** Asks until it is so; what cannot be asked yet is not so yet. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + UP_MS; Date.now() < end; await sleep(PACE_MS)) {
    if (await holds().catch(() => false)) return;
  }
  throw new Error('it did not come to that');
}
