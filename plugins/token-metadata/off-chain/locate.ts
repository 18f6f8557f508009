/** Where a document can be had. */
export type Location =
  | { readonly kind: 'inline'; readonly bytes: Buffer }
  /** Addresses to try, in order. */
  | { readonly kind: 'web'; readonly urls: readonly string[] };

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
  return { kind: 'web', urls: [url.href] };
}

function behind(gateways: readonly string[], path: string): Location | null {
  const urls = gateways.map((gateway) => (gateway.endsWith('/') ? gateway : `${gateway}/`) + path);
  return urls.length === 0 ? null : { kind: 'web', urls };
}

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
