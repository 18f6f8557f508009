/** A real node that restarts on its ledger again and again: it forgets what was final for a while, and nobody who asks the daemon may learn that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair } from '@solana/web3.js';
import { agaveMissing, namedNode } from '../../helpers/agave.ts';
import { type AgaveBed, caughtUp, eventually, signaturesOf, startBed } from './harness.ts';

const RESTARTS = Number(process.env['PARHELION_AGAVE_RESTARTS'] ?? 2);
const LAMPORTS = 1_000_000_000;
const PACE_MS = 100;

interface Status {
  readonly confirmationStatus: string;
}

async function ask<T>({ url }: AgaveBed, method: string, params: readonly unknown[]): Promise<T | undefined> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  // An error says that it cannot be known now; only a result says anything about the chain.
  return ((await response.json()) as { readonly result?: T }).result;
}

/** Asks for what was final until it is stopped; returns what was denied. */
function watchFinal(bed: AgaveBed, signatures: readonly string[]) {
  const denied = new Set<string>();
  const controller = new AbortController();
  const work = (async () => {
    while (!controller.signal.aborted) {
      const config = { searchTransactionHistory: true };
      const statuses = await ask<{ value: (Status | null)[] }>(bed, 'getSignatureStatuses', [signatures, config]);
      statuses?.value.forEach((status, at) => {
        if (status === null) denied.add(`${signatures[at]}: no status`);
      });
      for (const signature of signatures) {
        const options = { commitment: 'finalized', maxSupportedTransactionVersion: 1 };
        if ((await ask(bed, 'getTransaction', [signature, options])) === null)
          denied.add(`${signature}: no transaction`);
      }
      await sleep(PACE_MS);
    }
  })();
  return async () => {
    controller.abort();
    await work;
    return denied;
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
  const wallet = Keypair.generate().publicKey;
  // A node of 4.4 calls a transaction final some milliseconds before it can show it at `finalized`.
  const final = (signature: string) =>
    eventually(async () => {
      const shown = await node.call('getTransaction', [signature, { commitment: 'finalized' }]);
      return shown === null ? `${signature} is not final` : null;
    });
  const sent: string[] = [];
  for (let restart = 0; restart < RESTARTS; restart += 1) {
    const [signature] = await node.fund([wallet], LAMPORTS + restart);
    await final(signature!);
    sent.push(signature!);
    await caughtUp(bed);
    const stopWatching = watchFinal(bed, sent);
    await node.kill(restart % 2 === 0 ? 'SIGTERM' : 'SIGKILL');
    await sleep(2 * PACE_MS);
    await node.start('same');
    await node.fund([wallet], LAMPORTS + 100 + restart);
    await caughtUp(bed);
    const denied = await stopWatching();
    // A node on its own may lose its newest blocks with a kill: what it does not know at the end was not final after all.
    const known = await signaturesOf(node, [wallet]);
    const lost = sent.filter((one) => !known.includes(one));
    assert.deepEqual(
      [...denied].filter((text) => !lost.some((one) => text.startsWith(one))),
      [],
      `restart ${restart}`,
    );
    if (lost.length === 0) assert.equal(await metric(bed, 'parhelion_follow_forks_total'), 0, `restart ${restart}`);
    for (const one of lost) sent.splice(sent.indexOf(one), 1);
  }
  await eventually(async () => {
    const response = await fetch(`${bed.daemon.adminUrl}/readyz`);
    return response.status === 200 ? null : await response.text();
  });
});
