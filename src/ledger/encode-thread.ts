import { parentPort } from 'node:worker_threads';
import { messageOf } from '../lib/coded-error.ts';
import type { EncodeAnswer, EncodeFailure, EncodeRequest } from './ahead.ts';
import { type BlockUsage, emptyDictionary, readDictionary } from './dictionary.ts';
import { payloadOf } from './payload.ts';
import { packRows, rowsOf } from './rows.ts';
import { decodedBlock } from './stored-blocks.ts';

/** Entry file of a thread that encodes blocks; it answers in the order of the requests. */

const port = parentPort!;
let dictionary = emptyDictionary();
let last = Promise.resolve();

port.on('message', (request: EncodeRequest) => {
  last = last.then(async () => {
    const answer = await encode(request).catch(
      (error: unknown): EncodeFailure => ({ slot: request.slot, error: messageOf(error) }),
    );
    port.postMessage(answer, 'error' in answer ? [] : [answer.payload.bytes.buffer as ArrayBuffer]);
  });
});

async function encode({ slot, text: bytes, hasIndex, dictionary: next }: EncodeRequest): Promise<EncodeAnswer> {
  if (next !== null) dictionary = next.length === 0 ? emptyDictionary() : readDictionary(Buffer.from(next));
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const block = decodedBlock(slot, text);
  const rows = hasIndex ? rowsOf(block) : null;
  const payload = await payloadOf(block, text, dictionary, rows);
  return {
    payload: { ...payload, bytes: own(payload.bytes), seen: payload.seen === null ? null : ownSeen(payload.seen) },
    rows: rows === null ? null : packRows(rows),
    dictionary: dictionary.crc,
  };
}

/** A view is copied with all of the memory that it is a part of. */
const own = (bytes: Uint8Array) => new Uint8Array(bytes);

function ownSeen({ used, keys, lines, newTokens, part }: BlockUsage): BlockUsage {
  const tokens = newTokens.map(({ kind, run }) => ({ kind, run: own(run) }));
  return { used, keys: own(keys), lines, newTokens: tokens, part: own(part) };
}
