import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byCase } from '../../helpers/run-part.ts';
import type { Behaviour } from '../../helpers/upstream.ts';
import { call, post, startBed, until } from './rpc-client.ts';

test('values are forwarded and answers returned unchanged', async (t) => {
  const bed = await startBed(t);
  const answer =
    '{ "jsonrpc":"2.0",\n "result" : {"lamports":18446744073709551615,"s":"\\u00e9\\/","n":1.0e+2} ,"id":"\\u0061" }\n';
  bed.first.on('getOdd', { chunks: [answer.slice(0, 7), answer.slice(7)] });
  const request =
    '{"params" : [18446744073709551615, "\\u00e9 \\/"],\t"jsonrpc":"2.0", "method":"getOdd" ,"id" : "\\u0061"}';
  const { status, text, headers } = await post(bed, request);
  assert.equal(status, 200);
  assert.equal(text, answer);
  assert.match(headers.get('content-type')!, /^application\/json/);
  assert.equal(
    bed.first.callsOf('getOdd')[0]!.body,
    '{"jsonrpc":"2.0","id":"\\u0061","method":"getOdd","params":[18446744073709551615, "\\u00e9 \\/"]}',
  );
});

test('an answer of several megabytes is streamed byte for byte', async (t) => {
  const bed = await startBed(t);
  const answer = `{"jsonrpc":"2.0","result":"${'0123456789abcdef'.repeat(300_000)}","id":1}`;
  bed.first.on('getBig', { chunks: [answer.slice(0, 3_000_000), answer.slice(3_000_000)] });
  assert.equal((await post(bed, call('getBig'))).text, answer);
});

test('a large answer begins to flow before the upstream has finished', async (t) => {
  const bed = await startBed(t);
  bed.first.on('getBig', { chunks: [`{"jsonrpc":"2.0","result":"${'x'.repeat(400_000)}`], end: false });
  const response = await fetch(`${bed.daemon.apiUrl}/?api-key=${bed.daemon.key}`, {
    method: 'POST',
    body: call('getBig'),
  });
  const reader = response.body!.getReader();
  assert.equal(Buffer.from((await reader.read()).value!).toString('utf8', 0, 17), '{"jsonrpc":"2.0",');
  await reader.cancel();
  await until('the upstream call is aborted', () => bed.first.callsOf('getBig')[0]!.aborted());
});

test('the upstream gets our headers and none of the caller’s', async (t) => {
  const bed = await startBed(t);
  bed.first.on('getX', { result: '1' });
  const headers = {
    authorization: 'Bearer caller-secret',
    cookie: 'session=caller-secret',
    'x-forwarded-for': '203.0.113.9',
    'x-api-key': bed.daemon.key,
    'user-agent': 'caller/1.0',
    'x-helius-client': 'sdk',
  };
  await post(bed, call('getX'), { headers, query: '&rebate-address=secret' });
  const [seen] = bed.first.callsOf('getX');
  const text = JSON.stringify(seen!.headers);
  assert.doesNotMatch(text, /caller|203\.0\.113\.9|rebate|helius/);
  assert.equal(text.includes(bed.daemon.key), false);
  assert.match(String(seen!.headers['user-agent']), /^parhelion/);
  assert.match(String(seen!.headers['content-type']), /^application\/json/);
});

test('an upstream error object is returned with 200, whatever its HTTP status', async (t) => {
  const bed = await startBed(t);
  const body =
    '{"jsonrpc":"2.0","error":{"code":-32002,"message":"Transaction simulation failed","data":{"n":18446744073709551615}},"id":1}';
  for (const status of [200, 400, 404, 500]) {
    bed.first.on('sendTransaction', { status, chunks: [body] });
    const { status: seen, text } = await post(bed, call('sendTransaction', ['x']));
    assert.deepEqual([seen, text], [200, body], String(status));
  }
  const unknown = await post(bed, call('noSuchMethod'));
  assert.deepEqual([unknown.status, JSON.parse(unknown.text).error.code], [200, -32601]);
});

const failures: Record<string, Behaviour> = {
  reset: { fault: 'reset' },
  '500': { status: 500, chunks: ['oops'] },
  '502 html': { status: 502, headers: { 'content-type': 'text/html' }, chunks: ['<html>bad gateway</html>'] },
  '503 empty': { status: 503, chunks: [] },
  '503 with a gateway’s error object': {
    status: 503,
    chunks: ['{"jsonrpc":"2.0","error":{"code":-32603,"message":"x"},"id":null}'],
  },
  '200 html': { headers: { 'content-type': 'text/html' }, chunks: ['<!doctype html><p>login</p>'] },
  '200 empty': { chunks: [] },
  '200 truncated': { chunks: ['{"jsonrpc":"2.0","result":{"a":[1,2'] },
  '200 with a mark': { chunks: ['\ufeff{"jsonrpc":"2.0","result":1,"id":1}'] },
  '200 with more behind': { chunks: ['{"jsonrpc":"2.0","result":1,"id":1}<!-- x -->'] },
  '200 array': { chunks: ['[{"jsonrpc":"2.0","result":1,"id":1}]'] },
  '200 large html': { chunks: [`<html>${'x'.repeat(300_000)}</html>`] },
  '404 html': { status: 404, chunks: ['<html></html>'] },
  '401': { status: 401, chunks: ['{"jsonrpc":"2.0","error":{"code":-32401,"message":"bad key SECRET"},"id":1}'] },
  '403': { status: 403, chunks: ['no'] },
  '429': {
    status: 429,
    headers: { 'retry-after': '17' },
    chunks: ['{"jsonrpc":"2.0","error":{"code":429,"message":"slow down"},"id":1}'],
  },
  cut: { fault: 'cut', body: '{"jsonrpc":"2.0","result":{"a":' },
};

test('every kind of failure goes to the next upstream', async (t) => {
  for (const [name, behaviour] of Object.entries(failures)) {
    await t.test(name, async (t) => {
      const bed = await startBed(t, { upstreams: 2 });
      bed.first.on('getX', behaviour);
      bed.second.on('getX', { result: '"second"' });
      const { status, text } = await post(bed, call('getX'));
      assert.deepEqual([status, text], [200, '{"jsonrpc":"2.0","result":"second","id":1}']);
      // The end of a kept connection says nothing of the call, which is sent again (kept-connections.test.ts).
      const most = name === 'reset' ? 4 : 1;
      const { length } = bed.first.callsOf('getX');
      assert.ok(length >= 1 && length <= most, `${length} calls`);
      assert.equal(bed.second.callsOf('getX').length, 1);
    });
  }
});

test('every kind of failure is 503 / -32002 when no upstream is left, and reveals nothing about the upstream', async (t) => {
  for (const [name, behaviour] of Object.entries(failures)) {
    await t.test(name, async (t) => {
      const bed = await startBed(t);
      bed.first.on('getX', behaviour);
      const { status, text, headers } = await post(bed, '{"jsonrpc":"2.0","id":"a b","method":"getX"}');
      assert.equal(status, 503);
      const { error, id } = JSON.parse(text);
      assert.deepEqual([error.code, error.message, id], [-32002, 'Service unavailable', 'a b']);
      assert.equal(headers.get('retry-after'), name === '429' ? '17' : '1');
      const port = new URL(bed.first.url).port;
      assert.doesNotMatch(text + JSON.stringify([...headers]), new RegExp(`${port}|127\\.0\\.0\\.1|SECRET|html`));
    });
  }
});

test('a dead upstream: the next one, else 503', async (t) => {
  const bed = await startBed(t, { upstreams: 2 });
  bed.second.on('getX', { result: '2' });
  await bed.first.down();
  assert.equal((await post(bed, call('getX'))).text, '{"jsonrpc":"2.0","result":2,"id":1}');
  await bed.second.down();
  const { status, text } = await post(bed, call('getX'));
  assert.equal(status, 503);
  assert.equal(JSON.parse(text).error.code, -32002);
});

test('at most one retry', async (t) => {
  const bed = await startBed(t, { upstreams: 3 });
  for (const upstream of bed.upstreams) upstream.on('getX', { status: 500, chunks: ['x'] });
  assert.equal((await post(bed, call('getX'))).status, 503);
  assert.equal(bed.upstreams.flatMap((upstream) => upstream.callsOf('getX')).length, 2);
});

byCase(['sendTransaction', 'sendBundle', 'requestAirdrop'], (methods) =>
  test('sending is repeated only when nothing can have been sent', async (t) => {
    for (const method of methods) {
      for (const [name, behaviour] of Object.entries(failures)) {
        // These refuse the key or the rate before they read the call.
        const isRepeated = ['401', '403', '429'].includes(name);
        await t.test(`${method}, ${name}`, async (t) => {
          const bed = await startBed(t, { upstreams: 2 });
          bed.first.on(method, behaviour);
          bed.second.on(method, { result: '"sent"' });
          assert.equal((await post(bed, call(method, ['x']))).status, isRepeated ? 200 : 503);
          assert.equal(bed.second.callsOf(method).length, isRepeated ? 1 : 0);
        });
      }
      await t.test(`${method}, connection refused`, async (t) => {
        const bed = await startBed(t, { upstreams: 2 });
        bed.second.on(method, { result: '"sent"' });
        await bed.first.down();
        assert.equal((await post(bed, call(method, ['x']))).status, 200);
        assert.equal(bed.second.callsOf(method).length, 1);
      });
    }
  }),
);

test('a slow upstream is 504 / -32003', async (t) => {
  // On a busy machine the daemon's own calls take longer than a shorter time, and the upstream rests.
  const bed = await startBed(t, { config: { rpc: { upstreamTimeoutMs: 1_000 } } });
  bed.first.on('getX', { fault: 'hang' });
  const { status, text } = await post(bed, call('getX'));
  assert.deepEqual([status, JSON.parse(text).error.code, JSON.parse(text).id], [504, -32003, 1]);
  await until('the upstream call is aborted', () => bed.first.callsOf('getX')[0]!.aborted());
  bed.first.on('getX', { chunks: ['{"jsonrpc":'], end: false });
  assert.equal((await post(bed, call('getX'))).status, 504);
});

test('an answer beyond the limit is cut off', async (t) => {
  const bed = await startBed(t, { config: { rpc: { maxUpstreamBytes: 1_000_000 } } });
  const answer = `{"jsonrpc":"2.0","result":"${'x'.repeat(5_000_000)}","id":1}`;
  bed.first.on('getX', { chunks: [answer] });
  await assert.rejects(post(bed, call('getX')), /terminated|other side closed|fetch failed/);
  const inBatch = JSON.parse((await post(bed, `[${call('getX')}]`)).text);
  assert.equal(inBatch[0].error.code, -32603);
  const small = await post(bed, call('getSlot'));
  assert.equal(small.status, 200);
});

test('when the caller disconnects the upstream call is aborted', async (t) => {
  const bed = await startBed(t);
  bed.first.on('getX', { fault: 'hang' });
  const controller = new AbortController();
  const pending = post(bed, call('getX'), { signal: controller.signal });
  await until('the call arrives', () => bed.first.callsOf('getX').length === 1);
  controller.abort();
  await assert.rejects(pending);
  await until('the upstream call is aborted', () => bed.first.callsOf('getX')[0]!.aborted());
});

test('a truncated answer is truncated for the caller too', async (t) => {
  const bed = await startBed(t, { upstreams: 2 });
  bed.first.on('getX', { fault: 'cut', body: `{"jsonrpc":"2.0","result":"${'x'.repeat(400_000)}` });
  await assert.rejects(post(bed, call('getX')), /terminated|other side closed|fetch failed/);
});

test('a caller stays on the upstream that last answered it', async (t) => {
  const bed = await startBed(t, { upstreams: 2 });
  for (const upstream of bed.upstreams) upstream.on('getX', { result: '1' });
  bed.first.on('getY', { status: 500, chunks: ['x'] });
  bed.second.on('getY', { result: '1' });
  await post(bed, call('getX'));
  await post(bed, call('getY'));
  for (let i = 0; i < 3; i++) await post(bed, call('getX'));
  assert.deepEqual([bed.first.callsOf('getX').length, bed.second.callsOf('getX').length], [1, 3]);
});

test('notifications are executed and answered with 204', async (t) => {
  const bed = await startBed(t);
  bed.first.on('getX', { chunks: [] });
  const { status, text } = await post(bed, '{"jsonrpc":"2.0","method":"getX"}');
  assert.deepEqual([status, text], [204, '']);
  assert.equal(bed.first.callsOf('getX').length, 1);
});

test('batches: request order, mixed failures, big integers', async (t) => {
  const bed = await startBed(t);
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  bed.first.on('getSlow', async () => {
    await gate;
    return { result: '18446744073709551615' };
  });
  bed.first.on('getFast', () => {
    release();
    return { result: '"fast"' };
  });
  bed.first.on('getBroken', { status: 500, chunks: ['x'] });
  const items = [
    '{"jsonrpc":"2.0","id":1,"method":"getSlow"}',
    '{"jsonrpc":"2.0","id":1,"method":"getFast" , "params":[ 18446744073709551615 ]}',
    '{"jsonrpc":"2.0","id":"c","method":"getBroken"}',
  ];
  const { status, text } = await post(bed, `[${items.join(' , ')}]`);
  assert.equal(status, 200);
  assert.ok(
    text.startsWith(
      '[{"jsonrpc":"2.0","result":18446744073709551615,"id":1},{"jsonrpc":"2.0","result":"fast","id":1},',
    ),
  );
  assert.deepEqual(JSON.parse(text)[2].error.code, -32002);
  assert.equal(
    bed.first.callsOf('getFast')[0]!.body,
    '{"jsonrpc":"2.0","id":1,"method":"getFast","params":[ 18446744073709551615 ]}',
  );
});

test('control methods of a local chain are not forwarded', async (t) => {
  const bed = await startBed(t);
  bed.first.on('local_seal', { result: '1' });
  assert.equal(JSON.parse((await post(bed, call('local_seal'))).text).error.code, -32601);
  assert.equal(bed.first.callsOf('local_seal').length, 0);
});
