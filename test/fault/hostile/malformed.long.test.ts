import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { RawAnswer } from '../../helpers/raw-http.ts';
import { type HostileBed, outcome, startHostileBed } from './harness.ts';

let bed: HostileBed;
before(async () => {
  bed = await startHostileBed({ http: { headerTimeoutMs: 1_500, requestTimeoutMs: 2_000, keepAliveTimeoutMs: 1_000 } });
});
after(() => bed?.stop());

const PLANTED = 'GET /planted HTTP/1.1\r\nHost: x\r\n\r\n';

/** All answers until the connection closes or nothing comes for as long as a request may take. */
async function answersTo(bytes: string | Buffer): Promise<{ statuses: number[]; texts: string[]; closed: boolean }> {
  const connection = bed.connect();
  connection.send(bytes);
  const statuses: number[] = [];
  const texts: string[] = [];
  for (;;) {
    const answer: RawAnswer | null = await connection.answer().catch(() => null);
    if (answer === null) return { statuses, texts, closed: true };
    statuses.push(answer.status);
    texts.push(answer.body);
    if (statuses.length > 5) return { statuses, texts, closed: false };
  }
}

describe('bodies whose length two readers could read differently', () => {
  const chunked = `4\r\n{  }\r\n0\r\n\r\n`;
  const heads: Record<string, string> = {
    'length and chunks': `Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`,
    'chunks and length': `Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n${chunked}`,
    'two lengths': 'Content-Length: 4\r\nContent-Length: 5\r\n\r\n{  }',
    'a list of lengths': 'Content-Length: 4, 4\r\n\r\n{  }',
    'a length with a sign': 'Content-Length: +4\r\n\r\n{  }',
    'a negative length': 'Content-Length: -4\r\n\r\n{  }',
    'a hexadecimal length': 'Content-Length: 0x4\r\n\r\n{  }',
    'a length with an exponent': 'Content-Length: 4e0\r\n\r\n{  }',
    'a length beyond all integers': 'Content-Length: 99999999999999999999\r\n\r\n{  }',
    'an empty length': 'Content-Length:\r\n\r\n{  }',
    'an unknown coding': `Transfer-Encoding: xchunked\r\n\r\n${chunked}`,
    'chunked, then another coding': `Transfer-Encoding: chunked, identity\r\n\r\n${chunked}`,
    'a blank before the colon': `Transfer-Encoding : chunked\r\n\r\n${chunked}`,
    'a folded coding': `Transfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n\r\n${chunked}`,
    'a vertical tab in the coding': `Transfer-Encoding: \u000bchunked\r\n\r\n${chunked}`,
    'a NUL in a header': `X-A: a\u0000b\r\nContent-Length: 4\r\n\r\n{  }`,
    'a bare carriage return in a header': `X-A: a\rContent-Length: 4\r\n\r\n{  }`,
    'a bare carriage return at the end of a line': `Content-Length: 4\r\r\n{  }`,
    'a header without a name': `: a\r\nContent-Length: 4\r\n\r\n{  }`,
    'a chunk size with a sign': 'Transfer-Encoding: chunked\r\n\r\n+4\r\n{  }\r\n0\r\n\r\n',
    'a chunk size with 0x': 'Transfer-Encoding: chunked\r\n\r\n0x4\r\n{  }\r\n0\r\n\r\n',
    'a chunk size beyond all integers': 'Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff4\r\n{  }\r\n0\r\n\r\n',
    'a chunk longer than it says': 'Transfer-Encoding: chunked\r\n\r\n3\r\n{  }\r\n0\r\n\r\n',
    'a chunk that ends with a line feed': 'Transfer-Encoding: chunked\r\n\r\n4\r\n{  }\n0\r\n\r\n',
    'a chunk size that ends with a line feed': 'Transfer-Encoding: chunked\r\n\r\n4\n{  }\r\n0\r\n\r\n',
    'a chunk extension with a line feed': 'Transfer-Encoding: chunked\r\n\r\n4;a=\nb\r\n{  }\r\n0\r\n\r\n',
  };
  for (const [name, head] of Object.entries(heads)) {
    test(`${name}: one refusal, and what follows is not taken for a request`, async () => {
      await bed.during(async () => {
        const { statuses, texts, closed } = await answersTo(
          `POST /v0/webhooks HTTP/1.1\r\nHost: x\r\n${head}${PLANTED}`,
        );
        assert.ok(closed);
        assert.ok(statuses.length <= 1, `${statuses}`);
        for (const status of statuses) assert.ok([400, 401].includes(status), `${statuses}: ${texts}`);
        for (const text of texts) assert.doesNotThrow(() => JSON.parse(text));
      });
    });
  }
  test('an unread body is never taken for a request', async () => {
    for (const target of ['/', '/nothing', '/v0/webhooks', '/ping', '/fast']) {
      const { statuses, texts } = await answersTo(
        `POST ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${PLANTED.length}\r\n\r\n${PLANTED}`,
      );
      assert.equal(statuses.length, 1, `${target}: ${texts}`);
    }
    const { statuses } = await answersTo(
      `GET /ping HTTP/1.1\r\nHost: x\r\nContent-Length: ${PLANTED.length}\r\n\r\n${PLANTED}GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
    );
    assert.deepEqual(statuses, [200, 200]);
  });
});

test('request targets and methods in every odd form are refused as JSON or found unknown', async () => {
  const targets = [
    '*',
    '?',
    '//',
    '///',
    '/..',
    '/../../etc/passwd',
    '/%',
    '/%2',
    '/%00',
    '/%ff',
    '/%2e%2e/',
    '/\\..\\x',
    '#',
    '/#x',
    'http://',
    'http:///',
    'http://x',
    'http://x:99999/',
    'http://[::1',
    'https://u:p@h/ping',
    'ftp://x/',
    'x',
    ':',
    '/ping\u0009',
    '/ping;x',
    '/PING',
    '/ping%20',
    '/__proto__',
    '/constructor',
    '/v0/webhooks/__proto__',
    '/toString',
    '/v0/__proto__/x',
    '/v1/wallet/__proto__/balances',
    '/é',
    '/\u0080',
    '/ping?\u00ff',
    `/${'a/'.repeat(4_000)}`,
    '/ping?__proto__=1&constructor=2',
    '/ping?api-key=%00',
    `/ping?${'&'.repeat(7_000)}`,
    `/ping?${'a=1&'.repeat(2_000)}`,
    '/ping HTTP/1.1 x',
    '/ping  ',
    'HTTP/1.1',
    '/\u007f',
    '/ping?api-key[]=x',
    '/ping?api-key[__proto__][x]=y',
  ];
  await bed.during(async () => {
    for (const method of [
      'GET',
      'POST',
      'HEAD',
      'OPTIONS',
      'DELETE',
      'PATCH',
      'TRACE',
      'PROPFIND',
      'CONNECT',
      'get',
      'G\u0000T',
    ])
      for (const target of targets) {
        const connection = bed.connect();
        connection.send(
          Buffer.from(
            `${method} ${target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
            'latin1',
          ),
        );
        const answer = await connection.answer({ noBody: method === 'HEAD' }).catch(() => null);
        connection.destroy();
        const what = `${method} ${JSON.stringify(target.slice(0, 60))}`;
        assert.ok(answer !== null, `${what} is not answered`);
        assert.ok(answer.status < 500, `${what}: ${answer.status} ${answer.body}`);
        const type = answer.headers['content-type'] ?? '';
        if (method !== 'HEAD' && type.startsWith('application/json') && answer.body !== '')
          assert.doesNotThrow(() => JSON.parse(answer.body), what);
        else if (answer.status >= 400 && !target.includes('ping')) assert.match(type, /^application\/json/, what);
      }
  });
});

test('huge and many headers', async () => {
  await bed.during(async () => {
    const head = (lines: string) => `GET /ping HTTP/1.1\r\nHost: x\r\n${lines}\r\n`;
    for (const [lines, allowed] of [
      [`X-A: ${'a'.repeat(5_000_000)}\r\n`, [431, 'closed']],
      [`${'a'.repeat(1_000_000)}: b\r\n`, [431, 'closed']],
      ['A: b\r\n'.repeat(100_000), [431, 'closed']],
      ['A: b\r\n'.repeat(3_000), [200, 431]],
      [`X-Api-Key: ${'a'.repeat(10_000)}\r\n`, [200]],
      ['__proto__: 1\r\nconstructor: 2\r\ntoString: 3\r\nhasOwnProperty: 4\r\n', [200]],
      [`Authorization: bearer ${' '.repeat(15_000)}\r\n`, [200]],
      [`X-Forwarded-For: ${'1.1.1.1,'.repeat(1_500)}\r\n`, [200]],
    ] as const) {
      const connection = bed.connect();
      connection.send(head(lines));
      const result = await outcome(connection);
      assert.ok((allowed as readonly unknown[]).includes(result), `${lines.slice(0, 30)}: ${result}`);
      connection.destroy();
    }
  });
});

describe('JSON', () => {
  const deep = (count: number) => '['.repeat(count);
  const members = (count: number, name: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => `${JSON.stringify(name(i))}:1`).join(',');
  const ask = (params: string) => `{"jsonrpc":"2.0","method":"getHello","id":1,"params":${params}}`;
  const documents: Record<string, string> = {
    'a million open brackets': deep(1_000_000),
    'half a million closed ones': deep(500_000) + ']'.repeat(500_000),
    'objects in objects': '{"a":'.repeat(200_000),
    'depth 65': deep(65) + ']'.repeat(65),
    'deep params': ask(deep(5_000) + ']'.repeat(5_000)),
    'a long string': `"${'x'.repeat(1_000_000)}"`,
    'a string of backslashes': `"${'\\\\'.repeat(500_000)}"`,
    'a string without end': `"${'\\"'.repeat(500_000)}`,
    'a long number': '9'.repeat(1_000_000),
    'a number beyond all': ask('[1e999999]'),
    'a long fraction': ask(`[0.${'1'.repeat(900_000)}]`),
    'half a million items': `[${'1,'.repeat(500_000)}1]`,
    'as many empty batches': `[${'[],'.repeat(300_000)}[]]`,
    'as many members': `{${members(70_000, (i) => `k${i}`)}}`,
    'members that are twins': `{${members(100_000, () => 'method')}}`,
    'blanks only': ' '.repeat(1_000_000),
    'blanks between': `[${' '.repeat(1_000_000 - 2)}]`,
    'a batch of thousands': `[${Array.from({ length: 5_000 }, () => ask('[]')).join(',')}]`,
    'a lone surrogate': '{"jsonrpc":"2.0","method":"\\ud800","id":"\\udfff"}',
    'an escaped NUL': '{"jsonrpc":"2.0","method":"a\\u0000b","id":"\\u0000"}',
    'a long id': `{"jsonrpc":"2.0","method":"nope","id":"${'i'.repeat(900_000)}"}`,
    'a long method': `{"jsonrpc":"2.0","method":"${'m'.repeat(900_000)}","id":1}`,
    nothing: '',
    NUL: '\u0000',
  };
  for (const [name, text] of Object.entries(documents)) {
    test(`${name}: an error in the shape of the group`, async () => {
      await bed.during(async () => {
        const rpc = await bed.rpc(text);
        assert.ok([200, 413].includes(rpc.status), `${rpc.status}`);
        const answer = await rpc.text();
        if (answer !== '') JSON.parse(answer);
        for (const path of ['/v0/webhooks', '/v0/webhooks/8c6e0d7c-1111-4111-8111-111111111111/addresses', '/fast']) {
          const rest = await fetch(`${bed.daemon.apiUrl}${path}?api-key=${bed.daemon.key}`, {
            method: 'POST',
            body: text,
          });
          assert.ok(rest.status >= 400 || path === '/fast', `${path}: ${rest.status}`);
          assert.ok(rest.status < 500, `${path}: ${rest.status} ${await rest.clone().text()}`);
          assert.ok(typeof ((await rest.json()) as { error: unknown }).error !== 'undefined');
        }
      });
    });
  }

  test('the limit of depth is what refuses deep documents, and only those', async () => {
    const nested = (depth: number) => `${deep(depth)}${']'.repeat(depth)}`;
    const webhooks = (body: string) =>
      fetch(`${bed.daemon.apiUrl}/v0/webhooks?api-key=${bed.daemon.key}`, { method: 'POST', body });
    // The request object itself is one level.
    for (const [depth, isDeep] of [
      [63, false],
      [64, true],
    ] as const) {
      assert.equal((await (await bed.rpc(ask(nested(depth)))).text()).includes('nested deeper than 64 levels'), isDeep);
      const member = `{"webhookURL":${nested(depth)}}`;
      assert.equal((await (await webhooks(member)).text()).includes('Nested deeper than 64 levels'), isDeep);
    }
  });

  test('names of prototypes are names like any other', async () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', 'prototype']) {
      const hook = await fetch(`${bed.daemon.apiUrl}/v0/webhooks?api-key=${bed.daemon.key}`, {
        method: 'POST',
        body: `{"${name}":{"webhookURL":"https://example.com","webhookType":"raw","accountAddresses":["11111111111111111111111111111111"]}}`,
      });
      assert.equal(hook.status, 400, name);
      const types = await fetch(`${bed.daemon.apiUrl}/v0/webhooks?api-key=${bed.daemon.key}`, {
        method: 'POST',
        body: `{"webhookURL":"https://example.com","webhookType":"${name}","transactionTypes":["${name}"],"accountAddresses":[]}`,
      });
      assert.equal(types.status, 400, name);
      const method = await bed.rpc(`{"jsonrpc":"2.0","method":"${name}","id":1}`);
      const { error } = (await method.json()) as { error: { code: number } };
      assert.equal(error.code, -32601, name);
      const member = await bed.rpc(`{"jsonrpc":"2.0","${name}":{"id":7},"method":"getHello","id":1}`);
      assert.deepEqual(await member.json(), { jsonrpc: '2.0', result: 'hello', id: 1 });
      const only = await bed.rpc(`{"${name}":{"jsonrpc":"2.0","method":"getHello","id":1}}`);
      assert.equal(((await only.json()) as { error: { code: number } }).error.code, -32600, name);
    }
  });
});
