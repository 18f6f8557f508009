import { randomUUID } from 'node:crypto';
import { codeOf, messageOf } from '../../../src/lib/coded-error.ts';
import type { OpenSink, SinkBatch, SinkKind, SinkPosition, SinkRow, SinkTarget } from '../../../src/ports/sink.ts';
import { callPeer, type PeerCall } from '../../../src/runtime/call-peer.ts';
import { loadOptional } from '../../../src/runtime/optional-package.ts';
import { refused, targetMoved, unreachable } from '../errors.ts';
import {
  type FileFormat,
  MAX_SLOT,
  type Manifest,
  type ManifestFile,
  manifestBytes,
  nameOf,
  PART,
  readManifest,
  sha256,
  sinkPositionOf,
} from './manifest.ts';
import { parquetFormat } from './parquet.ts';

/**
 * Rows as Parquet files in a bucket. The files of a batch have names that nobody else has; the batch is there when its manifest is, which is put
 * only if there is none for its first slot. So of two writers one writes nothing, and what broke off is in no manifest.
 */
export const s3Kind = (folders: readonly string[]): SinkKind => ({
  kind: 's3',
  batch: { slots: 4_096, seconds: 300 },
  open: async (sink) => await openS3(sink, folders),
});

/** What is used of aws4fetch: the signature of a request. */
interface Aws4Fetch {
  readonly AwsClient: new (
    options: object,
  ) => {
    sign(url: string, call: PeerCall): Promise<Request>;
  };
}

const CLIENT = { name: 'aws4fetch', version: '1.0.20' };
const TIMEOUT_MS = 60_000;
const PAGE = 1_000;

async function openS3(sink: OpenSink, folders: readonly string[]): Promise<SinkTarget> {
  const { url, login } = addressOf(sink);
  const { AwsClient } = await loadOptional<Aws4Fetch>(CLIENT, folders, refused);
  const client = new AwsClient({ ...login, service: 's3' });
  // A request that fails ends the batch; the sink repeats it.
  const send = async (address: string, call: PeerCall) => {
    const { url: signed, headers } = await client.sign(address, call);
    return await callPeer(signed, { ...call, headers });
  };
  return new S3Target(sink, new Bucket(sink.name, url, send));
}

/**
 * `s3://[KEY:SECRET@]HOST[:PORT]/BUCKET[/PREFIX][?region=REGION][&tls=false]`. Without a key: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
 * AWS_SESSION_TOKEN of the environment.
 */
function addressOf({ name, target }: OpenSink): { readonly url: string; readonly login: object } {
  const given = URL.canParse(target) ? new URL(target) : null;
  const path = given?.pathname.replace(/\/+$/, '') ?? '';
  if (given?.protocol !== 's3:' || given.host === '' || path === '')
    throw refused(`sink ${name}: the target must be s3://HOST/BUCKET/PREFIX`);
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION } = process.env;
  const isOwn = given.username !== '';
  const accessKeyId = isOwn ? decodeURIComponent(given.username) : AWS_ACCESS_KEY_ID;
  const secretAccessKey = isOwn ? decodeURIComponent(given.password) : AWS_SECRET_ACCESS_KEY;
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw refused(`sink ${name}: no key, in the target or as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`);
  const token = isOwn || AWS_SESSION_TOKEN === undefined ? {} : { sessionToken: AWS_SESSION_TOKEN };
  const region = given.searchParams.get('region') ?? AWS_REGION ?? 'us-east-1';
  const scheme = given.searchParams.get('tls') === 'false' ? 'http' : 'https';
  return { url: `${scheme}://${given.host}${path}`, login: { accessKeyId, secretAccessKey, region, ...token } };
}

type Call = (url: string, call: PeerCall) => Promise<Response>;

/** Objects below a prefix. Errors: SINKS_UNREACHABLE, SINKS_REFUSED. */
class Bucket {
  readonly #name: string;
  /** Address of the bucket, and the prefix in it, with its slash. */
  readonly #root: string;
  readonly #prefix: string;
  readonly #call: Call;

  constructor(name: string, url: string, call: Call) {
    const { origin, pathname } = new URL(url);
    const [bucket = '', ...rest] = pathname.slice(1).split('/');
    this.#name = name;
    this.#root = `${origin}/${bucket}`;
    this.#prefix = rest.length === 0 ? '' : `${decodeURIComponent(rest.join('/'))}/`;
    this.#call = call;
  }

  /** Whether it was put: not if there is one already and `isNew` asks for none. */
  async put(key: string, body: Buffer, isNew: boolean): Promise<boolean> {
    const headers = {
      'content-type': 'application/octet-stream',
      'x-amz-content-sha256': sha256(body),
      ...(isNew ? { 'if-none-match': '*' } : {}),
    };
    const { status } = await this.#send(this.#address(key), { method: 'PUT', headers, body }, [200, 412]);
    return status === 200;
  }

  async get(key: string): Promise<Buffer> {
    const { body } = await this.#send(this.#address(key), { method: 'GET' }, [200]);
    return body;
  }

  async remove(key: string): Promise<void> {
    await this.#send(this.#address(key), { method: 'DELETE' }, [200, 204, 404]);
  }

  /** Names directly below a folder, ascending, behind `after`; those of folders end in a slash. */
  async list(folder: string, after: string | null, limit = PAGE): Promise<readonly string[]> {
    const prefix = `${this.#prefix}${folder}`;
    const query = new URLSearchParams({ 'list-type': '2', delimiter: '/', prefix, 'max-keys': String(limit) });
    if (after !== null) query.set('start-after', `${prefix}${after}`);
    const { body } = await this.#send(`${this.#root}?${query}`, { method: 'GET' }, [200]);
    const found = [...body.toString().matchAll(/<(?:Key|CommonPrefixes>\s*<Prefix)>([^<]*)</g)];
    const names = found.map(([, key = '']) => /[^/]*\/?$/.exec(key)![0]);
    return names.filter((name) => name !== '').toSorted();
  }

  #address(key: string): string {
    return `${this.#root}/${`${this.#prefix}${key}`.split('/').map(encodeURIComponent).join('/')}`;
  }

  async #send(url: string, call: PeerCall, accepted: readonly number[]): Promise<{ status: number; body: Buffer }> {
    let status: number;
    let body: Buffer;
    try {
      const response = await this.#call(url, { ...call, signal: AbortSignal.timeout(TIMEOUT_MS) });
      status = response.status;
      body = Buffer.from(await response.arrayBuffer());
    } catch (error) {
      throw unreachable(`sink ${this.#name}: the bucket does not answer: ${codeOf(error) ?? messageOf(error)}`, error);
    }
    if (accepted.includes(status)) return { status, body };
    const code = /<Code>([^<]*)</.exec(body.toString())?.[1] ?? 'no code';
    throw unreachable(`sink ${this.#name}: the bucket answers ${status} (${code})`, null);
  }
}

class S3Target implements SinkTarget {
  readonly #sink: OpenSink;
  readonly #bucket: Bucket;
  readonly #format: FileFormat;
  /** First slots of the newest batches that were seen, by part. */
  readonly #known = new Map<string, number>();

  constructor(sink: OpenSink, bucket: Bucket) {
    this.#sink = sink;
    this.#bucket = bucket;
    this.#format = parquetFormat(sink);
  }

  async positions(): Promise<readonly SinkPosition[]> {
    const positions: SinkPosition[] = [];
    for (const part of await this.#parts()) {
      const newest = await this.#newest(part, MAX_SLOT);
      if (newest !== null) positions.push(sinkPositionOf(newest));
    }
    return positions;
  }

  async write(batch: SinkBatch): Promise<SinkPosition> {
    const { part } = batch.position;
    const known = await this.#newest(part, MAX_SLOT);
    if ((known?.last ?? null) !== (batch.after?.last ?? null)) throw targetMoved(this.#sink.name);
    if (known === null) await this.#probe();
    const files: ManifestFile[] = [];
    for (const table of this.#sink.tables) {
      const rows = batch.rows.get(table.name) ?? [];
      const bytes = await this.#format.encode(table, rows);
      const name = `rows/${part}/${nameOf(batch.first)}/${table.name}-${randomUUID()}.parquet`;
      await this.#bucket.put(name, bytes, false);
      files.push({ table: table.name, name, rows: rows.length, bytes: bytes.length, sha256: sha256(bytes) });
    }
    const manifest = manifestBytes(batch, this.#sink.version, files);
    if (await this.#bucket.put(this.#key(part, batch.first), manifest, true)) return batch.position;
    for (const { name } of files) await this.#bucket.remove(name);
    throw targetMoved(this.#sink.name);
  }

  async read(table: string, first: number, last: number): Promise<readonly SinkRow[]> {
    const described = this.#sink.tables.find(({ name }) => name === table);
    if (described === undefined) return [];
    const rows: SinkRow[] = [];
    for (const part of await this.#parts()) {
      let manifest = (await this.#newest(part, first)) ?? (await this.#next(part, first));
      for (; manifest !== null && manifest.from <= last; manifest = await this.#next(part, manifest.from + 1)) {
        const file = manifest.files.find((one) => one.table === table);
        // A table that the sink got only later, or a batch below the slots.
        if (file === undefined || manifest.last < first) continue;
        const bytes = await this.#bucket.get(file.name);
        if (sha256(bytes) !== file.sha256) throw refused(`sink ${this.#sink.name}: ${file.name} was changed`);
        for (const row of await this.#format.decode(described, bytes)) {
          const slot = Number(row[0]);
          if (slot >= first && slot <= last) rows.push(row);
        }
      }
    }
    return rows;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #key(part: string, slot: number): string {
    return `manifests/${part}/${nameOf(slot)}.json`;
  }

  async #parts(): Promise<readonly string[]> {
    const names = await this.#bucket.list('manifests/', null);
    return names.map((name) => name.replace(/\/$/, '')).filter((name) => PART.test(name));
  }

  /** First slot of the lowest batch that does not begin below a slot; null: none. */
  async #slotFrom(part: string, slot: number): Promise<number | null> {
    const [name] = await this.#bucket.list(`manifests/${part}/`, slot === 0 ? null : `${nameOf(slot - 1)}.json`, 1);
    return name === undefined ? null : Number(name.slice(0, -'.json'.length));
  }

  async #next(part: string, slot: number): Promise<Manifest | null> {
    const found = await this.#slotFrom(part, slot);
    return found === null ? null : await this.#manifest(part, found);
  }

  /** The batch that begins highest at or below a slot: lists only go upwards, so it is found by halves. */
  async #newest(part: string, slot: number): Promise<Manifest | null> {
    // Batches are only added: one that is known is mostly the newest still.
    const known = this.#known.get(part) ?? -1;
    let newest: number | null = known >= 0 && known <= slot ? known : null;
    let isFirst = newest !== null;
    for (let [low, high] = [newest === null ? 0 : newest + 1, slot]; low <= high; isFirst = false) {
      const middle = isFirst ? low : low + Math.ceil((high - low) / 2);
      const found = await this.#slotFrom(part, middle);
      if (found === null || found > high) high = middle - 1;
      else {
        newest = found;
        low = found + 1;
      }
    }
    if (newest === null) return null;
    this.#known.set(part, Math.max(newest, known));
    return await this.#manifest(part, newest);
  }

  async #manifest(part: string, slot: number): Promise<Manifest> {
    const key = this.#key(part, slot);
    const manifest = readManifest((await this.#bucket.get(key)).toString());
    if (manifest === null) throw refused(`sink ${this.#sink.name}: ${key} is no manifest`);
    if (manifest.rowsVersion > this.#sink.version)
      throw refused(`sink ${this.#sink.name}: its rows are of version ${manifest.rowsVersion}`);
    return manifest;
  }

  /** A store that ignores the condition would let two writers both succeed. */
  async #probe(): Promise<void> {
    const key = `probes/${randomUUID()}`;
    const puts = [
      await this.#bucket.put(key, Buffer.from('x'), true),
      await this.#bucket.put(key, Buffer.from('x'), true),
    ];
    await this.#bucket.remove(key);
    if (!puts[0] || puts[1])
      throw refused(`sink ${this.#sink.name}: the store ignores If-None-Match, which S3 has and this sink needs`);
  }
}
