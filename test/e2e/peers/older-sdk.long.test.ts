import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { Helius, TransactionType, WebhookType } from 'helius-sdk-v1';
import { startDaemon } from '../../helpers/daemon.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { startUpstream } from '../../helpers/upstream.ts';

interface Axios {
  readonly defaults: { adapter: unknown };
}

test('helius-sdk 1.5.3 makes, reads, lists, edits and deletes webhooks', async (t) => {
  const upstream = await startUpstream();
  t.after(() => upstream.stop());
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: { plugins: ['access', 'webhooks'], follow: { enabled: false }, webhooks: { allowHttp: true } },
  });
  t.after(() => daemon.stop());
  // The client library's own transport, over `fetch`: its requests can be sent to the daemon then.
  const near = createRequire(createRequire(import.meta.url).resolve('helius-sdk-v1'));
  const axios = near('axios') as Axios;
  const before = axios.defaults.adapter;
  axios.defaults.adapter = 'fetch';
  const restore = redirectHostedClients(daemon.apiUrl);
  t.after(() => {
    restore();
    axios.defaults.adapter = before;
  });
  const helius = new Helius(daemon.key);
  const [one, two, three] = Array.from({ length: 3 }, () => Keypair.generate().publicKey.toBase58()) as [
    string,
    string,
    string,
  ];
  const made = await helius.createWebhook({
    webhookURL: 'https://example.com/hook',
    accountAddresses: [one],
    transactionTypes: [TransactionType.ANY],
    webhookType: WebhookType.ENHANCED,
    authHeader: 'letmein',
  });
  assert.deepEqual(made.accountAddresses, [one]);
  assert.deepEqual(await helius.getWebhookByID(made.webhookID), withoutSecret(made));
  const more = await helius.appendAddressesToWebhook(made.webhookID, [two, three]);
  assert.deepEqual(more.accountAddresses, [one, two, three]);
  const fewer = await helius.removeAddressesFromWebhook(made.webhookID, [two]);
  assert.deepEqual(fewer.accountAddresses, [one, three]);
  const edited = await helius.editWebhook(made.webhookID, { webhookURL: 'https://example.com/other' });
  assert.equal(edited.webhookURL, 'https://example.com/other');
  assert.deepEqual(
    (await helius.getAllWebhooks()).map(({ webhookID }) => webhookID),
    [made.webhookID],
  );
  assert.equal(await helius.deleteWebhook(made.webhookID), true);
  await assert.rejects(helius.getWebhookByID(made.webhookID), /webhook not found/);
});

function withoutSecret(made: object): object {
  const { signingSecret: _, ...rest } = made as { readonly signingSecret?: string };
  return rest;
}
