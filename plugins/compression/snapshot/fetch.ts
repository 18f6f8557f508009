import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { CodedError } from '../../../src/kernel/plugin.ts';

/** Downloads a snapshot of another daemon's operator into a temporary file. Errors: COMPRESSION_SNAPSHOT_FETCH. */
export async function fetchSnapshot(url: string): Promise<{ readonly file: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'parhelion-snapshot-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    // An address without a path is that of the server.
    const address = new URL(url);
    if (address.pathname === '/') address.pathname = '/latest';
    const response = await fetch(address);
    if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
    const file = join(folder, 'snapshot');
    await pipeline(Readable.fromWeb(response.body as ReadableStream), createWriteStream(file, { mode: 0o600 }));
    return { file, remove };
  } catch (cause) {
    await remove();
    throw new CodedError('COMPRESSION_SNAPSHOT_FETCH', 'the snapshot cannot be downloaded', { cause, exitCode: 75 });
  }
}
