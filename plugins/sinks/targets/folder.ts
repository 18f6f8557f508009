import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { codeOf, messageOf } from '../../../src/lib/coded-error.ts';
import type { OpenSink, SinkBatch, SinkPosition, SinkRow, SinkTarget } from '../../../src/ports/sink.ts';
import { refused, targetMoved, unreachable } from '../errors.ts';
import {
  type FileFormat,
  type Manifest,
  type ManifestFile,
  manifestBytes,
  nameOf,
  PART,
  readManifest,
  sha256,
  sinkPositionOf,
} from './manifest.ts';

const BATCH = /^\d{12}$/;
const TEMPORARY = 'tmp';
/** Folders of writers that have died. A batch is written within seconds. */
const STALE_MS = 3_600_000;

/**
 * Rows as files in a folder: `FOLDER/PART/FIRST_SLOT/TABLE.ending`. A batch is written beside them, synchronized, and appears with one rename of
 * its folder. The rename fails if a batch with this first slot exists, so of two writers one writes nothing.
 */
export async function openFolder(sink: OpenSink, format: FileFormat): Promise<SinkTarget> {
  if (!isAbsolute(sink.target)) throw refused(`sink ${sink.name}: the target must be an absolute path of a folder`);
  const target = new FolderTarget(sink, format);
  await target.prepare();
  return target;
}

class FolderTarget implements SinkTarget {
  readonly #sink: OpenSink;
  readonly #format: FileFormat;

  constructor(sink: OpenSink, format: FileFormat) {
    this.#sink = sink;
    this.#format = format;
  }

  async prepare(): Promise<void> {
    await this.#guarded(async () => {
      const temporary = join(this.#sink.target, TEMPORARY);
      await mkdir(temporary, { recursive: true });
      for (const name of await readdir(temporary)) {
        const path = join(temporary, name);
        const { mtimeMs } = await stat(path);
        if (Date.now() - mtimeMs > STALE_MS) await rm(path, { recursive: true, force: true });
      }
    });
  }

  async positions(): Promise<readonly SinkPosition[]> {
    return await this.#guarded(async () => {
      const positions: SinkPosition[] = [];
      for (const part of (await readdir(this.#sink.target)).filter((name) => PART.test(name)).toSorted()) {
        const last = (await this.#batches(part)).at(-1);
        if (last === undefined) continue;
        positions.push(sinkPositionOf(await this.#manifest(part, last)));
      }
      return positions;
    });
  }

  async write(batch: SinkBatch): Promise<SinkPosition> {
    const { part } = batch.position;
    return await this.#guarded(async () => {
      const folder = join(this.#sink.target, part);
      await mkdir(folder, { recursive: true });
      const last = (await this.#batches(part)).at(-1);
      const known = last === undefined ? null : await this.#manifest(part, last);
      if ((known?.last ?? null) !== (batch.after?.last ?? null)) throw targetMoved(this.#sink.name);
      const temporary = join(this.#sink.target, TEMPORARY, randomUUID());
      try {
        await this.#fill(temporary, batch);
        await this.#publish(temporary, join(folder, nameOf(batch.first)));
      } catch (error) {
        await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
        throw error;
      }
      await synchronized(folder);
      // The folder of the part is new.
      if (known === null) await synchronized(this.#sink.target);
      return batch.position;
    });
  }

  async #fill(folder: string, batch: SinkBatch): Promise<void> {
    await mkdir(folder);
    const files: ManifestFile[] = [];
    for (const table of this.#sink.tables) {
      const found = batch.rows.get(table.name) ?? [];
      const bytes = await this.#format.encode(table, found);
      const name = `${table.name}.${this.#format.ending}`;
      await writeFully(join(folder, name), bytes);
      files.push({ table: table.name, name, rows: found.length, bytes: bytes.length, sha256: sha256(bytes) });
    }
    await writeFully(join(folder, 'manifest.json'), manifestBytes(batch, this.#sink.version, files));
    await synchronized(folder);
  }

  async #publish(temporary: string, place: string): Promise<void> {
    try {
      await rename(temporary, place);
    } catch (error) {
      const code = codeOf(error);
      if (code === 'ENOTEMPTY' || code === 'EEXIST') throw targetMoved(this.#sink.name);
      throw error;
    }
  }

  async read(table: string, first: number, last: number): Promise<readonly SinkRow[]> {
    const described = this.#sink.tables.find(({ name }) => name === table);
    if (described === undefined) return [];
    return await this.#guarded(async () => {
      const rows: SinkRow[] = [];
      for (const part of (await readdir(this.#sink.target)).filter((name) => PART.test(name))) {
        const batches = await this.#batches(part);
        for (const [at, batch] of batches.entries()) {
          const next = batches[at + 1];
          if (Number(batch) > last || (next !== undefined && Number(next) <= first)) continue;
          const manifest = await this.#manifest(part, batch);
          const file = manifest.files.find((one) => one.table === table);
          // A table that the sink got only later.
          if (file === undefined) continue;
          const bytes = await readFile(join(this.#sink.target, part, batch, file.name));
          if (sha256(bytes) !== file.sha256)
            throw refused(`sink ${this.#sink.name}: ${part}/${batch}/${file.name} was changed`);
          for (const row of await this.#format.decode(described, bytes)) {
            const slot = Number(row[0]);
            if (slot >= first && slot <= last) rows.push(row);
          }
        }
      }
      return rows;
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #batches(part: string): Promise<readonly string[]> {
    return (await readdir(join(this.#sink.target, part))).filter((name) => BATCH.test(name)).toSorted();
  }

  async #manifest(part: string, batch: string): Promise<Manifest> {
    const path = join(this.#sink.target, part, batch, 'manifest.json');
    const manifest = readManifest(await readFile(path, 'utf8'));
    if (manifest === null) throw refused(`sink ${this.#sink.name}: ${path} is no manifest`);
    if (manifest.rowsVersion > this.#sink.version)
      throw refused(`sink ${this.#sink.name}: its rows are of version ${manifest.rowsVersion}`);
    return manifest;
  }

  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (codeOf(error)?.startsWith('SINKS_') === true) throw error;
      throw unreachable(`sink ${this.#sink.name}: its folder cannot be used: ${messageOf(error)}`, error);
    }
  }
}

async function writeFully(path: string, bytes: Buffer): Promise<void> {
  const file = await open(path, 'wx', 0o644);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function synchronized(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
