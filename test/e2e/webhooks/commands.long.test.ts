/** The commands of webhooks, on the store of a daemon that runs. */

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { addressOf } from '../../conformance/webhooks/blocks.ts';
import { type Api, apiOf, startWebhookDaemon, type WebhookDaemon } from '../../conformance/webhooks/daemon.ts';
import { runCommand } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';

const LOOPBACK = { allowCidrs: ['127.0.0.0/8'], allowHttp: true };

suite('commands of webhooks', () => {
  let daemon: WebhookDaemon;
  let receiver: Receiver;
  let api: Api;
  before(async () => {
    daemon = await startWebhookDaemon(LOOPBACK);
    receiver = await startReceiver();
    api = apiOf(daemon.apiUrl, daemon.key);
  });
  after(async () => {
    await receiver?.close();
    await daemon?.stop();
  });

  const run = (...args: string[]) => runCommand(['webhooks', ...args, '--config', daemon.configFile]);
  const json = async (...args: string[]) => {
    const { code, out, err } = await run(...args, '--json');
    assert.equal(code, 0, err);
    return out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  };
  const create = async (url: string) => {
    const body = { webhookURL: url, webhookType: 'raw', accountAddresses: [addressOf(1), addressOf(2)] };
    return (await api('POST', '/v0/webhooks', body)).body as { webhookID: string; signingSecret: string };
  };

  test('list, show, test and replay print their results, and no secrets', async () => {
    assert.equal((await run('list')).out, 'no webhooks');
    const hook = await create(`${receiver.url}/secret-path?token=hidden`);
    const [[listed]] = await json('list');
    assert.deepEqual(
      [listed.id, listed.type, listed.active, listed.addresses, listed.host],
      [hook.webhookID, 'raw', true, 2, receiver.url],
    );
    const texts = [await run('list'), await run('show', '--id', hook.webhookID)];
    for (const { out, code } of texts) {
      assert.equal(code, 0);
      for (const secret of ['hidden', 'secret-path', hook.signingSecret]) assert.ok(!out.includes(secret));
    }
    assert.match(
      texts[1]?.out ?? '',
      /^raw webhook of project .*, on, 2 addresses\n0 waiting, 0 held; last hour: 0 delivered, 0 failed/,
    );
    const [result] = await json('test', '--id', hook.webhookID);
    assert.deepEqual([result.delivered, result.statusCode], [true, 200]);
    receiver.script(answer(500));
    const failed = await run('test', '--id', hook.webhookID);
    assert.deepEqual([failed.code, /HTTP 500/.test(failed.err)], [75, true]);
    const [replayed] = await json('replay', '--id', hook.webhookID, '--since', '2026-01-01');
    // What is older than that is not kept; a command asks for no less than it can have.
    assert.deepEqual(replayed, { queued: 0, remaining: 0 });
    const [begun] = await json('replay', '--id', hook.webhookID, '--from', '5', '--to', '9');
    assert.deepEqual([begun.fromSlot, begun.toSlot], [5, 9]);
    for (const args of [
      ['replay', '--id', hook.webhookID],
      ['replay', '--id', hook.webhookID, '--since', 'yesterday'],
      ['replay', '--id', hook.webhookID, '--from', '5', '--to', '9'],
      ['replay', '--id', hook.webhookID, '--from', '9', '--to', '5'],
      ['show', '--id', '00000000-0000-4000-8000-000000000000'],
    ]) {
      assert.equal((await run(...args)).code, 64, args.join(' '));
    }
  });

  test('create and delete work beside the daemon, which notices both', async () => {
    const project = ['--project', daemon.projectId, '--url', `${receiver.url}/made`];
    const [made] = await json('create', ...project, '--addresses', `${addressOf(3)},${addressOf(4)}`, '--type', 'raw');
    assert.deepEqual([made.type, made.addresses, /^whsec_/.test(made.signingSecret)], ['raw', 2, true]);
    const { body } = await api('GET', `/v0/webhooks/${made.id}`);
    assert.equal((body as { webhookURL: string }).webhookURL, `${receiver.url}/made`);
    for (const wrong of [
      ['--project', '00000000-0000-4000-8000-000000000000', '--url', receiver.url],
      ['--project', daemon.projectId, '--url', 'nowhere'],
      [...project, '--type', 'odd'],
      [...project, '--addresses', 'x'],
    ])
      assert.equal((await run('create', ...wrong)).code, 64, wrong.join(' '));
    assert.deepEqual(await json('delete', '--id', made.id), [{ id: made.id, deleted: true }]);
    assert.equal((await api('GET', `/v0/webhooks/${made.id}`)).status, 404);
    assert.equal((await run('delete', '--id', made.id)).code, 64);
  });

  test('listen takes deliveries, verifies them with the secrets of the store and passes them on', async () => {
    const port = await freePort();
    const hook = await create(`http://127.0.0.1:${port}/x`);
    receiver.received.splice(0);
    receiver.script(answer(200), answer(418));
    const listening = json('listen', '--port', String(port), '--count', '3', '--forward', `${receiver.url}/passed`);
    const tryTest = async () => (await api('POST', `/v0/webhooks/${hook.webhookID}/test`)).body;
    let first = await tryTest();
    while (first.statusCode === null) {
      await sleep(50);
      first = await tryTest();
    }
    assert.equal(first.statusCode, 200);
    assert.equal((await tryTest()).statusCode, 418);
    const forged = { 'webhook-id': 'msg_1', 'webhook-timestamp': '1', 'webhook-signature': 'v1,AAAA' };
    const headers = { ...forged, 'x-parhelion-webhook': hook.webhookID };
    await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers, body: '[]' });
    const [address, ...arrivals] = await listening;
    assert.equal(address.url, `http://127.0.0.1:${port}`);
    assert.deepEqual(
      arrivals.map(({ verified, status, webhook }) => [verified, status, webhook]),
      [
        ['good', 200, hook.webhookID],
        ['good', 418, hook.webhookID],
        ['bad', 200, hook.webhookID],
      ],
    );
    assert.equal(String(receiver.received[0]?.body), arrivals[0]?.body);
  });
});
