import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import { messageId, newSecret, secretKey, signBody } from './send.ts';

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const SIGNATURE = '3S5qvcoSvmrQpET9hHe7HkdwM2gcnfw3JvNggdiRTEHBhTXFT4P6evChpc7Dt8hu4UaNoAz6XHhHAXLfepbo2rag';

test('the published vector', () => {
  const body = Buffer.from('{"test": 2432232314}');
  assert.equal(
    signBody([secretKey(SECRET)], 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330, body),
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  );
});

test('the id is derived from webhook and transaction', () => {
  const id = messageId('3f2b8a4e-1c5d-4e7a-9b60-0a1b2c3d4e5f', SIGNATURE);
  assert.equal(id, 'msg_faf93fd6d99fb1b3efca9ae40054c7d9');
  assert.equal(
    signBody([secretKey(SECRET)], id, 1_732_985_061, Buffer.from('[]')),
    'v1,U8TD0LZ1aS1Qh5QMnPPn38x46+GL6wYydhtu5WNwRzQ=',
  );
});

test('an independent implementation accepts every body with each of the keys, and no modified one', () => {
  const random = createSystemRandom();
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), fc.integer({ min: 1, max: 4 }), (text, count) => {
      const secrets = Array.from({ length: count }, () => newSecret(random));
      const body = Buffer.from(text);
      const timestamp = Math.floor(Date.now() / 1_000);
      const headers = {
        'webhook-id': 'msg_1',
        'webhook-timestamp': String(timestamp),
        'webhook-signature': signBody(secrets.map(secretKey), 'msg_1', timestamp, body),
      };
      for (const secret of secrets) {
        new Webhook(secret).verify(text, headers, { jsonParse: false } as never);
        assert.throws(() => new Webhook(secret).verify(`${text}x`, headers));
        assert.throws(() => new Webhook(newSecret(random)).verify(text, headers));
      }
    }),
    { numRuns: 50 },
  );
});

test('secrets have the format of the standard and 32 random bytes', () => {
  const secrets = Array.from({ length: 100 }, () => newSecret(createSystemRandom()));
  assert.equal(new Set(secrets).size, 100);
  for (const secret of secrets) {
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.equal(secretKey(secret).length, 32);
  }
});
