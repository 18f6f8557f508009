/**
 * One answer whatever its source: a real node, daemons in front of it (without a ledger, with one, and with an archive where chdb is
 * installed), and the local chain after the same transactions are asked the same calls at the same moment, with members at random. Then all of
 * them notify of the same transactions.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Connection, PublicKey, SystemProgram, Transaction, TransactionInstruction } from '@solana/web3.js';
import bs58 from 'bs58';
import { decompress } from 'fzstd';
import WebSocket from 'ws';
import { isPlainObject } from '../../../src/lib/json.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  MEMO_V3_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  VOTE_PROGRAM,
} from '../../../src/solana/programs.ts';
import { type AgaveNode, agaveMissing, namedNode, startAgave } from '../../helpers/agave.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { CHDB_DIR, chdbMissing } from '../../helpers/clickhouse.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type CallFacts, createCalls, type StandardCall, shownBody } from '../../helpers/standard-calls.ts';
import { signVersion1, USUAL_CONFIG } from '../../helpers/version-1.ts';
import { plainRecord } from '../localchain/plain-record.ts';
import { runScript, type ScriptRun, wallet } from '../localchain/same-script.ts';
import { eventually } from './harness.ts';

const CALLS = Number(process.env['PARHELION_STANDARD_CALLS'] ?? 300);
const SEED = Number(process.env['PARHELION_SEED'] ?? 20_261_129);
const LAMPORTS = 100_000_000_000;
/** A block may come between two answers: then the same is asked again. */
const ATTEMPTS = 8;
const STATUS_PACE_MS = 1_000;
const STATUS_ATTEMPTS = 60;
const OPEN_PACE_MS = 20;
const OPEN_ATTEMPTS = 100;
/** What the faucet of the local chain writes, so that each of its payments is another transaction. */
const FAUCET_MEMO = /"memo":"\[\d+\] faucet \d+"/g;
/** What a page of loaded data costs. */
const PAGE_UNITS = 8;
const PAYMENTS = Number(process.env['PARHELION_STANDARD_PAYMENTS'] ?? 6);
const RECEIVED = 'receivedSignature';
const COMMITMENTS = ['processed', 'confirmed', 'finalized'];
/** What a daemon with a ledger or an archive answers itself. */
const KEPT_METHODS = ['getBlock', 'getBlockTime', 'getBlocks', 'getSignaturesForAddress', 'getTransaction'];
const ARCHIVED = 'with an archive';
/** Some seconds: what is final leaves the ledger, and only the archive has it. */
const ARCHIVED_HOURS = 0.002;

const { release, alpenglow } = namedNode() ?? { release: '4.4' as const, alpenglow: true };

interface Sourced {
  readonly text: string;
  /** LEDGER: from the ledger or its archive; HIT: from the cache; null: from the node. */
  readonly source: string | null;
}

async function sourced(url: string, method: string, params: readonly unknown[]): Promise<Sourced> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  return { text: await response.text(), source: response.headers.get('x-cache') };
}

const textOf = async (url: string, method: string, params: readonly unknown[]): Promise<string> =>
  (await sourced(url, method, params)).text;

async function ask<T>(url: string, method: string, params: readonly unknown[]): Promise<T> {
  return (JSON.parse(await textOf(url, method, params)) as { readonly result: T }).result;
}

/** Whether the daemon answers for a block itself. */
async function isKept(url: string, slot: number): Promise<boolean> {
  const params = [slot, { maxSupportedTransactionVersion: 1, rewards: false }];
  return (await sourced(url, 'getBlock', params)).source === 'LEDGER';
}

type Statuses = { readonly value: readonly unknown[] } | undefined;

interface Side {
  readonly url: string;
  readonly run: ScriptRun;
  readonly facts: CallFacts;
}

/** The script, and a transfer of version 1; resolves when all of it is final. */
async function work(connection: Connection): Promise<ScriptRun> {
  const run = await runScript(connection);
  const url = connection.rpcEndpoint;
  const payer = wallet('payer');
  const pay = SystemProgram.transfer({
    fromPubkey: payer.publicKey,
    toPubkey: wallet('friend').publicKey,
    lamports: 7_000_000,
  });
  const { blockhash } = await connection.getLatestBlockhash();
  const { wire, signature } = await signVersion1(payer, blockhash, [pay]);
  await ask(url, 'sendTransaction', [wire.toString('base64'), { encoding: 'base64', skipPreflight: true }]);
  return { ...run, sent: [...run.sent, { name: 'version 1', signature }] };
}

async function factsOf(url: string, run: ScriptRun): Promise<CallFacts> {
  const options = { encoding: 'base64', commitment: 'finalized', maxSupportedTransactionVersion: 1 };
  const slots: number[] = [];
  for (const { signature, name } of run.sent)
    await eventually(async () => {
      const shown = await ask<{ readonly slot: number } | null>(url, 'getTransaction', [signature, options]);
      if (shown === null) return `${name} is not final`;
      slots.push(shown.slot);
      return null;
    });
  return {
    slots,
    otherSlots: [],
    signatures: run.sent.map(({ signature }) => signature),
    addresses: run.accounts.map(String),
  };
}

suite(`one answer: Agave ${release}, daemons and the local chain`, {
  skip: (await chainMissing()) ?? agaveMissing(release) ?? false,
}, () => {
  let node: AgaveNode;
  let chain: TestChain;
  const daemons: { readonly name: string; readonly daemon: DaemonInProcess; readonly url: string }[] = [];
  const sides: Side[] = [];
  const folders: string[] = [];

  before(async () => {
    node = await startAgave({ release, alpenglow, slotMs: 200 });
    const archive = chdbMissing() === null ? mkdtempSync(join(tmpdir(), 'parhelion-chdb-')) : null;
    if (archive !== null) folders.push(archive);
    for (const [name, ledger] of [
      ['without a ledger', { retain: { hours: 0 } }],
      ['with a ledger', { retain: { hours: 24 } }],
      ...(archive === null
        ? []
        : [[ARCHIVED, { retain: { hours: ARCHIVED_HOURS }, archive: `chdb:${archive}` }] as const]),
    ] as const) {
      const daemon = await startDaemon({
        chain: node,
        config: { plugins: ['access', 'proxy', 'wallet', 'history'], ledger },
        // The package is looked for from the configuration up.
        ...(archive === null ? {} : { folder: join(CHDB_DIR, 'node_modules') }),
      });
      daemons.push({ name, daemon, url: `${daemon.apiUrl}/?api-key=${daemon.key}` });
    }
    await eventually(() =>
      daemons.every(({ daemon }) => daemon.daemon.load().chains[0]?.cursorSlot != null)
        ? null
        : 'the daemons do not follow',
    );
    chain = await startChain({
      release,
      consensus: alpenglow ? 'alpenglow' : 'towerbft',
      slotMs: 200,
      firstSlot: 1,
      time: { kind: 'wall' },
    });
    await node.fund([wallet('payer').publicKey], LAMPORTS);
    await chain.fund(wallet('payer').publicKey.toBase58(), LAMPORTS);
    for (const { rpcUrl, wsUrl } of [node, chain]) {
      const run = await work(new Connection(rpcUrl, { commitment: 'confirmed', wsEndpoint: wsUrl }));
      sides.push({ url: rpcUrl, run, facts: await factsOf(rpcUrl, run) });
    }
    const newest = sides[0]!.facts.slots.at(-1)!;
    await eventually(async () => {
      if (await isKept(daemons[1]!.url, newest)) return null;
      const state = await (await fetch(`${daemons[1]!.daemon.adminUrl}/readyz`)).text();
      return `block ${newest} is not in the ledger: ${state}`;
    });
    const archived = daemons.find(({ name }) => name === ARCHIVED);
    if (archived === undefined) return;
    await eventually(async () => {
      const text = await (await fetch(`${archived.daemon.adminUrl}/metrics`)).text();
      const oldest = Number(/^parhelion_ledger_oldest_slot(?:\{[^}]*\})? (\S+)$/m.exec(text)?.[1]);
      return oldest > newest ? null : `the ledger of the archived chain begins at ${oldest}, before ${newest}`;
    });
  });
  after(async () => {
    for (const { daemon } of daemons) await daemon.stop();
    await chain?.stop();
    await node?.stop();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  test('the same transactions leave the same records and accounts on the local chain', async (t) => {
    const [theirs, ours] = sides as [Side, Side];
    for (const [at, { name }] of theirs.run.sent.entries())
      await t.test(name, async () => {
        const [expected, found] = await Promise.all(
          [theirs, ours].map(async ({ url, run }) => builtAlike(await plainRecord(url, run, run.sent[at]!, new Set()))),
        );
        assert.deepEqual(found, expected);
      });
    const [expected, found] = await Promise.all(
      [theirs, ours].map(({ url, facts }) =>
        ask<{ value: unknown }>(url, 'getMultipleAccounts', [
          facts.addresses,
          { encoding: 'base64', commitment: 'confirmed' },
        ]),
      ),
    );
    assert.deepEqual(found!.value, expected!.value);
  });

  test(`${CALLS} calls: the local chain answers in the form of the node, and refuses in its words`, async () => {
    const [theirs, ours] = sides as [Side, Side];
    const different: string[] = [];
    for (let number = 0; number < CALLS; number += 1) {
      // The same choices over the facts of each chain.
      const [asked, askedOurs] = [theirs, ours].map(({ facts }) => {
        const calls = createCalls(createSfc32(SEED + number), facts);
        return number % 4 === 3 ? calls.state() : calls.past();
      }) as [StandardCall, StandardCall];
      for (let attempt = 1; ; attempt += 1) {
        const [wanted, given] = [await textOf(theirs.url, ...asked), await textOf(ours.url, ...askedOurs)];
        if (isDeepStrictEqual(formOf(given), formOf(wanted))) break;
        // Each forgets a status after so many of its own blocks.
        if (asked[0] === 'getSignatureStatuses' && attempt < STATUS_ATTEMPTS) {
          await sleep(STATUS_PACE_MS);
          continue;
        }
        different.push(
          `seed ${SEED + number}: ${JSON.stringify(asked)}: ${JSON.stringify(formOf(wanted))}; local: ${JSON.stringify(formOf(given))}`,
        );
        break;
      }
    }
    assert.deepEqual(different, []);
  });
  test(`${CALLS} calls: the daemon answers what the node answers, byte for byte`, async (t) => {
    const random = createSfc32(SEED);
    const { facts } = sides[0]!;
    const calls = createCalls(random, { ...facts, otherSlots: [0, 1, facts.slots.at(-1)! + 1] });
    const methods = new Map<string, number>();
    /** Of each daemon, where the answers about the past came from. */
    const sources: (string | null)[][] = daemons.map(() => []);
    let refused = 0;
    for (let number = 0; number < CALLS; number += 1) {
      const asked = number % 4 === 3 ? calls.state() : calls.past();
      const [method, params] = asked;
      methods.set(method, (methods.get(method) ?? 0) + 1);
      const named = `seed ${SEED}, call ${number}: ${method} ${JSON.stringify(params)}`;
      for (let attempt = 1; ; attempt += 1) {
        const answers = await Promise.all([
          sourced(node.rpcUrl, method, params),
          ...daemons.map(({ url }) => sourced(url, method, params)),
        ]);
        const [wanted, ...given] = answers.map(({ text }) => shownBody(text)) as [string, string, string];
        if (wanted.startsWith('"error"')) refused += attempt === 1 ? 1 : 0;
        if (given.every((body) => body === wanted)) {
          if (KEPT_METHODS.includes(method) && wanted.startsWith('"result"'))
            for (const [at, { source }] of answers.slice(1).entries()) sources[at]!.push(source);
          break;
        }
        if (attempt < ATTEMPTS) continue;
        // A node forgets a status some blocks before the daemons do: then they are asked until they have too.
        if (method === 'getSignatureStatuses' && attempt < STATUS_ATTEMPTS) {
          await sleep(STATUS_PACE_MS);
          continue;
        }
        // A range without an end grows with each block, and the ledger has a block some milliseconds after the node.
        if (method === 'getBlocks' && typeof params[1] !== 'number' && attempt < OPEN_ATTEMPTS) {
          await sleep(OPEN_PACE_MS);
          continue;
        }
        for (const [at, { name }] of daemons.entries()) assert.equal(given[at], wanted, `${named}, ${name}`);
      }
    }
    t.diagnostic(`${[...methods].map(([name, count]) => `${name} ${count}`).join(', ')}; ${refused} refused`);
    // Else the node would be compared with itself. The ledger of the archived chain begins above what is asked for.
    for (const [at, { name }] of daemons.entries()) {
      const kept = sources[at]!.filter((source) => source === 'LEDGER').length;
      t.diagnostic(`${name}: ${kept} of ${sources[at]!.length} answers about the past are its own`);
      if (at === 0) assert.equal(kept, 0);
      else assert.ok(kept > 0.8 * sources[at]!.length, `${name}: ${kept} of ${sources[at]!.length}`);
    }
    assert.ok(refused > CALLS / 50 && refused < CALLS / 2, `${refused} refused`);
  });

  test('without its history a node knows a status for some 300 blocks, and the daemons as long', async (t) => {
    // New ones: on a busy machine those of the script may be forgotten by now.
    const signatures: string[] = [];
    for (const name of ['one', 'two', 'three'])
      signatures.push(...(await node.fund([wallet(name).publicKey], LAMPORTS)));
    await eventually(async () => {
      const known = await Promise.all(
        daemons.map(({ url }) => ask<Statuses>(url, 'getSignatureStatuses', [signatures])),
      );
      return known.every((answer) => answer?.value.every((status) => status !== null)) ? null : 'they are not known';
    });
    const lists = Array.from({ length: Math.ceil(signatures.length / 8) }, (_, at) =>
      signatures.slice(8 * at, 8 * at + 8),
    );
    /** Null: it cannot be known now. */
    const knownBy = async (url: string): Promise<readonly boolean[] | null> => {
      const answers = await Promise.all(lists.map((list) => ask<Statuses>(url, 'getSignatureStatuses', [list])));
      const isKnown = answers.flatMap((answer) => answer?.value.map((status) => status !== null) ?? []);
      return isKnown.length === signatures.length ? isKnown : null;
    };
    let rounds = 0;
    let compared = 0;
    for (let before = await knownBy(node.rpcUrl); before!.includes(true); rounds += 1) {
      const given = await Promise.all(daemons.map(({ url }) => knownBy(url)));
      const now = await knownBy(node.rpcUrl);
      // What the node knew before and after, it knew in between.
      for (const [at, signature] of signatures.entries())
        for (const [number, { name }] of daemons.entries()) {
          const known = given[number]?.[at];
          if (known === undefined || !before![at] || !now![at]) continue;
          compared += 1;
          assert.ok(known, `${signature}, ${name}, round ${rounds}`);
        }
      before = now;
      await sleep(STATUS_PACE_MS);
    }
    t.diagnostic(`${rounds} rounds`);
    assert.ok(compared > signatures.length, `${compared} compared`);
    assert.ok(rounds > 1, `${rounds} rounds`);
  });

  test('notifications of the same transactions: the daemons pass on those of the node, and the local chain has its values', async (t) => {
    const [theirs, ours] = sides as [Side, Side];
    const asked = subscriptions();
    const socketOf = (url: string) => url.replace('http', 'ws');
    const urls = [node.wsUrl, chain.wsUrl, ...daemons.map(({ url }) => socketOf(url))];
    const listeners = await Promise.all(urls.map((url) => listen(url)));
    t.after(() => {
      for (const one of listeners) one.close();
    });
    for (const one of listeners) for (const call of asked) await one.subscribe(call);
    const [byNode, byChain, ...byDaemons] = listeners as [Listener, Listener, ...Listener[]];
    // Equal subscriptions are one for the node, which tells the first of them what an account was before. A busy machine shows it.
    const [nodeFrom, chainFrom] = (await Promise.all(
      [theirs, ours].map(({ url }) => ask<number>(url, 'getSlot', [{ commitment: 'processed' }])),
    )) as [number, number];
    const since = (one: Listener, at: number) =>
      one.results(at).filter(({ context }) => context.slot >= (one === byChain ? chainFrom : nodeFrom));
    const sent = await Promise.all([
      payAndListen(theirs.url, [byNode, ...byDaemons]),
      payAndListen(ours.url, [byChain]),
    ]);
    const final = asked.findIndex(
      ([name, , options]) => name === 'accountSubscribe' && options?.commitment === 'finalized',
    );
    const last = (one: Listener) => JSON.stringify(one.results(final).at(-1) ?? null);
    const friend = wallet('friend').publicKey;
    const balances = await Promise.all(
      [theirs, ours].map(({ url }) =>
        ask<{ value: number }>(url, 'getBalance', [String(friend), { commitment: 'confirmed' }]),
      ),
    );
    assert.equal(balances[0]!.value, balances[1]!.value);
    await eventually(() =>
      listeners.every((one) => last(one).includes(`"lamports":${balances[0]!.value},`))
        ? null
        : `not final: ${last(byNode)}`,
    );
    /** What still differs; null: nothing. On a busy machine what is passed on comes later. */
    const difference = (): string | null => {
      for (let at = 0; at < byNode.count(); at += 1) {
        const named = JSON.stringify(byNode.call(at));
        for (const [number, one] of byDaemons.entries())
          if (!isDeepStrictEqual(since(one, at), since(byNode, at)))
            return `${daemons[number]!.name}: ${named}: ${JSON.stringify([since(one, at), since(byNode, at)])}`;
        const [wanted, given] = valuesOf(at);
        if (wanted.length === 0 || !isDeepStrictEqual(given, wanted))
          return `local chain: ${named}: ${JSON.stringify([given, wanted])}`;
      }
      return null;
    };
    const valuesOf = (at: number): readonly [wanted: readonly string[], given: readonly string[]] => {
      const [wanted, given] = [byNode, byChain].map((one, side) => distinct(since(one, at), sent[side]!)) as [
        string[],
        string[],
      ];
      const { commitment } = byNode.call(at).at(-1) as { readonly commitment: string };
      // With Alpenglow a node leaves some out at `processed`.
      return [wanted, commitment === 'processed' ? given.filter((value) => wanted.includes(value)) : given];
    };
    await eventually(difference);
    const calls = Array.from({ length: byNode.count() }, (_, at) => at);
    const passed = calls.reduce((sum, at) => sum + byDaemons.length * since(byNode, at).length, 0);
    const compared = calls.reduce((sum, at) => sum + valuesOf(at)[1].length, 0);
    t.diagnostic(
      `${byNode.count()} subscriptions: ${passed} notifications passed on, ${compared} values of the local chain`,
    );
  });

  test('version 1: what leaves out a limit fails in a trial run, and lands, fails and pays, on the local chain as on the node', async () => {
    const payer = wallet('payer');
    const pay = SystemProgram.transfer({
      fromPubkey: payer.publicKey,
      toPubkey: wallet('friend').publicKey,
      lamports: 5_000_000,
    });
    const { computeUnitLimit: _, ...noUnits } = USUAL_CONFIG;
    const { loadedAccountsDataSizeLimit: __, ...noData } = USUAL_CONFIG;
    const littleData = { ...USUAL_CONFIG, loadedAccountsDataSizeLimit: 200 };
    const configs = {
      'both limits': USUAL_CONFIG,
      'no units': noUnits,
      'no data': noData,
      'little data': littleData,
      neither: {},
    };
    const outcomesOf = async (url: string) => {
      const outcomes: unknown[] = [];
      for (const [name, config] of Object.entries(configs)) {
        const { value } = await ask<{ value: { blockhash: string } }>(url, 'getLatestBlockhash', []);
        const { wire, signature } = await signVersion1(payer, value.blockhash, [pay], config);
        const options = { encoding: 'base64', commitment: 'confirmed' };
        const { value: trial } = await ask<{ value: Record<string, unknown> }>(url, 'simulateTransaction', [
          wire.toString('base64'),
          options,
        ]);
        const { error } = JSON.parse(await textOf(url, 'sendTransaction', [wire.toString('base64'), options])) as {
          error?: { code: number; message: string };
        };
        const blind = { encoding: 'base64', skipPreflight: true };
        await ask(url, 'sendTransaction', [wire.toString('base64'), blind]);
        const shown = { encoding: 'json', commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
        let meta: Record<string, unknown> | undefined;
        await eventually(async () => {
          const landed = await ask<{ meta: Record<string, unknown> } | null>(url, 'getTransaction', [signature, shown]);
          meta = landed?.meta;
          return landed === null ? `${name} did not land` : null;
        });
        const { err, logs, unitsConsumed, loadedAccountsDataSize } = trial;
        outcomes.push([name, { err, logs, unitsConsumed, loadedAccountsDataSize }]);
        outcomes.push([name, error?.code, error?.message]);
        const { err: failure, fee, computeUnitsConsumed, costUnits, logMessages } = meta!;
        outcomes.push([name, failure, fee, computeUnitsConsumed, costUnits, logMessages]);
      }
      return outcomes;
    };
    const [theirs, ours] = sides as [Side, Side];
    const expected = await outcomesOf(theirs.url);
    // Both limits: it does what it says. Without one: a fee for nothing.
    const errors = expected.filter((_one, at) => at % 3 === 2).map((outcome) => (outcome as [string, unknown])[1]);
    assert.deepEqual(
      errors.map((error) => error === null),
      [true, false, false, false, false],
    );
    assert.deepEqual(await outcomesOf(ours.url), expected);
    // In front of a node, the trial run is that of the node.
    for (const { url, name } of daemons) assert.deepEqual(await outcomesOf(url), expected, name);
  });

  test('costs and sizes of the same transactions are those of the node, on the local chain too', async () => {
    const [theirs, ours] = sides as [Side, Side];
    const payer = wallet('payer');
    /** What the transactions cost by the record, and what a trial run of one like them loads. */
    const costsOf = async ({ url, run }: Side) => {
      const costs = new Map<string, unknown>();
      for (const { name, signature } of run.sent) {
        const options = { encoding: 'json', commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
        const { meta } = await ask<{ meta: Record<string, number> }>(url, 'getTransaction', [signature, options]);
        const cost = meta['costUnits']! - meta['computeUnitsConsumed']!;
        // Another build is larger by some pages.
        costs.set(name, /memo|token-2022/.test(name) ? cost % PAGE_UNITS : cost);
      }
      const { value } = await ask<{ value: { blockhash: string } }>(url, 'getLatestBlockhash', []);
      for (const [name, instructions] of Object.entries(trials())) {
        const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: value.blockhash });
        transaction.add(...instructions).sign(payer);
        const wire = transaction.serialize().toString('base64');
        const options = { encoding: 'base64', commitment: 'confirmed' };
        const trial = await ask<{ value: Record<string, unknown> }>(url, 'simulateTransaction', [wire, options]);
        costs.set(`trial: ${name}`, [trial.value['err'], trial.value['loadedAccountsDataSize']]);
      }
      return costs;
    };
    const [expected, found] = [await costsOf(theirs), await costsOf(ours)];
    assert.deepEqual(found, expected);
  });
});

type Subscribe = readonly [
  method: string,
  subject: unknown,
  options: { readonly commitment: string; readonly [member: string]: unknown },
];

/** About the two wallets: every kind of subscription whose notifications are of transactions, by commitment, encoding and slice. */
function subscriptions(): readonly Subscribe[] {
  const [payer, friend] = [String(wallet('payer').publicKey), String(wallet('friend').publicKey)];
  const calls: Subscribe[] = [];
  for (const commitment of COMMITMENTS) {
    calls.push(['logsSubscribe', 'all', { commitment }]);
    for (const address of [friend, payer]) calls.push(['logsSubscribe', { mentions: [address] }, { commitment }]);
    for (const encoding of ['base58', 'base64', 'base64+zstd', 'jsonParsed'])
      for (const slice of [{}, { dataSlice: { offset: 0, length: 4 } }]) {
        const options: Subscribe[2] = { commitment, encoding, ...slice };
        for (const address of [friend, payer]) calls.push(['accountSubscribe', address, options]);
        calls.push(['programSubscribe', String(SystemProgram.programId), { ...options, filters: [{ dataSize: 0 }] }]);
      }
  }
  return calls;
}

interface Listener {
  subscribe(call: readonly unknown[]): Promise<void>;
  count(): number;
  call(at: number): readonly unknown[];
  /** Of the subscription with this number, in their order. */
  results(at: number): readonly Told[];
  close(): void;
}

interface Told {
  readonly context: { readonly slot: number };
  readonly value: unknown;
}

async function listen(url: string): Promise<Listener> {
  const socket = new WebSocket(url);
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const calls: (readonly unknown[])[] = [];
  const ids: number[] = [];
  const told = new Map<number, Told[]>();
  const waiting = new Map<number, (id: number) => void>();
  socket.on('message', (data) => {
    type Message = { id?: number; result?: number; error?: unknown; params?: { subscription: number; result: Told } };
    const { id, result, error, params } = JSON.parse(String(data)) as Message;
    assert.equal(error, undefined, JSON.stringify(error));
    if (params !== undefined) told.set(params.subscription, [...(told.get(params.subscription) ?? []), params.result]);
    else waiting.get(id as number)?.(result as number);
  });
  return {
    async subscribe([method, ...params]) {
      const number = calls.push([method, ...params]) - 1;
      socket.send(JSON.stringify({ jsonrpc: '2.0', id: number, method, params }));
      ids[number] = await new Promise<number>((resolve) => waiting.set(number, resolve));
    },
    count: () => calls.length,
    call: (at) => calls[at]!,
    results: (at) => told.get(ids[at]!) ?? [],
    close: () => socket.terminate(),
  };
}

/** Payments one by one, each heard of by its signature before the next; some fail. */
async function payAndListen(url: string, listeners: readonly Listener[]): Promise<readonly string[]> {
  const [payer, friend] = [wallet('payer'), wallet('friend')];
  const sent: string[] = [];
  for (let at = 0; at < PAYMENTS; at += 1) {
    const { value } = await ask<{ value: { blockhash: string } }>(url, 'getLatestBlockhash', []);
    const lamports = at % 3 === 2 ? 10 * LAMPORTS : 1_000_000 + at;
    const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: value.blockhash }).add(
      SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: friend.publicKey, lamports }),
    );
    transaction.sign(payer);
    const signature = bs58.encode(transaction.signature!);
    sent.push(signature);
    const from = listeners[0]!.count();
    for (const one of listeners)
      for (const commitment of COMMITMENTS)
        for (const enableReceivedNotification of [false, true])
          await one.subscribe(['signatureSubscribe', signature, { commitment, enableReceivedNotification }]);
    await ask(url, 'sendTransaction', [
      transaction.serialize().toString('base64'),
      { encoding: 'base64', skipPreflight: true },
    ]);
    await eventually(() =>
      listeners.every((one) =>
        Array.from({ length: one.count() - from }, (_, number) => one.results(from + number)).every((results) =>
          results.some(({ value: status }) => status !== RECEIVED),
        ),
      )
        ? null
        : `${url}: signature ${at} is not notified`,
    );
  }
  return sent;
}

/**
 * Each value once, without its slot: a node tells some twice, and the logs of each attempt to execute. Accounts that one transaction writes
 * come in any order, and with those of the leader. That a signature was received is what only a node that follows a leader tells.
 */
function distinct(results: readonly Told[], sent: readonly string[]): readonly string[] {
  const wallets = [wallet('payer'), wallet('friend')].map(({ publicKey }) => String(publicKey));
  const values = new Map<string, string>();
  for (const { value } of results) {
    const { pubkey, signature } = value as { readonly pubkey?: string; readonly signature?: string };
    if (value === RECEIVED || (pubkey !== undefined && !wallets.includes(pubkey))) continue;
    if (signature !== undefined && !sent.includes(signature)) continue;
    const text = JSON.stringify(value)
      .replace(/"signature":"([^"]*)"/, (_, one: string) => `"signature":${sent.indexOf(one)}`)
      // There are many frames of the same bytes.
      .replace(/"([^"]*)","base64\+zstd"/, (_, frame: string) => {
        const bytes = Buffer.from(decompress(Buffer.from(frame, 'base64')));
        return `${JSON.stringify(bytes.toString('base64'))},"base64+zstd"`;
      });
    values.set(text, pubkey ?? '');
  }
  return [...values].toSorted(([, one], [, other]) => (one < other ? -1 : Number(one > other))).map(([text]) => text);
}

/** Transactions of the payer that load accounts of several sizes. */
function trials(): Readonly<Record<string, TransactionInstruction[]>> {
  const [payer, friend] = [wallet('payer').publicKey, wallet('friend').publicKey];
  const pay = SystemProgram.transfer({ fromPubkey: payer, toPubkey: friend, lamports: 5_000_000 });
  const reads = (...addresses: string[]) =>
    new TransactionInstruction({
      programId: SystemProgram.programId,
      keys: [
        ...pay.keys,
        ...addresses.map((one) => ({ pubkey: new PublicKey(one), isSigner: false, isWritable: false })),
      ],
      data: pay.data,
    });
  const sysvar = (name: string) => `Sysvar${name}`;
  return {
    'a transfer': [pay],
    'with sysvars': [
      reads(sysvar('C1ock11111111111111111111111111111111'), sysvar('Rent111111111111111111111111111111111')),
    ],
    'with recent hashes': [reads(sysvar('RecentB1ockHashes11111111111111111111'))],
    'with an absent account': [reads(String(wallet('nobody').publicKey))],
    'with too little data': [
      {
        programId: new PublicKey(COMPUTE_BUDGET_PROGRAM),
        keys: [],
        data: Buffer.of(4, 200, 0, 0, 0),
      },
      pay,
    ],
    'of an absent program': [new TransactionInstruction({ programId: wallet('nobody').publicKey, keys: pay.keys })],
  };
}

/** Programs of which the node and litesvm have other builds: other units, other lines of memos, other balances of the program. */
const OTHER_BUILDS = [MEMO_V3_PROGRAM, TOKEN_PROGRAM, TOKEN_2022_PROGRAM, ASSOCIATED_TOKEN_PROGRAM];

function builtAlike(record: Awaited<ReturnType<typeof plainRecord>>): unknown {
  if (!OTHER_BUILDS.some((program) => record.keys.includes(program))) return record;
  const without = (balances: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(Object.entries(balances).filter(([key]) => !OTHER_BUILDS.includes(key)));
  const logs = record.logs
    .map((line) => line.replace(/consumed \d+ of \d+ compute units/, 'consumed'))
    .filter((line) => !record.keys.includes(MEMO_V3_PROGRAM) || !line.startsWith('Program log:'));
  return { ...record, computeUnits: null, logs, before: without(record.before), after: without(record.after) };
}

/** Errors in their words, without numbers and addresses; of results the names and kinds of everything. */
function formOf(text: string): unknown {
  const { result, error } = JSON.parse(text.replace(FAUCET_MEMO, '"memo":null')) as {
    result?: unknown;
    error?: { code: number; message: string; data?: unknown };
  };
  // The local chain pays its leader nothing (packages/local-chain/README.md), and has no votes.
  if (isPlainObject(result) && 'blockhash' in result && 'blockHeight' in result) {
    const { rewards, transactions } = result;
    return form({
      ...result,
      ...(Array.isArray(rewards) ? { rewards: [] } : {}),
      ...(Array.isArray(transactions) ? { transactions: transactions.filter((one) => !isVote(one)) } : {}),
    });
  }
  if (error === undefined) return form(result);
  return JSON.parse(
    JSON.stringify(error)
      .replace(/[1-9A-HJ-NP-Za-km-z]{32,88}/g, 'KEY')
      .replace(/\b\d{1,9}\b/g, 'N')
      .replaceAll(':N', ':0')
      .replaceAll('-N', '-0'),
  );
}

/** Whether a transaction of a block, in any encoding and detail, names the program of votes. */
function isVote({ transaction }: { readonly transaction: unknown }): boolean {
  const [text, encoding] = (Array.isArray(transaction) ? transaction : [transaction, 'base58']) as [unknown, string];
  if (typeof text !== 'string') return JSON.stringify(transaction).includes(VOTE_PROGRAM);
  const bytes = encoding === 'base64' ? Buffer.from(text, 'base64') : Buffer.from(bs58.decode(text));
  return bytes.includes(Buffer.from(bs58.decode(VOTE_PROGRAM)));
}

/** Members in their order; of a list each form once, because the chains have other numbers of blocks and lines. */
function form(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value === null ? null : typeof value;
  if (Array.isArray(value)) {
    const forms = new Map(value.map((item) => [JSON.stringify(form(item)), form(item)]));
    return [...forms].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, item]) => item);
  }
  return Object.entries(value).map(([key, member]) => [key.length > 31 ? 'address' : key, form(member)]);
}
