import { codeOf } from '../../src/lib/coded-error.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Picture } from '../../src/ports/documents.ts';
import type { OutboundClient, OutboundResponse } from '../../src/ports/outbound.ts';
import type { OffChainConfig } from './config.ts';
import { shapeDocument } from './document-shape.ts';
import { isBelow, locate } from './documents.ts';
import { failed, type OffChainAnswer } from './store.ts';

interface FetchParts {
  /** For addresses that stand on the chain. */
  readonly client: OutboundClient;
  /** For the gateways of the configuration, which may be in a network of one's own. */
  readonly gatewayClient: OutboundClient;
  readonly clock: Clock;
  readonly config: OffChainConfig;
}

interface Wanted {
  readonly accept: string;
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** What was found behind a uri, whole; or why there is none. */
type Found = Buffer | 'TIMEOUT' | 'UNKNOWN';

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
  if (maxBytes === 0) return null;
  const wanted = { accept: 'image/avif,image/webp,image/*', maxBytes, timeoutMs: PICTURE_MS, signal };
  const { document } = await fetchFirst(uri, wanted, parts, (found) => ({ document: pictureOf(found) }));
  return document;
}

/** The first answer with content; without one, the last. */
async function fetchFirst<T extends { readonly document: unknown }>(
  uri: string,
  wanted: Wanted,
  parts: FetchParts,
  read: (found: Found) => T,
): Promise<T> {
  const { clock, config } = parts;
  const location = locate(uri, config);
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
  { accept, maxBytes, signal }: Wanted,
  { client, gatewayClient, clock, config }: FetchParts,
): Promise<Found> {
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
function answerOf(found: Found): OffChainAnswer {
  if (typeof found === 'string') return failed(found);
  const document = shapeDocument(found.toString('utf8'));
  return document === null ? failed('UNKNOWN') : { document, error: '' };
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

function pictureOf(found: Found): Picture | null {
  if (typeof found === 'string') return null;
  const kind = KINDS.find(([, ...parts]) =>
    parts.every(([offset, text]) => found.toString('latin1', offset, offset + text.length) === text),
  );
  return kind === undefined ? null : { bytes: found, contentType: kind[0] };
}
