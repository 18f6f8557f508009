import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { metadataText } from './idl-accounts.ts';
import { MAX_IDL_BYTES } from './read-idl.ts';

const METADATA_PROGRAM = 'ProgM6JCCvbYkfKqJYHePx4xxSUSqJp7rh8Lyv7nk7S';

function account(content: Uint8Array, compression: number): Buffer {
  const head = Buffer.alloc(96);
  head[0] = 2;
  head[84] = compression;
  head[85] = 1;
  head.writeUInt32LE(content.length, 87);
  return Buffer.concat([head, content]);
}

const read = (content: Uint8Array, compression = 0) => metadataText(METADATA_PROGRAM, account(content, compression));

test('a text is never longer than an interface may be', () => {
  assert.equal(read(Buffer.alloc(MAX_IDL_BYTES, ' '))?.length, MAX_IDL_BYTES);
  assert.equal(read(Buffer.alloc(MAX_IDL_BYTES + 1, ' ')), null);
  assert.equal(read(gzipSync(Buffer.alloc(MAX_IDL_BYTES + 1, ' ')), 1), null);
});

test('bytes that are not UTF-8 are no text', () => {
  assert.equal(read(Buffer.from('{"name":"ü"}')), '{"name":"ü"}');
  assert.equal(read(Buffer.from([0x22, 0xff, 0x22])), null);
  assert.equal(read(gzipSync(Buffer.from([0x22, 0xff, 0x22])), 1), null);
  assert.equal(read(Buffer.from('{}'), 3), null);
});
