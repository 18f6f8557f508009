/** A request target, split but not yet matched. */
export interface Target {
  /** Percent-decoded where needed, without its trailing slash; what the static table is asked for. */
  readonly path: string;
  /** The same path with every segment encoded again, so that a decoded `?` or `%` cannot confuse a router. */
  readonly routable: string;
  /** Raw query text without `?`. */
  readonly query: string;
  /** False when an escape is broken, or a segment decodes to a slash or a control character. */
  readonly ok: boolean;
}

const PLAIN = /^[A-Za-z0-9\-._~/:@!$&'()*+,;=]*$/;
const ABSOLUTE = /^https?:\/\/[^/?]*/i;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
const FORBIDDEN = /[\u0000-\u001f\u007f/]/;

/**
 * Splits a raw target at its first `?`. `new URL` is not used: a target that starts with `//` would replace the host. An
 * absolute-form target loses its origin. One trailing slash is dropped; inner double slashes stay.
 */
export function parseTarget(raw: string): Target {
  const target = raw.charCodeAt(0) === 0x2f ? raw : raw.replace(ABSOLUTE, '');
  const mark = target.indexOf('?');
  const query = mark < 0 ? '' : target.slice(mark + 1);
  let path = mark < 0 ? target : target.slice(0, mark);
  if (path === '') path = '/';
  if (path.length > 1 && path.charCodeAt(path.length - 1) === 0x2f) path = path.slice(0, -1);
  if (PLAIN.test(path)) return { path, routable: path, query, ok: true };
  return decodePath(path, query);
}

function decodePath(path: string, query: string): Target {
  const segments: string[] = [];
  for (const raw of path.split('/')) {
    const segment = decodeSegment(raw);
    if (segment === null) return { path, routable: path, query, ok: false };
    segments.push(segment);
  }
  return { path: segments.join('/'), routable: segments.map(encodeURIComponent).join('/'), query, ok: true };
}

function decodeSegment(raw: string): string | null {
  // Raw bytes above 127 are no legal target: a client has to encode them.
  for (let i = 0; i < raw.length; i += 1) if (raw.charCodeAt(i) > 0x7e) return null;
  try {
    const segment = decodeURIComponent(raw);
    return FORBIDDEN.test(segment) ? null : segment;
  } catch {
    return null;
  }
}
