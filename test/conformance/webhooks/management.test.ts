import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { inLongTier } from '../../helpers/run-part.ts';
import { addressOf } from './blocks.ts';
import { type Api, apiOf, startWebhookDaemon, type WebhookDaemon } from './daemon.ts';

const UNKNOWN_ID = '3f2b8a4e-1c5d-4e7a-9b60-0a1b2c3d4e5f';
const ROOT = '/v0/webhooks';
const raw = (patch: object = {}) => ({
  webhookURL: 'https://example.com/hook',
  webhookType: 'raw',
  accountAddresses: [addressOf(1)],
  ...patch,
});

describe('webhook management', () => {
  let daemon: WebhookDaemon;
  let api: Api;
  before(async () => {
    daemon = await startWebhookDaemon({ maxPerProject: 40, maxAddresses: 1_000 });
    api = apiOf(daemon.apiUrl, daemon.key);
  });
  after(() => daemon.stop());

  const create = async (patch: object = {}) => {
    const { status, body } = await api('POST', ROOT, raw(patch));
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };
  const refused = async (method: string, path: string, body: unknown, status: number, text: string | RegExp) => {
    const answer = await api(method, path, body);
    assert.equal(answer.status, status, JSON.stringify(answer.body));
    assert.equal(answer.body.code, status);
    if (typeof text === 'string') assert.equal(answer.body.error, text);
    else assert.match(answer.body.error, text);
  };
  const get = async (id: string) => (await api('GET', `${ROOT}/${id}`)).body;
  const remove = (id: string) => api('DELETE', `${ROOT}/${id}`);

  test('create answers with the whole object, the secret once', async () => {
    const made = await create({ transactionTypes: ['Any', 'swap'], encoding: 'jsonParsed', authHeader: 'Bearer s' });
    assert.match(made.webhookID, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.match(made.signingSecret, /^whsec_/);
    const { signingSecret, ...rest } = made;
    assert.deepEqual(rest, {
      webhookID: made.webhookID,
      project: daemon.projectId,
      wallet: '11111111111111111111111111111111',
      webhookURL: 'https://example.com/hook',
      transactionTypes: ['ANY', 'SWAP'],
      accountAddresses: [addressOf(1)],
      webhookType: 'raw',
      authHeader: 'Bearer s',
      active: true,
      addressCount: 1,
      txnStatus: 'all',
      encoding: 'jsonParsed',
      matchTokenOwners: true,
      retryPreset: 'durable',
      batchSize: 1,
      ordered: false,
      onInactive: 'drop',
    });
    assert.deepEqual(await get(made.webhookID), rest);
    const list = (await api('GET', ROOT)).body;
    assert.deepEqual(list.at(-1), rest);
    await remove(made.webhookID);
  });

  test('PUT merges: one field keeps the others', async () => {
    const { signingSecret: _, ...made } = await create({ authHeader: 'x', transactionTypes: ['SWAP'] });
    const path = `${ROOT}/${made.webhookID}`;
    const changed = await api('PUT', path, { webhookURL: 'https://example.org/other' });
    assert.equal(changed.status, 200);
    assert.deepEqual(changed.body, { ...made, webhookURL: 'https://example.org/other' });
    // The whole object of a GET, put back, changes nothing.
    assert.deepEqual((await api('PUT', path, await get(made.webhookID))).body, changed.body);
    assert.equal((await api('PUT', path, { authHeader: '' })).body.authHeader, '');
    const two = await api('PUT', path, { accountAddresses: [addressOf(2), addressOf(3), addressOf(2)] });
    assert.deepEqual(two.body.accountAddresses, [addressOf(2), addressOf(3)]);
    assert.equal(two.body.addressCount, 2);
    const swapped = await api('PUT', path, { accountAddresses: [addressOf(3), addressOf(2)] });
    assert.deepEqual(swapped.body.accountAddresses, [addressOf(3), addressOf(2)]);
    assert.deepEqual((await get(made.webhookID)).accountAddresses, [addressOf(3), addressOf(2)]);
    assert.deepEqual(
      (await api('PUT', path, { accountAddressOwners: [], accountAddresses: [] })).body.accountAddresses,
      [],
    );
    await remove(made.webhookID);
  });

  test('what the fields allow', async () => {
    await refused('POST', ROOT, {}, 400, 'webhookURL is required');
    assert.equal((await create({ webhookType: undefined })).webhookType, 'enhanced');
    await refused('POST', ROOT, raw({ webhookType: 'account' }), 400, /^webhookType: must be one of /);
    await refused(
      'POST',
      ROOT,
      raw({ webhookType: 'rawDevnet' }),
      400,
      'webhookType: no devnet upstream is configured',
    );
    await refused('POST', ROOT, raw({ transactionTypes: ['NOPE'] }), 400, 'invalid transaction type: NOPE');
    await refused('POST', ROOT, raw({ authHeader: { key: 'value' } }), 400, 'authHeader must be a string');
    await refused('POST', ROOT, raw({ authHeader: 'a\r\nb: c' }), 400, 'authHeader must be a string');
    await refused(
      'POST',
      ROOT,
      raw({ accountAddresses: ['x'] }),
      400,
      "accountAddresses[0]: 'x' is not a valid Solana address",
    );
    await refused('POST', ROOT, [], 400, /JSON object/);
    await refused('POST', ROOT, '{"webhookURL":', 400, 'Invalid JSON body');
    assert.deepEqual((await create({ transactionTypes: [] })).transactionTypes, []);
  });

  test('targets on the own machine and in private networks are refused in every spelling', async () => {
    for (const host of [
      '127.0.0.1',
      '127.1',
      '0x7f.1',
      '2130706433',
      '0177.0.0.1',
      '１２７.0.０.１',
      '[::1]',
      '[::ffff:127.0.0.1]',
    ]) {
      await refused(
        'POST',
        ROOT,
        raw({ webhookURL: `https://${host}/` }),
        400,
        /^webhookURL: address .* is not allowed; add its network to webhooks\.allowCidrs, such as \S+$/,
      );
    }
    await refused(
      'POST',
      ROOT,
      raw({ webhookURL: 'https://127.1/' }),
      400,
      'webhookURL: address 127.0.0.1 is not allowed; add its network to webhooks.allowCidrs, such as 127.0.0.1/32',
    );
    await refused('POST', ROOT, raw({ webhookURL: 'https://localhost/' }), 400, /^webhookURL: host localhost/);
    await refused('POST', ROOT, raw({ webhookURL: 'https://169.254.169.254/latest' }), 400, /^webhookURL: address/);
    await refused('POST', ROOT, raw({ webhookURL: 'https://u:p@example.com/' }), 400, /user information/);
    await refused('POST', ROOT, raw({ webhookURL: 'ftp://example.com/' }), 400, /scheme/);
    await refused('POST', ROOT, raw({ webhookURL: 'https://example.com/#x' }), 400, /fragment/);
    const made = await create();
    await refused(
      'PUT',
      `${ROOT}/${made.webhookID}`,
      { webhookURL: 'https://10.0.0.1/' },
      400,
      /^webhookURL: address 10\.0\.0\.1/,
    );
    await remove(made.webhookID);
  });

  test('ids: a UUID, and one of the own project', async () => {
    const own = await create();
    const stranger = apiOf(daemon.apiUrl, await daemon.otherKey());
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['PUT', '', {}],
      ['PATCH', '', { active: false }],
      ['DELETE', '', undefined],
      ['POST', '/addresses', { accountAddresses: [] }],
      ['DELETE', '/addresses', { accountAddresses: [] }],
      ['POST', '/secret/rotate', {}],
      ['POST', '/test', {}],
      ['GET', '/deliveries', undefined],
      ['GET', '/deliveries/1', undefined],
      ['POST', '/deliveries/1/replay', {}],
    ] as const) {
      for (const [who, id] of [
        [api, UNKNOWN_ID],
        [stranger, own.webhookID],
      ] as const) {
        const answer = await who(method, `${ROOT}/${id}${path}`, body);
        assert.deepEqual(answer.body, { error: 'webhook not found', code: 404 }, `${method} ${path}`);
      }
      await refused(method, `${ROOT}/not-a-uuid${path}`, body, 400, 'webhookID must be a UUID');
    }
    assert.equal((await get(own.webhookID)).active, true);
    assert.deepEqual((await stranger('GET', ROOT)).body, []);
    await remove(own.webhookID);
  });

  test('DELETE answers 200 without a body, and again 404', async () => {
    const made = await create();
    const answer = await fetch(`${daemon.apiUrl}${ROOT}/${made.webhookID}?api-key=${daemon.key}`, { method: 'DELETE' });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('content-length'), '0');
    assert.equal(await answer.text(), '');
    await refused('DELETE', `${ROOT}/${made.webhookID}`, undefined, 404, 'webhook not found');
  });

  test('the switch and its grace', async () => {
    const made = await create();
    const path = `${ROOT}/${made.webhookID}`;
    for (const body of [{}, { active: 'true' }, { active: 1 }, null, []]) {
      await refused('PATCH', path, body, 400, 'active must be a boolean');
    }
    const same = await api('PATCH', path, { active: true });
    assert.equal(same.body.graceUntil, undefined);
    const off = await api('PATCH', path, { active: false, webhookURL: 'https://ignored.example/' });
    assert.deepEqual([off.body.active, off.body.disabledReason, off.body.webhookURL], [false, 'user', made.webhookURL]);
    assert.ok(!Number.isNaN(Date.parse(off.body.disabledAt)));
    assert.deepEqual((await api('PATCH', path, { active: false })).body, off.body);
    const before = Date.now();
    const on = await api('PATCH', path, { active: true });
    assert.deepEqual([on.body.active, on.body.disabledReason, on.body.disabledAt], [true, undefined, undefined]);
    const graceMs = Date.parse(on.body.graceUntil) - before;
    assert.ok(graceMs >= 86_400_000 && graceMs < 86_460_000);
    assert.deepEqual((await api('PATCH', path, { active: true })).body, on.body);
    // PUT may carry the switch too.
    assert.equal((await api('PUT', path, { active: false })).body.disabledReason, 'user');
    assert.notEqual((await api('PUT', path, { active: true })).body.graceUntil, undefined);
    await remove(made.webhookID);
  });

  test('as many addresses as are allowed are taken, one more is not', () => takesAtMost(1_000, api));

  test('a body beyond 8 MiB is refused', async () => {
    await refused('POST', ROOT, raw({ junk: 'x'.repeat(8_388_609) }), 413, 'Request body too large');
  });

  test('addresses are added and removed without the list, in any order of calls', async () => {
    const made = await create({ accountAddresses: [addressOf(1), addressOf(2)] });
    const path = `${ROOT}/${made.webhookID}/addresses`;
    assert.deepEqual((await api('POST', path, { accountAddresses: [addressOf(3), addressOf(1), addressOf(3)] })).body, {
      webhookID: made.webhookID,
      added: 1,
      alreadyPresent: 1,
      addressCount: 3,
    });
    assert.deepEqual((await api('DELETE', path, { accountAddresses: [addressOf(2), addressOf(9)] })).body, {
      webhookID: made.webhookID,
      removed: 1,
      notPresent: 1,
      addressCount: 2,
    });
    assert.deepEqual((await get(made.webhookID)).accountAddresses, [addressOf(1), addressOf(3)]);
    for (const body of [undefined, {}, [], { accountAddresses: null }, { accountAddresses: 'x' }]) {
      assert.equal((await api('DELETE', path, body)).status, 400);
    }
    await Promise.all(
      Array.from({ length: 20 }, (_, at) => api('POST', path, { accountAddresses: [addressOf(100 + at)] })),
    );
    assert.equal((await get(made.webhookID)).addressCount, 22);
    assert.equal(new Set((await get(made.webhookID)).accountAddresses).size, 22);
    await remove(made.webhookID);
  });

  test('secrets rotate, at most five old ones at a time', async () => {
    const made = await create();
    const path = `${ROOT}/${made.webhookID}/secret/rotate`;
    const before = Date.now();
    const first = await api('POST', path, { overlapSeconds: 60 });
    assert.notEqual(first.body.signingSecret, made.signingSecret);
    const overlapMs = Date.parse(first.body.previousExpiresAt) - before;
    assert.ok(overlapMs >= 60_000 && overlapMs < 90_000);
    for (let at = 0; at < 4; at += 1) assert.equal((await api('POST', path)).status, 200);
    await refused('POST', path, {}, 400, 'too many active secrets');
    assert.equal((await api('POST', path, { overlapSeconds: 0 })).status, 200);
    assert.equal((await api('POST', path, { overlapSeconds: 604_800 })).status, 200);
    for (const overlapSeconds of [-1, 604_801, 1.5, '60']) {
      await refused('POST', path, { overlapSeconds }, 400, /^overlapSeconds must be/);
    }
    await remove(made.webhookID);
  });

  test('the number of webhooks of a project is limited', async () => {
    const ids: string[] = [];
    for (;;) {
      const { status, body } = await api('POST', ROOT, raw());
      if (status !== 200) {
        assert.deepEqual([status, body], [400, { error: 'reached webhook limit', code: 400 }]);
        break;
      }
      ids.push(body.webhookID);
    }
    assert.equal((await api('GET', ROOT)).body.length, 40);
    for (const id of ids) await remove(id);
  });

  test('an address is what it was as bytes', async () => {
    const keys = [Buffer.alloc(32), Buffer.alloc(32, 255), Buffer.alloc(32, 0).fill(1, 31)].map((key) => encode32(key));
    const made = await create({ accountAddresses: keys });
    assert.deepEqual((await get(made.webhookID)).accountAddresses, keys);
    await remove(made.webhookID);
  });
});

/** A webhook may have `most` addresses, and not one more. */
async function takesAtMost(most: number, api: Api): Promise<void> {
  const all = Array.from({ length: most }, (_, at) => addressOf(at));
  const made = (await api('POST', ROOT, raw({ accountAddresses: all }))).body;
  const path = `${ROOT}/${made.webhookID}`;
  const get = async () => (await api('GET', path)).body;
  assert.equal(made.addressCount, most);
  assert.deepEqual((await get()).accountAddresses, all);
  const listed = (await api('GET', ROOT)).body.find((hook: { webhookID: string }) => hook.webhookID === made.webhookID);
  assert.deepEqual([listed.accountAddresses.length, listed.addressCount], [100, most]);
  assert.deepEqual(listed.accountAddresses, all.slice(0, 100));
  for (const { status, body } of [
    await api('POST', ROOT, raw({ accountAddresses: [...all, addressOf(most)] })),
    await api('POST', `${path}/addresses`, { accountAddresses: [addressOf(5), addressOf(most)] }),
  ]) {
    const error = `accountAddresses: at most ${most} addresses per webhook, got ${most + 1}`;
    assert.deepEqual([status, body.code, body.error], [400, 400, error]);
  }
  // Duplicates do not count.
  assert.equal((await api('PUT', path, { accountAddresses: [...all, addressOf(7)] })).status, 200);
  assert.equal((await get()).addressCount, most);
  await api('DELETE', path);
}

inLongTier(() =>
  test('100,000 addresses are taken, one more is not', async (t) => {
    const daemon = await startWebhookDaemon({ maxAddresses: 100_000 });
    t.after(() => daemon.stop());
    await takesAtMost(100_000, apiOf(daemon.apiUrl, daemon.key));
  }),
);
