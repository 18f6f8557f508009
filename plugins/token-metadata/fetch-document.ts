import { codeOf } from '../../src/lib/coded-error.ts';
import type { Clock } from '../../src/ports/clock.ts';
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

const HEADERS = { accept: 'application/json, text/plain, */*', 'user-agent': 'parhelion' } as const;

/** Reads the document behind a uri within the deadline of one document. Never rejects. */
export async function fetchDocument(uri: string, parts: FetchParts): Promise<OffChainAnswer> {
  const { clock, config } = parts;
  const location = locate(uri, config);
  if (location === null) return failed('UNKNOWN');
  if (location.kind === 'inline') return answerOf(location.bytes.length > config.maxBytes ? null : location.bytes);
  const urls = location.kind === 'web' ? [location.url] : location.urls;
  const endsAt = clock.monotonic() + config.timeoutMs;
  let last = failed('UNKNOWN');
  for (const [index, url] of urls.entries()) {
    const leftMs = endsAt - clock.monotonic();
    if (leftMs <= 0) return failed('TIMEOUT');
    // One that is silent must leave time for the next.
    last = await fetchFrom(url, location.kind === 'gateways', leftMs / (urls.length - index), parts);
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
  { client, gatewayClient, clock, config }: FetchParts,
): Promise<OffChainAnswer> {
  const gateways = isGateway ? [...config.ipfsGateways, ...config.arweaveGateways].map(withSlash) : [];
  const endsAt = clock.monotonic() + timeoutMs;
  let url = from;
  for (let redirects = 0; redirects <= config.maxRedirects; redirects += 1) {
    const leftMs = endsAt - clock.monotonic();
    if (leftMs <= 0) return failed('TIMEOUT');
    const limits = { timeoutMs: leftMs, keepBytes: config.maxBytes, maxBytes: config.maxBytes };
    const asked = gateways.some((gateway) => isBelow(gateway, url)) ? gatewayClient : client;
    let response: OutboundResponse;
    try {
      response = await asked.request({ method: 'GET', url, headers: HEADERS, ...limits });
    } catch (error) {
      return failed(codeOf(error) === 'OUTBOUND_TIMEOUT' ? 'TIMEOUT' : 'UNKNOWN');
    }
    const next = redirectOf(response, url);
    if (next === null) return answerOf(response.status === 200 && !response.truncated ? response.body : null);
    url = next;
  }
  return failed('UNKNOWN');
}

const withSlash = (gateway: string): string => new URL(gateway.endsWith('/') ? gateway : `${gateway}/`).href;

function redirectOf({ status, headers }: OutboundResponse, from: string): string | null {
  const location = headers['location'];
  if (![301, 302, 303, 307, 308].includes(status) || location === undefined) return null;
  return URL.canParse(location, from) ? new URL(location, from).href : null;
}

/** The content decides, not what it calls itself. */
function answerOf(bytes: Buffer | null): OffChainAnswer {
  const document = bytes === null ? null : shapeDocument(bytes.toString('utf8'));
  return document === null ? failed('UNKNOWN') : { document, error: '' };
}
