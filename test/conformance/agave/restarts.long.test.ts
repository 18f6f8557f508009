/** A real node that restarts on its ledger again and again: it forgets what was final for a while, and nobody who asks the daemon may learn that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, type PublicKey } from '@solana/web3.js';
import { agaveMissing, namedNode } from '../../helpers/agave.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { type AgaveBed, caughtUp, eventually, signaturesOf, startBed } from './harness.ts';

const RESTARTS = Number(process.env['PARHELION_AGAVE_RESTARTS'] ?? 2);
const LAMPORTS = 1_000_000_000;
const PACE_MS = 100;
/** Payments under way when the node goes. */
const LOAD_PAYMENTS = 10;

interface Status {
  readonly confirmationStatus: string;
}

async function ask<T>(
  { url }: Pick<AgaveBed, 'url'>,
  method: string,
  params: readonly unknown[],
): Promise<T | undefined> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  // An error says that it cannot be known now; only a result says anything about the chain.
  return ((await response.json()) as { readonly result?: T }).result;
}

/** Final signatures of an address; undefined while they cannot be known. */
async function finalOf(withLedger: Pick<AgaveBed, 'url'>, wallet: PublicKey): Promise<string[] | undefined> {
  const params = [String(wallet), { commitment: 'finalized' }];
  const listed = await ask<{ readonly signature: string }[]>(withLedger, 'getSignaturesForAddress', params);
  return listed?.map(({ signature }) => signature);
}

/** Asks for what was final until it is stopped; returns what was denied, and how many answers there were. */
function watchFinal(
  bed: AgaveBed,
  withLedger: Pick<AgaveBed, 'url'>,
  wallet: PublicKey,
  signatures: readonly string[],
) {
  const denied = new Set<string>();
  let answers = 0;
  const controller = new AbortController();
  const work = (async () => {
    while (!controller.signal.aborted) {
      const config = { searchTransactionHistory: true };
      const statuses = await ask<{ value: (Status | null)[] }>(bed, 'getSignatureStatuses', [signatures, config]);
      answers += statuses === undefined ? 0 : 1;
      statuses?.value.forEach((status, at) => {
        if (status === null) denied.add(`${signatures[at]}: no status`);
      });
      const listed = await finalOf(withLedger, wallet);
      answers += listed === undefined ? 0 : 1;
      for (const signature of signatures)
        if (listed?.includes(signature) === false) denied.add(`${signature}: not listed`);
      const final = { commitment: 'finalized' };
      for (const signature of signatures) {
        const shown = await ask(bed, 'getTransaction', [signature, { ...final, maxSupportedTransactionVersion: 1 }]);
        answers += shown === undefined ? 0 : 1;
        if (shown === null) denied.add(`${signature}: no transaction`);
      }
      await sleep(PACE_MS);
    }
  })();
  return async () => {
    controller.abort();
    await work;
    return { denied, answers };
  };
}

async function metric({ daemon }: AgaveBed, name: string): Promise<number> {
  const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
}

const { release } = namedNode() ?? { release: '4.4' as const };

test('a node that restarts: what was final is never denied, and no fork is seen', {
  skip: agaveMissing(release) ?? false,
}, async (t) => {
  const bed = await startBed(t, { slotMs: 200, ...(namedNode() ?? { release, alpenglow: true }) });
  const { node } = bed;
  // Without a ledger a list of signatures is that of the node.
  const other = await startDaemon({ chain: node, config: { ledger: { retain: { hours: 1 } } } });
  t.after(() => other.stop());
  const withLedger = { node, daemon: other, url: `${other.apiUrl}/?api-key=${other.key}` };
  await caughtUp(withLedger);
  const wallet = Keypair.generate().publicKey;
  // A node of 4.4 calls a transaction final some milliseconds before it can show it at `finalized`.
  const final = (signature: string) =>
    eventually(async () => {
      const shown = await node.call('getTransaction', [signature, { commitment: 'finalized' }]);
      return shown === null ? `${signature} is not final` : null;
    });
  const sent: string[] = [];
  const counts = { answers: 0, lost: 0 };
  for (let restart = 0; restart < RESTARTS; restart += 1) {
    const [signature] = await node.fund([wallet], LAMPORTS + restart);
    await final(signature!);
    sent.push(signature!);
    await Promise.all([caughtUp(bed), caughtUp(withLedger)]);
    // What the daemon itself has called final is the floor.
    await eventually(async () => {
      const listed = await finalOf(withLedger, wallet);
      return listed?.includes(signature!) === true ? null : `${signature} is not listed yet`;
    });
    const stopWatching = watchFinal(bed, withLedger, wallet, sent);
    const forks = await metric(bed, 'parhelion_follow_forks_total');
    // Two restarts in four are under load, one of each signal; what is under way may get lost.
    const load = restart % 4 === 1 || restart % 4 === 2 ? LOAD_PAYMENTS : 0;
    const payments = Array.from({ length: load }, (_, at) =>
      node.fund([wallet], LAMPORTS + 1_000 + restart * 100 + at),
    );
    const paid = Promise.allSettled(payments);
    if (load > 0) await Promise.race(payments);
    await node.kill(restart % 2 === 0 ? 'SIGTERM' : 'SIGKILL');
    await paid;
    await sleep(2 * PACE_MS);
    await node.start('same');
    await node.fund([wallet], LAMPORTS + 100 + restart);
    await Promise.all([caughtUp(bed), caughtUp(withLedger)]);
    const { denied, answers } = await stopWatching();
    counts.answers += answers;
    // A node on its own may lose its newest blocks with a kill: what it does not know at the end was not final after all.
    const known = await signaturesOf(node, [wallet]);
    const lost = sent.filter((one) => !known.includes(one));
    assert.deepEqual(
      [...denied].filter((text) => !lost.some((one) => text.startsWith(one))),
      [],
      `restart ${restart}`,
    );
    counts.lost += lost.length;
    if (lost.length === 0) assert.equal(await metric(bed, 'parhelion_follow_forks_total'), forks, `restart ${restart}`);
    for (const one of lost) sent.splice(sent.indexOf(one), 1);
  }
  t.diagnostic(`${RESTARTS} restarts: ${counts.answers} answers, ${counts.lost} final transactions that the node lost`);
  assert.ok(counts.answers > RESTARTS);
  await eventually(async () => {
    const response = await fetch(`${bed.daemon.adminUrl}/readyz`);
    return response.status === 200 ? null : await response.text();
  });
});
