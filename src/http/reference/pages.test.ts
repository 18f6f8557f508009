import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliCompressSync, gunzipSync } from 'node:zlib';
import { compressedFileOf, fileOf, fileReply } from './pages.ts';

const TEXT = 'a file that strangers ask for. '.repeat(1_000);

test('a file is compressed once, for whatever number of clients', () => {
  for (const file of [fileOf('a.js', TEXT), compressedFileOf('a.js', brotliCompressSync(TEXT))]) {
    const [first, second] = [1, 2].map(() => fileReply(file, { 'accept-encoding': 'gzip, zstd' }));
    assert.equal(first?.headers?.['Content-Encoding'], 'gzip');
    assert.equal(gunzipSync(first?.bytes ?? '').toString(), TEXT);
    assert.equal(first?.bytes, second?.bytes, 'the same bytes');
    const plain = fileReply(file, { 'accept-encoding': 'zstd, gzip;q=0' });
    assert.equal(Buffer.from(plain.bytes ?? '').toString(), TEXT);
    assert.match(plain.headers?.['Cache-Control'] ?? '', /no-transform/, 'nobody compresses it anew');
  }
});
