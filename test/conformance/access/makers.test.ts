import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { type AccessDaemon, startAccessDaemon } from './harness.ts';

let bed: AccessDaemon;
before(async () => {
  bed = await startAccessDaemon();
});
after(() => bed.stop());

const wallet = () => Keypair.generate().publicKey.toBase58();

test('a webhook shows the wallet of whose key made it, to every key of the project', async () => {
  const [owner, member] = [wallet(), wallet()];
  const { id } = await bed.cli<{ id: string }>('projects', 'create', '--name', 'p', '--wallet', owner);
  await bed.cli('projects', 'add-wallet', '--id', id, '--wallet', member);
  const key = async (...flags: string[]) =>
    (await bed.cli<{ key: string }>('keys', 'create', '--project', id, ...flags)).key;
  const keys = [await key(), await key('--wallet', member)] as const;
  const make = async (of: string) => {
    const body = JSON.stringify({ webhookURL: 'https://example.com/hook', webhookType: 'raw' });
    const response = await bed.request('/v0/webhooks', of, { method: 'POST', body });
    assert.equal(response.status, 200);
    return (await response.json()) as { webhookID: string; wallet: string };
  };
  const made = [await make(keys[0]), await make(keys[1])];
  assert.deepEqual(
    made.map((hook) => hook.wallet),
    [owner, member],
  );
  for (const of of keys) {
    const list = (await (await bed.request('/v0/webhooks', of)).json()) as { wallet: string }[];
    assert.deepEqual(
      list.map((hook) => hook.wallet),
      [owner, member],
    );
    for (const { webhookID, wallet: maker } of made) {
      const path = `/v0/webhooks/${webhookID}`;
      const changes = [{}, { method: 'PUT', body: '{}' }, { method: 'PATCH', body: '{"active":true}' }];
      for (const init of changes) {
        const shown = (await (await bed.request(path, of, init)).json()) as { wallet: string };
        assert.equal(shown.wallet, maker, JSON.stringify(init));
      }
    }
  }
});
