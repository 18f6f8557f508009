/** A service that is not what it should be: `parhelion signup` gives up with a coded error. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { askForKey, askTerms, demandSafeAddress } from './signup.ts';

const PROOF = { wallet: 'w', payment: 'p', key: 'k', proof: 's' };

async function serve(t: TestContext, answer: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((_request, response) => answer(response)).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

for (const text of ['null', '[]', '"x"', '7', '{'])
  test(`an answer ${text} is neither terms nor a project`, async (t) => {
    const url = await serve(t, (response) => response.end(text));
    await assert.rejects(askTerms(url), { code: 'SIGNUP_SERVICE', exitCode: 75 });
    await assert.rejects(askForKey(url, PROOF), { code: 'SIGNUP_SERVICE', exitCode: 75 });
  });

test('an answer without end is cut', { timeout: 10_000 }, async (t) => {
  let isClosed: Promise<unknown> = Promise.resolve();
  const url = await serve(t, (response) => {
    isClosed = once(response, 'close');
    response.on('error', () => undefined);
    const more = () => {
      while (response.write(Buffer.alloc(65_536, 0x20)));
    };
    response.on('drain', more);
    more();
  });
  await assert.rejects(askTerms(url), { code: 'SIGNUP_SERVICE', message: /too long/ });
  await isClosed;
});

test('an error text changes nothing on a terminal', async (t) => {
  const url = await serve(t, (response) => {
    response.statusCode = 400;
    response.end(JSON.stringify({ error: '\u001b[2Jpaid\u202e\u2066\u009b1A' }));
  });
  await assert.rejects(askForKey(url, PROOF), { code: 'SIGNUP_REFUSED', message: /400: {2}\[2Jpaid {3}1A$/ });
});

test('plain http is for this machine alone, in every spelling', () => {
  for (const url of ['http://127.0.0.1', 'http://2130706433', 'http://0x7f.1', 'http://[::1]:1', 'http://localhost'])
    demandSafeAddress(url);
  for (const url of [
    'http://127.0.0.1@evil.example',
    'http://127.0.0.1.evil.example',
    'http://localhost.evil.example',
    'http://[::ffff:8.8.8.8]',
    'HTTP://evil.example',
    'file:///etc/passwd',
  ])
    assert.throws(() => demandSafeAddress(url), { code: 'SIGNUP_USAGE' }, url);
});
