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
const DATA = /^data:([^,]*),/i;
const ARWEAVE_HOST = 'arweave.net';

/** Finds out what a uri means; null for what leads nowhere. Nothing is asked. */
export function locate(uri: string, { ipfsGateways, arweaveGateways }: Gateways): Location | null {
  const text = uri.trim();
  if (/^data:/i.test(text)) return inline(text);
  if (CID.test(text)) return behind(ipfsGateways, text);
  const ipfs = /^ipfs:\/\/(?:ipfs\/)?(.+)$/i.exec(text)?.[1];
  if (ipfs !== undefined) return behind(ipfsGateways, ipfs);
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
export function isBelow(base: string, url: string): boolean {
  if (!url.startsWith(base) || url.length === base.length) return false;
  let path = url.slice(base.length).split(/[?#]/, 1)[0] as string;
  // Each turn takes one layer of escapes away; what is still escaped then is no path that anybody means.
  for (let layer = 0; layer < MOST_LAYERS; layer += 1) {
    if (path.split(SEGMENTS).some((segment) => segment === '..' || segment === '.')) return false;
    const plain = decoded(path);
    if (plain === path) return true;
    path = plain;
  }
  return false;
}

const MOST_LAYERS = 4;

/** As the most lenient server does it: what is no escape stays. */
const decoded = (text: string): string =>
  text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

function inline(text: string): Location | null {
  const head = DATA.exec(text);
  if (head === null) return null;
  const [type, ...parameters] = (head[1] ?? '').toLowerCase().split(';');
  if (type !== 'application/json' && type !== 'text/plain' && type !== '') return null;
  const body = text.slice(head[0].length);
  try {
    const isBase64 = parameters.some((parameter) => parameter.trim() === 'base64');
    return { kind: 'inline', bytes: isBase64 ? Buffer.from(body, 'base64') : Buffer.from(decodeURIComponent(body)) };
  } catch {
    // A lone per cent sign.
    return null;
  }
}
