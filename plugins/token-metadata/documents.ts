import { LRUCache } from 'lru-cache';
import { codeOf } from '../../src/lib/coded-error.ts';
import { stringify } from '../../src/lib/json.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { OutboundClient, OutboundResponse } from '../../src/ports/outbound.ts';
import type { Picture } from '../../src/ports/tokens.ts';
import { createSemaphore } from '../../src/runtime/semaphore.ts';
import type { OffChainConfig } from './config.ts';
import { shapeDocument } from './document-shape.ts';
import { type DocumentStore, failedDocument, type OffChainAnswer } from './store.ts';

/** The documents that metadata points to, by the uri on the chain. */
export interface Documents {
  /** An entry for each uri; TIMEOUT after `waitMs`, while the fetch continues for later requests. `fresh`: read again. */
  get(uris: readonly string[], options: DocumentOptions): Promise<ReadonlyMap<string, OffChainAnswer>>;
  /** What has been read before; nothing is fetched. */
  known(uris: readonly string[]): Promise<ReadonlyMap<string, OffChainAnswer>>;
  /** What is in memory; undefined: nothing is. */
  peek(uri: string): OffChainAnswer | undefined;
  /** Fetches what is not known, without anybody who waits. */
  later(uris: readonly string[], group: string): void;
  /** Another number than before whenever one more is known. */
  revision(): number;
  /** Documents that wait to be fetched. */
  readonly waiting: () => number;
}

interface DocumentOptions {
  readonly waitMs: number;
  readonly fresh: boolean;
  /** For whom they are: the id of a tenant, or `OWN_WORK`. Fetches of several tenants are served in rotation. */
  readonly group: string;
}

interface DocumentsParts {
  readonly fetch: (uri: string) => Promise<OffChainAnswer>;
  readonly store: DocumentStore;
  readonly clock: Clock;
  readonly config: OffChainConfig;
  readonly cacheBytes: number;
  /** Called with the outcome of each fetch. */
  readonly onFetched?: (error: OffChainAnswer['error']) => void;
}

const ENTRY_BYTES = 300;
/** Part of all permits that one tenant may hold. */
const GROUP_PART = 0.75;

export function createDocuments(parts: DocumentsParts): Documents {
  const { clock, config, store } = parts;
  const memory = new LRUCache<string, OffChainAnswer>({
    maxSize: parts.cacheBytes,
    sizeCalculation: (answer) => ENTRY_BYTES + (answer.document === null ? 0 : stringify(answer.document).length),
    perf: { now: () => clock.now() },
    ttlResolution: 0,
  });
  const semaphore = createSemaphore({
    concurrency: config.concurrency,
    // A tenant whose hosts are all silent leaves some for the others.
    perGroup: Math.max(1, Math.ceil(config.concurrency * GROUP_PART)),
    perPart: config.concurrencyPerHost,
    maxWaiting: config.maxWaiting,
  });
  const hosts = createSilentHosts(clock);
  /** By uri, and by tenant and uri. */
  const started = new Map<string, Promise<OffChainAnswer>>();
  const waiting = new Map<string, Promise<OffChainAnswer>>();
  let revision = 0;

  function keep(uri: string, answer: OffChainAnswer, untilMs: number): void {
    const ttl = untilMs - clock.now();
    if (ttl > 0) memory.set(uri, answer, { ttl });
    revision += 1;
  }

  /** Shares fetches in flight for the same uri. One that waits for another tenant waits in the queue of this one too. */
  function fetch(uri: string, group: string): Promise<OffChainAnswer> {
    const name = `${group} ${uri}`;
    const shared = started.get(uri) ?? waiting.get(name);
    if (shared !== undefined) return shared;
    const host = hostOf(uri, config);
    if (hosts.isSilent(host)) return Promise.resolve(failedDocument('TIMEOUT'));
    let resolve: (answer: OffChainAnswer) => void = () => {};
    const promise = new Promise<OffChainAnswer>((give) => {
      resolve = give;
    });
    waiting.set(name, promise);
    const work = async () => {
      waiting.delete(name);
      const other = started.get(uri) ?? memory.get(uri);
      if (other !== undefined) {
        resolve(await other);
        return;
      }
      // Its documents were queued before the host fell silent.
      if (hosts.isSilent(host)) {
        resolve(failedDocument('TIMEOUT'));
        return;
      }
      started.set(uri, promise);
      const answer = await parts.fetch(uri).catch(() => failedDocument('UNKNOWN'));
      started.delete(uri);
      hosts.note(host, answer.error === 'TIMEOUT');
      parts.onFetched?.(answer.error);
      const untilMs = clock.now() + (answer.document === null ? config.negativeTtlMs : config.ttlMs);
      keep(uri, answer, untilMs);
      store.save(uri, answer, untilMs);
      resolve(answer);
    };
    semaphore.run(work, { group, part: host }).catch(() => {
      waiting.delete(name);
      resolve(failedDocument('UNKNOWN'));
    });
    return promise;
  }

  async function known(uris: readonly string[]): Promise<Map<string, OffChainAnswer>> {
    const found = new Map<string, OffChainAnswer>();
    const missing: string[] = [];
    for (const uri of new Set(uris)) {
      const answer = memory.get(uri);
      if (answer === undefined) missing.push(uri);
      else found.set(uri, answer);
    }
    if (missing.length === 0) return found;
    for (const [uri, { answer, untilMs }] of await store.load(missing)) {
      keep(uri, answer, untilMs);
      found.set(uri, answer);
    }
    return found;
  }

  return {
    async get(uris, { waitMs, fresh, group }) {
      const found = fresh ? new Map<string, OffChainAnswer>() : await known(uris);
      const missing = [...new Set(uris)].filter((uri) => !found.has(uri));
      if (missing.length === 0) return found;
      await new Promise<void>((resolve) => {
        const cancel = clock.timeout(waitMs, resolve);
        const all = missing.map(async (uri) => void found.set(uri, await fetch(uri, group)));
        void Promise.all(all).then(() => {
          cancel();
          resolve();
        });
      });
      // A copy: what is late must not change an answer that was given.
      return new Map([...new Set(uris)].map((uri) => [uri, found.get(uri) ?? failedDocument('TIMEOUT')]));
    },
    known,
    peek: (uri) => memory.get(uri),
    later(uris, group) {
      for (const uri of uris) if (uri !== '') void fetch(uri, group);
    },
    revision: () => revision,
    waiting: semaphore.waiting,
  };
}

/** Timeouts in a row after which a host is left alone, and for how long. */
const MAX_TIMEOUTS = 3;
const SILENT_MS = 60_000;
const MAX_HOSTS = 1_000;

/** Hosts that do not answer: each of their documents would hold a permit for its whole time. */
function createSilentHosts(clock: Clock) {
  const hosts = new LRUCache<string, { readonly timeouts: number; readonly untilMs: number }>({ max: MAX_HOSTS });
  return {
    isSilent: (host: string): boolean => (hosts.get(host)?.untilMs ?? 0) > clock.monotonic(),
    note(host: string, isTimeout: boolean): void {
      if (!isTimeout) {
        hosts.delete(host);
        return;
      }
      const timeouts = (hosts.get(host)?.timeouts ?? 0) + 1;
      // After the pause one more timeout is enough.
      const untilMs = timeouts < MAX_TIMEOUTS ? 0 : clock.monotonic() + SILENT_MS;
      hosts.set(host, { timeouts, untilMs });
    },
  };
}

/** The host that is asked first for a uri; an empty text where none is. */
function hostOf(uri: string, gateways: Gateways): string {
  const location = locateDocument(uri, gateways);
  const url =
    location === null || location.kind === 'inline' ? '' : 'url' in location ? location.url : (location.urls[0] ?? '');
  return URL.canParse(url) ? new URL(url).host : '';
}

/** Where a document can be had. */
export type Location =
  | { readonly kind: 'inline'; readonly bytes: Buffer }
  | { readonly kind: 'web'; readonly url: string }
  /** Addresses below gateways of the configuration, to try in order. */
  | { readonly kind: 'gateways'; readonly urls: readonly string[] };

export interface Gateways {
  readonly ipfsGateways: readonly string[];
  readonly arweaveGateways: readonly string[];
}

/** Both versions of content ids, alone or with a path behind. */
const CID = /^(Qm[1-9A-HJ-NP-Za-km-z]{44}|b[a-z2-7]{58,})(\/.*)?$/;
/** A content id of any version and base: at least 46 letters and digits. */
const CONTENT = /^[A-Za-z0-9]{46,}(?:[/?#]|$)/;
const ARWEAVE_HOST = 'arweave.net';

/** Finds out what a uri means; null for what leads nowhere. Nothing is asked. */
export function locateDocument(uri: string, { ipfsGateways, arweaveGateways }: Gateways): Location | null {
  const text = uri.trim();
  if (/^data:/i.test(text)) return inline(text);
  if (CID.test(text)) return behind(ipfsGateways, text);
  const ipfs = /^ipfs:\/\/(?:ipfs\/)?(.+)$/i.exec(text)?.[1];
  // What has no content id is a path of the gateway's server.
  if (ipfs !== undefined) return CONTENT.test(ipfs) ? behind(ipfsGateways, ipfs) : null;
  const arweave = /^ar:\/\/(.+)$/i.exec(text)?.[1];
  if (arweave !== undefined) return behind(arweaveGateways, arweave);
  if (text.startsWith(`${ARWEAVE_HOST}/`)) return behind(arweaveGateways, text.slice(ARWEAVE_HOST.length + 1));
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return null;
  const isArweave = url.hostname === ARWEAVE_HOST || url.hostname.endsWith(`.${ARWEAVE_HOST}`);
  if (isArweave && url.pathname.length > 1) return behind(arweaveGateways, url.pathname.slice(1) + url.search);
  return { kind: 'web', url: url.href };
}

function behind(gateways: readonly string[], path: string): Location | null {
  const urls = gateways.flatMap((gateway) => belowGateway(gateway, path) ?? []);
  return urls.length === 0 ? null : { kind: 'gateways', urls };
}

const SEGMENTS = /[/\\]/;

/**
 * The address of a path behind a gateway; null for one that leaves it. Whoever writes to the chain chooses the path, and beside a gateway
 * there may be what only its own network should reach.
 */
function belowGateway(gateway: string, path: string): string | null {
  const base = new URL(gateway.endsWith('/') ? gateway : `${gateway}/`).href;
  const url = URL.canParse(base + path) ? new URL(base + path).href : null;
  return url !== null && isBelow(base, url) ? url : null;
}

/** Whether an address is below another one, also for a server that decodes it again. */
function isBelow(base: string, url: string): boolean {
  if (!url.startsWith(base) || url.length === base.length) return false;
  let path = url.slice(base.length).split(/[?#]/, 1)[0] as string;
  // Each turn takes one layer of escapes away; what is still escaped then is no path that anybody means.
  for (let layer = 0; layer < MAX_LAYERS; layer += 1) {
    if (FORGED.test(path) || path.split(SEGMENTS).some((segment) => DOTS.test(segment))) return false;
    const plain = decoded(path);
    if (plain === path) return true;
    path = plain;
  }
  return false;
}

const MAX_LAYERS = 4;
/** The parent or the folder itself; some servers ignore parameters or blanks behind it. */
const DOTS = /^\s*\.{1,2}\s*(?:;|$)/;
/** A NUL, where some servers end a path, and bytes that UTF-8 never has: overlong dots and slashes begin with them. */
const FORGED = /[\0\u00c0\u00c1]/;

/** Decodes `%xx` escapes; text that is no escape stays, as on the most lenient servers. */
const decoded = (text: string): string =>
  text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/**
 * The bytes in a `data:` URI by the rules of WHATWG (URL, and "data: URL processor" of Fetch): what `fetch` reads. Its media type does not
 * matter. Null: it has no comma, or base64 that is malformed.
 */
function inline(text: string): Location | null {
  if (!URL.canParse(text)) return null;
  // The parser drops tabs and line ends, and escapes what is not ASCII.
  const [body = ''] = new URL(text).href.split('#', 1);
  const comma = body.indexOf(',');
  if (comma < 0) return null;
  const bytes = unescapedBytes(body.slice(comma + 1));
  if (!/; *base64$/i.test(body.slice('data:'.length, comma).trim())) return { kind: 'inline', bytes };
  const packed = bytes.toString('latin1').replace(/[\t\n\f\r ]/g, '');
  const digits = packed.length % 4 === 0 ? packed.replace(/={1,2}$/, '') : packed;
  if (digits.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(digits)) return null;
  return { kind: 'inline', bytes: Buffer.from(digits, 'base64') };
}

/** Bytes of ASCII text with `%xx` escapes; a per cent sign that begins no escape stays. */
function unescapedBytes(text: string): Buffer {
  const plain = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(plain, 'latin1');
}

interface FetchParts {
  /** For addresses that stand on the chain. */
  readonly client: OutboundClient;
  /** For the gateways of the configuration, which may be in a network of one's own. */
  readonly gatewayClient: OutboundClient;
  readonly clock: Clock;
  readonly config: OffChainConfig;
}

interface FetchLimits {
  readonly accept: string;
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** What was found behind a uri, whole; or why there is none. */
type FetchedBytes = Buffer | 'TIMEOUT' | 'UNKNOWN';

/** Reads the document behind a uri within the deadline of one document. Never rejects. */
export async function fetchDocument(uri: string, parts: FetchParts): Promise<OffChainAnswer> {
  const { maxBytes, timeoutMs } = parts.config;
  const wanted = { accept: 'application/json, text/plain, */*', maxBytes, timeoutMs };
  return await fetchFirst(uri, wanted, parts, answerOf);
}

/** Pictures are larger than documents, and nobody else waits for one. */
const PICTURE_MS = 15_000;

/** Reads the picture behind a uri; null without one. Never rejects. */
export async function fetchPicture(uri: string, signal: AbortSignal, parts: FetchParts): Promise<Picture | null> {
  const { maxPictureBytes: maxBytes } = parts.config;
  // A picture in its own address needs no daemon to be fetched.
  if (maxBytes === 0 || /^\s*data:/i.test(uri)) return null;
  const wanted = { accept: 'image/avif,image/webp,image/*', maxBytes, timeoutMs: PICTURE_MS, signal };
  const { document } = await fetchFirst(uri, wanted, parts, (found) => ({ document: pictureOf(found) }));
  return document;
}

/** The first answer with content; without one, the last. */
async function fetchFirst<T extends { readonly document: unknown }>(
  uri: string,
  wanted: FetchLimits,
  parts: FetchParts,
  read: (found: FetchedBytes) => T,
): Promise<T> {
  const { clock, config } = parts;
  const location = locateDocument(uri, config);
  if (location === null) return read('UNKNOWN');
  if (location.kind === 'inline') return read(location.bytes.length > wanted.maxBytes ? 'UNKNOWN' : location.bytes);
  const urls = location.kind === 'web' ? [location.url] : location.urls;
  const endsAt = clock.monotonic() + wanted.timeoutMs;
  let last = read('UNKNOWN');
  for (const [index, url] of urls.entries()) {
    const leftMs = endsAt - clock.monotonic();
    if (leftMs <= 0) return read('TIMEOUT');
    // One that is silent must leave time for the next.
    last = read(await fetchFrom(url, location.kind === 'gateways', leftMs / (urls.length - index), wanted, parts));
    if (last.document !== null) return last;
  }
  return last;
}

/**
 * One address, and those that it sends to: the guarded client follows none, and checks each like the first. A gateway that sends elsewhere
 * than below itself is followed like any other address.
 */
async function fetchFrom(
  from: string,
  isGateway: boolean,
  timeoutMs: number,
  { accept, maxBytes, signal }: FetchLimits,
  { client, gatewayClient, clock, config }: FetchParts,
): Promise<FetchedBytes> {
  const gateways = isGateway ? [...config.ipfsGateways, ...config.arweaveGateways].map(withSlash) : [];
  const headers = { accept, 'user-agent': 'parhelion' };
  const endsAt = clock.monotonic() + timeoutMs;
  let url = from;
  for (let redirects = 0; redirects <= config.maxRedirects; redirects += 1) {
    const leftMs = endsAt - clock.monotonic();
    if (leftMs <= 0) return 'TIMEOUT';
    const limits = { timeoutMs: leftMs, keepBytes: maxBytes, maxBytes, ...(signal === undefined ? {} : { signal }) };
    const asked = gateways.some((gateway) => isBelow(gateway, url)) ? gatewayClient : client;
    let response: OutboundResponse;
    try {
      response = await asked.request({ method: 'GET', url, headers, ...limits });
    } catch (error) {
      return codeOf(error) === 'OUTBOUND_TIMEOUT' ? 'TIMEOUT' : 'UNKNOWN';
    }
    const next = redirectOf(response, url);
    if (next === null) return response.status === 200 && !response.truncated ? response.body : 'UNKNOWN';
    url = next;
  }
  return 'UNKNOWN';
}

const withSlash = (gateway: string): string => new URL(gateway.endsWith('/') ? gateway : `${gateway}/`).href;

function redirectOf({ status, headers }: OutboundResponse, from: string): string | null {
  const location = headers['location'];
  if (![301, 302, 303, 307, 308].includes(status) || location === undefined) return null;
  return URL.canParse(location, from) ? new URL(location, from).href : null;
}

/** The content decides, not what it calls itself. */
function answerOf(found: FetchedBytes): OffChainAnswer {
  if (typeof found === 'string') return failedDocument(found);
  const document = shapeDocument(found.toString('utf8'));
  return document === null ? failedDocument('UNKNOWN') : { document, error: '' };
}

/**
 * Pictures that every browser shows, by their first bytes: [content type, [offset, text]…]. No SVG: it is a program, and would come from the
 * origin of the dashboard.
 */
const KINDS: readonly (readonly [contentType: string, ...parts: (readonly [offset: number, text: string])[]])[] = [
  ['image/png', [0, '\x89PNG\r\n\x1a\n']],
  ['image/jpeg', [0, '\xff\xd8\xff']],
  ['image/gif', [0, 'GIF87a']],
  ['image/gif', [0, 'GIF89a']],
  ['image/webp', [0, 'RIFF'], [8, 'WEBP']],
  ['image/avif', [4, 'ftypavif']],
  ['image/avif', [4, 'ftypavis']],
];

function pictureOf(found: FetchedBytes): Picture | null {
  if (typeof found === 'string') return null;
  const kind = KINDS.find(([, ...parts]) =>
    parts.every(([offset, text]) => found.toString('latin1', offset, offset + text.length) === text),
  );
  return kind === undefined ? null : { bytes: found, contentType: kind[0] };
}
