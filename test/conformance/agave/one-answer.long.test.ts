/**
 * One answer whatever its source: a real node, daemons in front of it (without a ledger, with one, and with an archive where chdb is
 * installed), and the local chain after the same transactions are asked the same calls at the same moment, with members at random.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Connection, SystemProgram } from '@solana/web3.js';
import { isPlainObject } from '../../../src/lib/json.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  MEMO_V3_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../../../src/solana/programs.ts';
import { type AgaveNode, agaveMissing, namedNode, startAgave } from '../../helpers/agave.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { CHDB_DIR, chdbMissing } from '../../helpers/clickhouse.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type CallFacts, createCalls, type StandardCall, shownBody } from '../../helpers/standard-calls.ts';
import { signVersion1 } from '../../helpers/version-1.ts';
import { plainRecord } from '../localchain/plain-record.ts';
import { runScript, type ScriptRun, wallet } from '../localchain/same-script.ts';
import { eventually } from './harness.ts';

const CALLS = Number(process.env['PARHELION_STANDARD_CALLS'] ?? 300);
const SEED = Number(process.env['PARHELION_SEED'] ?? 20_261_129);
const LAMPORTS = 100_000_000_000;
/** A block may come between two answers: then the same is asked again. */
const ATTEMPTS = 8;
const STATUS_PACE_MS = 250;
const ARCHIVED = 'with an archive';
/** Some seconds: what is final leaves the ledger, and only the archive has it. */
const ARCHIVED_HOURS = 0.002;

const { release, alpenglow } = namedNode() ?? { release: '4.4' as const, alpenglow: true };

async function textOf(url: string, method: string, params: readonly unknown[]): Promise<string> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  return response.text();
}

async function ask<T>(url: string, method: string, params: readonly unknown[]): Promise<T> {
  return (JSON.parse(await textOf(url, method, params)) as { readonly result: T }).result;
}

/** Whether the daemon answers for a block itself. */
async function isKept(url: string, slot: number): Promise<boolean> {
  const params = [slot, { maxSupportedTransactionVersion: 1, rewards: false }];
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBlock', params });
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  await response.text();
  return response.headers.get('x-cache') === 'LEDGER';
}

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
      const [wanted, given] = [await textOf(theirs.url, ...asked), await textOf(ours.url, ...askedOurs)];
      if (!isDeepStrictEqual(formOf(given), formOf(wanted)))
        different.push(
          `seed ${SEED + number}: ${JSON.stringify(asked)}: ${JSON.stringify(formOf(wanted))}; local: ${JSON.stringify(formOf(given))}`,
        );
    }
    assert.deepEqual(different, []);
  });
  test(`${CALLS} calls: the daemon answers what the node answers, byte for byte`, async (t) => {
    const random = createSfc32(SEED);
    const { facts } = sides[0]!;
    const calls = createCalls(random, { ...facts, otherSlots: [0, 1, facts.slots.at(-1)! + 1] });
    const methods = new Map<string, number>();
    let refused = 0;
    for (let number = 0; number < CALLS; number += 1) {
      const asked = number % 4 === 3 ? calls.state() : calls.past();
      const [method, params] = asked;
      methods.set(method, (methods.get(method) ?? 0) + 1);
      const named = `seed ${SEED}, call ${number}: ${method} ${JSON.stringify(params)}`;
      for (let attempt = 1; ; attempt += 1) {
        const bodies = await Promise.all([
          textOf(node.rpcUrl, method, params),
          ...daemons.map(({ url }) => textOf(url, method, params)),
        ]);
        const [wanted, ...given] = bodies.map(shownBody) as [string, string, string];
        if (wanted.startsWith('"error"')) refused += attempt === 1 ? 1 : 0;
        if (given.every((body) => body === wanted)) break;
        if (attempt < ATTEMPTS) continue;
        for (const [at, { name }] of daemons.entries()) assert.equal(given[at], wanted, `${named}, ${name}`);
      }
    }
    t.diagnostic(`${[...methods].map(([name, count]) => `${name} ${count}`).join(', ')}; ${refused} refused`);
    assert.ok(refused > CALLS / 50 && refused < CALLS / 2, `${refused} refused`);
  });

  test('without its history a node knows a status for some 300 blocks, and the daemons as long', async (t) => {
    const { signatures } = sides[0]!.facts;
    const lists = Array.from({ length: Math.ceil(signatures.length / 8) }, (_, at) =>
      signatures.slice(8 * at, 8 * at + 8),
    );
    /** Null: it cannot be known now. */
    const knownBy = async (url: string): Promise<readonly boolean[] | null> => {
      const answers = await Promise.all(
        lists.map((list) => ask<{ value: readonly unknown[] } | undefined>(url, 'getSignatureStatuses', [list])),
      );
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
    assert.ok(compared > signatures.length);
    t.diagnostic(`${rounds} rounds`);
    assert.ok(rounds > 1);
  });
});

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
  const { result, error } = JSON.parse(text) as {
    result?: unknown;
    error?: { code: number; message: string; data?: unknown };
  };
  // The local chain pays its leader nothing (src/local-chain/README.md).
  if (isPlainObject(result) && Array.isArray(result['rewards'])) return form({ ...result, rewards: [] });
  if (error === undefined) return form(result);
  return JSON.parse(
    JSON.stringify(error)
      .replace(/[1-9A-HJ-NP-Za-km-z]{32,88}/g, 'KEY')
      .replace(/\b\d{1,9}\b/g, 'N')
      .replaceAll(':N', ':0')
      .replaceAll('-N', '-0'),
  );
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
