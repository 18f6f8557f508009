/** What an operator does in the terminal when a receiver works again: on a local chain, beside the daemon that delivers. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Keypair, SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import { chainMissing } from '../../helpers/chain.ts';
import { runCommand } from '../../helpers/daemon.ts';
import { answer } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { type ChainBed, startChainBed } from './chain-harness.ts';

describe('webhooks resend', { skip: (await chainMissing()) ?? false }, () => {
  let bed: ChainBed;
  before(async () => {
    bed = await startChainBed();
  });
  after(() => bed?.stop());

  const run = (...args: string[]) => runCommand(['webhooks', ...args, '--config', bed.daemon.configFile]);
  const json = async (...args: string[]) => {
    const { code, out, err } = await run(...args, '--json');
    assert.equal(code, 0, err);
    return JSON.parse(out);
  };
  const pay = async (to: Keypair) => {
    const lamports = 1_000_000;
    const transfer = SystemProgram.transfer({ fromPubkey: bed.payer.publicKey, toPubkey: to.publicKey, lamports });
    const confirm = { commitment: 'confirmed' } as const;
    return await sendAndConfirmTransaction(bed.chain.connection, new Transaction().add(transfer), [bed.payer], confirm);
  };
  interface Shown {
    readonly id: number;
    readonly status: string;
    readonly signature: string;
  }

  test('waiting deliveries are sent now, one by one and all; the list says how each webhook goes', async () => {
    const { api, receiver } = bed;
    const to = Keypair.generate();
    const path = `/${to.publicKey.toBase58()}`;
    receiver.route(path, answer(500));
    const { webhookID: id } = (
      await api('POST', '/v0/webhooks', {
        webhookURL: `${receiver.url}${path}`,
        webhookType: 'raw',
        accountAddresses: [to.publicKey.toBase58()],
        name: 'Deposits',
      })
    ).body;
    const first = await pay(to);
    await pay(to);
    await pay(to);
    const shown = async (): Promise<readonly Shown[]> => (await json('show', '--id', id)).deliveries;
    interface Listed {
      readonly status: string;
      readonly signature: string;
      readonly attempts: readonly unknown[];
    }
    const listed = async (): Promise<readonly Listed[]> =>
      (await api('GET', `/v0/webhooks/${id}/deliveries`)).body.data;
    // After the second attempt, 5 s after the first, the next one is minutes away.
    const all = async (is: (one: Listed) => boolean) => (await listed()).filter(is).length === 3;
    await until(() => all(({ attempts }) => attempts.length === 2), 'each is tried twice');
    const { out: list } = await run('list');
    assert.match(list, /^ID +NAME +TYPE +STATE +OK 24 H +WAITING +ADDRESSES +HOST +PROJECT +CREATED \(UTC\)$/m);
    assert.match(list, new RegExp(`^${id} +Deposits +raw +failing +0 % +3 +1 `, 'm'));
    const { out: show } = await run('show', '--id', id);
    assert.match(show, /^failing; 0 of 6 attempts of the last day succeeded; next attempt .* \(UTC\)$/m);
    assert.match(show, /^28 days \| {27}█\|\nfailed {2}\| {27}x\|$/m);

    receiver.route(path, answer(200));
    const one = (await shown()).find(({ signature }) => signature === first)!;
    assert.deepEqual(await json('resend', '--id', id, '--delivery', String(one.id)), { queued: 1, remaining: 0 });
    const stateOf = async (signature: string) => (await listed()).find((any) => any.signature === signature)?.status;
    await until(async () => (await stateOf(first)) === 'delivered', 'the chosen one is delivered');
    assert.equal((await shown()).filter(({ status }) => status === 'pending').length, 2, 'the others wait');
    const { code, out } = await run('resend', '--id', id);
    assert.deepEqual([code, out], [0, '2 deliveries are sent now, or when the daemon runs']);
    await until(() => all(({ status }) => status === 'delivered'), 'all are delivered');
    assert.deepEqual(await json('resend', '--id', id), { queued: 0, remaining: 0 });
    // A delivered one is sent again only by its name, or with all.
    const before = receiver.received.filter(({ url }) => url === path).length;
    assert.deepEqual(await json('resend', '--id', id, '--status', 'all'), { queued: 3, remaining: 0 });
    await until(() => receiver.received.filter(({ url }) => url === path).length === before + 3, 'three more requests');
    // An outcome is written after the answer of the receiver.
    const { name, health } = await until(async () => {
      const found = (await json('list')).find((hook: { id: string }) => hook.id === id);
      return found.health.waiting === 0 && found;
    }, 'nothing waits');
    assert.deepEqual([name, health.attempts], ['Deposits', { succeeded: 6, failed: 6 }]);
  });

  test('what cannot be sent is refused, with what is wrong', async () => {
    const url = `${bed.receiver.url}/none`;
    const { id } = await json('create', '--project', bed.daemon.projectId, '--url', url, '--type', 'raw');
    const cases: readonly (readonly [readonly string[], RegExp])[] = [
      [['--delivery', '999999'], /has no delivery 999999$/m],
      [['--delivery', 'x'], /--delivery must be a whole number/],
      [['--delivery', '1', '--status', 'failed'], /--delivery names one delivery/],
      [['--status', 'delivered'], /status: must be one of undelivered, pending, failed, discarded, all/],
      [['--since', 'yesterday'], /since must be unix seconds or an ISO 8601 date/],
      [['--since', '2000-01-01'], /deliveries are kept for 14 days/],
      [['--since', '2999-01-01'], /since must not be in the future/],
    ];
    for (const [args, text] of cases) {
      const { code, err } = await run('resend', '--id', id, ...args);
      assert.equal(code, 64, err);
      assert.match(err, text);
    }
    await bed.api('PATCH', `/v0/webhooks/${id}`, { active: false });
    const off = await run('resend', '--id', id);
    assert.deepEqual([off.code, /webhook is inactive/.test(off.err)], [64, true]);
    assert.equal((await run('resend', '--id', '00000000-0000-4000-8000-000000000000')).code, 64);
  });
});
