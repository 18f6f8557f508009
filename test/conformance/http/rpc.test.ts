import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { GOOD_KEY, startFront, type TestFront } from '../../helpers/http-front.ts';
import { rawConnect } from '../../helpers/raw-http.ts';
import { sampleFallback, sampleMethods } from './sample-rpc.ts';

const fallback = sampleFallback();
let front: TestFront;
before(async () => {
  front = await startFront({
    methods: sampleMethods(),
    fallback,
    http: { bodyLimitBytes: 200_000 },
    rpc: { denyMethods: ['requestAirdrop'], maxBatchBytes: 50_000, maxBatchItems: 50 },
  });
});
after(() => front.stop());

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

async function post(body: string | Uint8Array, key = GOOD_KEY, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(`${front.url}/${key === '' ? '' : `?api-key=${key}`}`, {
    method: 'POST',
    body: body as string,
    headers,
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}
const call = (method: string, params = '', id = '1') =>
  `{"jsonrpc":"2.0","id":${id},"method":"${method}"${params === '' ? '' : `,"params":${params}`}}`;
const error = (code: number, message: string, details: string | null, id: string) =>
  `{"jsonrpc":"2.0","error":{"code":${code},"message":${JSON.stringify(message)}${
    details === null ? '' : `,"data":${JSON.stringify({ details })}`
  }},"id":${id}}`;

describe('envelope', () => {
  for (const id of [
    '"helius-sdk"',
    '""',
    '0',
    '-1',
    'null',
    '1.50',
    '18446744073709551617',
    '"\\u0041\\n"',
    '"é🦊"',
    '1e3',
  ]) {
    test(`the id ${id} comes back as it was sent`, async () => {
      const local = await post(call('getCompressedAccountProof', `{"hash":"${'1'.repeat(32)}"}`, id));
      const expected = `{"jsonrpc":"2.0","result":{"context":{"slot":7},"value":{"hash":"${'1'.repeat(32)}"}},"id":${id}}`;
      assert.deepEqual([local.status, local.text], [200, expected]);
      const refused = await post(call('getCompressedAccountProof', '{"hash":5}', id));
      assert.equal(refused.text, error(-32602, 'Invalid params', 'hash must be a string', id));
    });
  }
  test('a notification runs, is charged and answered 204', async () => {
    const settledBefore = front.gate.settled.length;
    for (const method of ['bigNumber', 'getSlot']) {
      const answer = await post(`{"jsonrpc":"2.0","method":"${method}"}`);
      assert.deepEqual([answer.status, answer.text], [204, '']);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(
      front.gate.settled.slice(settledBefore).map(({ name, charged }) => [name, charged]),
      [
        ['bigNumber', true],
        ['getSlot', true],
      ],
    );
  });
  for (const [body, code, message, id] of [
    ['{"jsonrpc":"2.0","id":1,"method":"a"', -32700, 'Parse error', 'null'],
    ['', -32700, 'Parse error', 'null'],
    ['5', -32600, 'Invalid Request', 'null'],
    ['{"jsonrpc":"2.0","id":9,"method":"a","method":"b"}', -32600, 'Invalid Request', '9'],
    ['{"jsonrpc":"1.0","id":9,"method":"a"}', -32600, 'Invalid Request', '9'],
    ['{"jsonrpc":"2.0","id":9,"method":7}', -32600, 'Invalid Request', '9'],
    ['{"jsonrpc":"2.0","id":{},"method":"a"}', -32600, 'Invalid Request', 'null'],
    [call('getSlot', '['.repeat(70) + ']'.repeat(70)), -32600, 'Invalid Request', 'null'],
    [call('accountSubscribe'), -32601, 'Method not found', '1'],
    [call('slotUnsubscribe'), -32601, 'Method not found', '1'],
    [call('requestAirdrop'), -32601, 'Method not found', '1'],
    [call('not a name'), -32601, 'Method not found', '1'],
    [call('x'.repeat(65)), -32601, 'Method not found', '1'],
    [call('getCompressedAccountProof', '["a"]'), -32602, 'Invalid params', '1'],
    [call('getCompressedAccountProof'), -32602, 'Invalid params', '1'],
    [call('getCompressedAccountProof', '7'), -32602, 'Invalid params', '1'],
    [call('unknownHash'), -32000, 'Record Not Found: hash abc', '1'],
  ] as const) {
    test(`${body.slice(0, 60)} is 200 with ${code}`, async () => {
      const answer = await post(body);
      assert.equal(answer.status, 200);
      const parsed = JSON.parse(answer.text);
      assert.deepEqual([parsed.error.code, parsed.error.message], [code, message]);
      assert.ok(answer.text.endsWith(`"id":${id}}`), answer.text);
      assert.deepEqual(Object.keys(parsed), ['jsonrpc', 'error', 'id']);
      assert.ok(Object.keys(parsed.error).every((key) => ['code', 'message', 'data'].includes(key)));
    });
  }
  test('a byte-order mark is skipped, invalid UTF-8 is no JSON', async () => {
    assert.equal(JSON.parse((await post(`\ufeff${call('getSlot')}`)).text).result, 1);
    const bad = await post(
      Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":1,"method":"a'), Buffer.from([0xff]), Buffer.from('"}')]),
    );
    assert.equal(JSON.parse(bad.text).error.code, -32700);
  });
  test('failures are coded and keep their secrets', async () => {
    for (const [method, status, code] of [
      ['bug', 200, -32603],
      ['storeDown', 503, -32002],
      ['hang', 504, -32003],
    ] as const) {
      const answer = await post(call(method));
      assert.equal(answer.status, status);
      assert.equal(JSON.parse(answer.text).error.code, code);
      assert.doesNotMatch(answer.text, /pass/);
      assert.equal(answer.headers.get('retry-after'), status === 503 ? '1' : null);
    }
  });
  test('a method may check its params itself, and keep 200 for all that goes wrong', async () => {
    for (const [params, code, details] of [
      ['{"fail":"words"}', -32602, 'own words'],
      ['{"fail":"store"}', -32002, 'The database does not answer'],
      ['{"fail":"hang"}', -32003, 'ownWords took too long'],
      ['{"fail":"bug"}', -32603, null],
      // What is neither an object nor an array never gets there.
      ['7', -32602, 'params must be an object or an array'],
    ] as const) {
      const answer = await post(call('ownWords', params));
      const { error } = JSON.parse(answer.text);
      assert.deepEqual([answer.status, error.code], [200, code], params);
      if (details !== null) assert.equal(error.data.details, details);
      assert.doesNotMatch(answer.text, /pass/);
    }
    for (const [params, read] of [
      ['["not an integer"]', ['not an integer']],
      ['{"anything":1}', { anything: 1 }],
      ['null', []],
    ] as const)
      assert.deepEqual(JSON.parse((await post(call('ownWords', params))).text).result, read);
    assert.deepEqual(JSON.parse((await post(call('ownWords'))).text).result, []);
  });
});

describe('the gate', () => {
  for (const [key, status, code, message] of [
    ['', 401, -32001, 'Unauthorized'],
    ['wrong', 401, -32001, 'Unauthorized'],
    ['ip', 403, -32403, 'Forbidden: IP address not allowed for this API key'],
    ['plan', 403, -32403, 'Forbidden: the plan does not include this method'],
    ['permission', 403, -32403, 'Forbidden: this API key lacks permission for this method'],
    ['credits', 429, -32005, 'max usage reached'],
    ['rate', 429, -32005, 'Too many requests'],
  ] as const) {
    test(`${key === '' ? 'no key' : key}: ${status} / ${code} with the id of the call`, async () => {
      const answer = await post(call('getSlot', '[]', '"my id"'), key);
      assert.equal(answer.status, status);
      const parsed = JSON.parse(answer.text);
      assert.deepEqual([parsed.error.code, parsed.error.message, parsed.id], [code, message, 'my id']);
      assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
      assert.equal(answer.headers.get('retry-after'), status === 429 ? '3' : null);
      assert.equal(answer.headers.get('connection'), 'keep-alive');
    });
  }
  test('the id is looked for in 16 KiB only; without it the connection closes', async () => {
    const late = `{"jsonrpc":"2.0","method":"getSlot","params":["${'x'.repeat(40_000)}"],"id":5}`;
    const answer = await post(late, 'wrong');
    assert.equal(answer.status, 401);
    assert.equal(answer.text, error(-32001, 'Unauthorized', null, 'null'));
    assert.equal(answer.headers.get('connection'), 'close');
    const early = await post(late.replace('{"jsonrpc"', '{"id":6,"jsonrpc"').replace(',"id":5', ''), 'wrong');
    assert.equal(JSON.parse(early.text).id, 6);
  });
  test('a method that needs no key is answered without one, any other is not', async () => {
    assert.equal(JSON.parse((await post(call('getIndexerHealth'), '')).text).result, 'ok');
    assert.equal((await post(call('getIndexerHealth'), 'wrong')).status, 401);
    assert.equal((await post(`[${call('getIndexerHealth')}]`, '')).status, 401);
  });
  test('an oversize body is 413 with -32600', async () => {
    const answer = await post(call('getSlot', JSON.stringify(['x'.repeat(250_000)])));
    assert.equal(answer.status, 413);
    assert.equal(JSON.parse(answer.text).error.code, -32600);
    assert.equal(answer.headers.get('connection'), 'close');
  });
  test('rate headers are on metered answers', async () => {
    const answer = await post(call('getSlot'));
    assert.equal(answer.headers.get('x-ratelimit-limit'), '10');
    assert.equal(answer.headers.get('x-cache'), 'MISS');
  });
});

describe('forwarding', () => {
  test('the values go as they came, in members of ours, and the answer comes as it went', async () => {
    const body = ` {"method":"getBalance" ,\n"jsonrpc":"2.0","id":7,"params":[ {"text":"{\\"a\\":18446744073709551615, \\"b\\": 1.0}"},18446744073709551615,"\\u0041"]}\t`;
    const answer = await post(body);
    assert.equal(answer.text, '{"jsonrpc":"2.0", "result" : {"a":18446744073709551615, "b": 1.0},"id":7}');
    const seen = fallback.seen.at(-1);
    const params = body.slice(body.indexOf('[ {'), -2);
    assert.equal(seen?.body.toString(), `{"jsonrpc":"2.0","id":7,"method":"getBalance","params":${params}}`);
    assert.equal(seen?.body.toString('utf8', seen.params?.start, seen.params?.end), params);
    assert.deepEqual([seen?.method, seen?.id, seen?.seat, seen?.caller?.keyId], ['getBalance', '7', null, GOOD_KEY]);
  });
  test('a streamed answer arrives whole', async () => {
    const answer = await post(call('getBlock', '[{"stream":true,"text":"\\"pieces\\""}]'));
    assert.equal(answer.text, '{"jsonrpc":"2.0", "result" : "pieces","id":1}');
    assert.equal(answer.headers.get('content-length'), null);
  });
  test('error objects of the node pass with 200, ours use the table', async () => {
    const node = await post(call('sendTransaction', '[{"error":-32002}]'));
    assert.deepEqual([node.status, JSON.parse(node.text).error.message], [200, 'from the node']);
    const down = await post(call('getSlot', '[{"fail":"unavailable"}]'));
    assert.deepEqual([down.status, JSON.parse(down.text).error.code], [503, -32002]);
    assert.equal(down.headers.get('retry-after'), '7');
    const slow = await post(call('getSlot', '[{"fail":"timeout"}]'));
    assert.deepEqual([slow.status, JSON.parse(slow.text).error.code], [504, -32003]);
    const bug = await post(call('getSlot', '[{"fail":"bug"}]'));
    assert.deepEqual([bug.status, JSON.parse(bug.text).error.code], [200, -32603]);
    assert.doesNotMatch(bug.text, /token/);
  });
  test('a registered method never goes upstream, not even when it fails', async () => {
    const count = fallback.seen.length;
    await post(call('bug'));
    await post(call('storeDown'));
    assert.equal(fallback.seen.length, count);
  });
  test('big integers of local methods are bare, ready texts go as they are', async () => {
    assert.equal(
      (await post(call('bigNumber'))).text,
      '{"jsonrpc":"2.0","result":{"lamports":18446744073709551615},"id":1}',
    );
    assert.equal(
      (await post(call('readyText'))).text,
      '{"jsonrpc":"2.0","result":{"a": 1 , "b":18446744073709551615},"id":1}',
    );
  });
  test('bytes of a plugin are sent as they are, alone and in a batch', async () => {
    const [one, text] = [call('readyBytes', '', '"é"'), '{"jsonrpc":"2.0","result":{"a": 1 ,"b":"é🦊"},"id":"é"}'];
    const answer = await post(one);
    assert.deepEqual([answer.status, answer.text], [200, text]);
    assert.equal((await post(`[${one},${one}]`)).text, `[${text},${text}]`);
  });
});

describe('batches', () => {
  test('order stays although the items finish in reverse, local and forwarded mixed', async () => {
    const waits = [240, 210, 180, 150, 120, 90, 60, 30];
    const items = waits.map((ms, i) =>
      i % 2 === 0 ? call('wait', `[${ms}]`, `"i${i}"`) : call('getSlot', `[{"ms":${ms}, "text":"${ms}"}]`, `"i${i}"`),
    );
    const answer = await post(`[ ${items.join(' , ')} ]`);
    assert.equal(answer.status, 200);
    const parsed = JSON.parse(answer.text) as { id: string; result: number }[];
    assert.deepEqual(
      parsed.map((one) => one.id),
      waits.map((_, i) => `i${i}`),
    );
    assert.deepEqual(
      parsed.map((one) => one.result),
      waits,
    );
    const bodies = fallback.seen.slice(-4).map((one) => one.body.toString());
    assert.ok(
      bodies.every((body) => items.includes(body)),
      'items are forwarded as they were sent',
    );
  });
  test('every kind of item in its place', async () => {
    const answer = await post(
      `[${[
        call('getSlot', '[]', '1'),
        '7',
        '{"jsonrpc":"2.0","method":"getSlot"}',
        call('bug', '[]', '2'),
        call('getSlot', '[{"error":-32004}]', '1'),
        call('accountSubscribe', '[]', '4'),
        '{"jsonrpc":"2.0","id":5}',
        call('getCompressedAccountProof', '{}', '18446744073709551617'),
      ].join()}]`,
    );
    assert.equal(answer.status, 200);
    const parsed = JSON.parse(answer.text) as { id: unknown; error?: { code: number } }[];
    assert.deepEqual(
      parsed.map((one) => one.error?.code ?? 0),
      [0, -32600, -32603, -32004, -32601, -32600, -32602],
    );
    assert.deepEqual(
      parsed.slice(0, 6).map((one) => one.id),
      [1, null, 2, 1, 4, 5],
    );
    assert.ok(answer.text.endsWith('"id":18446744073709551617}]'));
  });
  test('empty, too many, only notifications, not JSON', async () => {
    const empty = await post('[]');
    assert.equal(empty.text, error(-32600, 'Invalid Request', 'the batch is empty', 'null'));
    const many = await post(`[${Array(51).fill(call('getSlot')).join()}]`);
    assert.equal(many.text, error(-32600, 'Invalid Request', 'a batch has at most 50 items', 'null'));
    const notifications = await post('[{"jsonrpc":"2.0","method":"getSlot"},{"jsonrpc":"2.0","method":"bug"}]');
    assert.deepEqual([notifications.status, notifications.text], [204, '']);
    assert.equal(JSON.parse((await post(`[${call('getSlot')},]`)).text).error.code, -32700);
  });
  test('whole refusals are one object with a null id', async () => {
    for (const [key, status] of [
      ['', 401],
      ['ip', 403],
      ['credits', 429],
      ['rate', 429],
    ] as const) {
      const answer = await post(`[${call('getSlot')},${call('getSlot')}]`, key);
      assert.equal(answer.status, status);
      assert.equal(JSON.parse(answer.text).id, null);
    }
  });
  test('a batch over a limit of the plan fails for every item; an item that the plan excludes fails alone', async () => {
    const limited = await post(`[${call('getSlot', '[]', '1')},${call('getSlot', '[]', '"b"')}]`, 'batch');
    assert.equal(limited.status, 200);
    assert.equal(
      limited.text,
      `[${error(-32600, 'Invalid Request', 'at most 2 items', '1')},${error(-32600, 'Invalid Request', 'at most 2 items', '"b"')}]`,
    );
    const partly = await post(`[${call('getSlot', '[]', '1')},${call('bigNumber', '[]', '2')}]`, 'plan:bigNumber');
    const parsed = JSON.parse(partly.text);
    assert.deepEqual([parsed[0].result, parsed[1].error.code], [1, -32403]);
    assert.deepEqual(front.gate.admitted.slice(-2), [['getSlot', 'bigNumber'], ['getSlot']]);
  });
  test('answers that are too large together are cut item by item', async () => {
    const items = [1, 2, 3, 4].map((id) => call('getBlock', '[{"bytes":20000,"stream":true}]', String(id)));
    const parsed = JSON.parse((await post(`[${items.join()}]`)).text) as { id: number; error?: { data: object } }[];
    assert.deepEqual(
      parsed.map((one) => one.id),
      [1, 2, 3, 4],
    );
    const refused = parsed.filter((one) => one.error !== undefined);
    assert.equal(refused.length, 2);
    assert.deepEqual(refused[0]?.error?.data, { details: 'batch answer too large' });
  });
  test('at most eight items run at once', async () => {
    let running = 0;
    let most = 0;
    const narrow = await startFront({
      methods: sampleMethods().map((method) => ({
        ...method,
        handler: async (one) => {
          running += 1;
          most = Math.max(most, running);
          await new Promise((resolve) => setTimeout(resolve, 5));
          running -= 1;
          return method.handler(one);
        },
      })),
    });
    const body = `[${Array(40).fill(call('bigNumber')).join()}]`;
    const response = await fetch(`${narrow.url}/?api-key=${GOOD_KEY}`, { method: 'POST', body });
    assert.equal(((await response.json()) as unknown[]).length, 40);
    await narrow.stop();
    assert.equal(most, 8);
  });
});

describe('without an upstream', () => {
  test('unknown methods say so, and an allow list hides the rest', async () => {
    const bare = await startFront({ methods: sampleMethods() });
    const ask = async (target: TestFront, method: string) => {
      const response = await fetch(`${target.url}?api-key=${GOOD_KEY}`, { method: 'POST', body: call(method) });
      return (await response.json()) as { error?: { code: number; data?: { details: string } }; result?: unknown };
    };
    const unknown = await ask(bare, 'getSlot');
    assert.deepEqual(unknown.error?.data, { details: 'no Solana upstream is configured' });
    await bare.stop();
    const listed = await startFront({ methods: sampleMethods(), fallback, rpc: { allowMethods: ['getSlot'] } });
    assert.equal((await ask(listed, 'getSlot')).result, 1);
    assert.equal((await ask(listed, 'getHealth')).error?.code, -32601);
    assert.notEqual((await ask(listed, 'bigNumber')).result, undefined);
    await listed.stop();
  });
  test('without a gate every key is refused', async () => {
    const bare = await startFront({ methods: sampleMethods(), withoutGate: true });
    const response = await fetch(`${bare.url}/?api-key=${GOOD_KEY}`, { method: 'POST', body: call('bigNumber') });
    assert.equal(response.status, 401);
    await response.arrayBuffer();
    await bare.stop();
  });
});

test('a caller that leaves aborts the signal of its forwarded call', async () => {
  const connection = rawConnect(front.port);
  const body = call('getSlot', '[{"ms":400}]');
  const count = fallback.seen.length;
  connection.send(`POST /?api-key=${GOOD_KEY} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  for (let i = 0; i < 200 && fallback.seen.length === count; i += 1)
    await new Promise((resolve) => setTimeout(resolve, 5));
  const signal = fallback.seen.at(-1)?.signal as AbortSignal;
  assert.equal(signal.aborted, false);
  connection.destroy();
  await new Promise<void>((resolve) =>
    signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve()),
  );
});
