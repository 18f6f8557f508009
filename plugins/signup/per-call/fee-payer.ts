import { createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { link, mkdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { threadId } from 'node:worker_threads';
import { encode32 } from '../../../src/lib/base58.ts';
import { codeOf } from '../../../src/lib/coded-error.ts';
import { byteList } from '../../../src/lib/json.ts';
import { keypairText } from '../../../src/solana/ed25519.ts';
import { perCallRefused } from './refused.ts';

/** Signs payments as the wallet that pays their fees. The key leaves this file only as an object that cannot be read. */
export interface FeePayer {
  readonly address: string;
  sign(message: Uint8Array): Uint8Array;
}

const KEY_BYTES = 64;

/** Reads a file of solana-keygen. `make`: writes one for its owner alone if there is none. Errors: SIGNUP_PER_CALL, without what the file contains. */
export async function readFeePayer(path: string, make: ((bytes: number) => Uint8Array) | null): Promise<FeePayer> {
  const text = await readFile(path, 'utf8').catch(async (error: unknown) => {
    if (make === null || codeOf(error) !== 'ENOENT') throw perCallRefused(`${path} cannot be read`);
    return await writeNew(path, make(KEY_BYTES / 2));
  });
  const bytes = bytesOf(text);
  if (bytes?.length !== KEY_BYTES) throw perCallRefused(`${path} is no keypair of ${KEY_BYTES} numbers`);
  const secret = secretOf(bytes.subarray(0, KEY_BYTES / 2), bytes.subarray(KEY_BYTES / 2), path);
  return { address: encode32(bytes.subarray(KEY_BYTES / 2)), sign: (message) => sign(null, message, secret) };
}

/** Another thread may be faster: then its file counts. */
async function writeNew(path: string, seed: Uint8Array): Promise<string> {
  const text = keypairText(seed);
  const draft = `${path}.${process.pid}-${threadId}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(draft, text, { mode: 0o600 });
    // Whole or not at all: threads start together, and one of them is first.
    await link(draft, path).finally(() => unlink(draft));
    return text;
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw perCallRefused(`${path} cannot be written`);
    return await readFile(path, 'utf8');
  }
}

function bytesOf(text: string): Uint8Array | null {
  try {
    return byteList(JSON.parse(text));
  } catch {
    return null;
  }
}

function secretOf(seed: Uint8Array, address: Uint8Array, path: string): KeyObject {
  const [d, x] = [seed, address].map((half) => Buffer.from(half).toString('base64url'));
  try {
    return createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d: d as string, x: x as string }, format: 'jwk' });
  } catch {
    throw perCallRefused(`${path} is no keypair`);
  }
}
