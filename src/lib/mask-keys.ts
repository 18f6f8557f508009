/**
 * Takes API keys out of what is written to logs and traces. Keys come in places where nobody expects them: in the path, below another
 * name, in the name of a method. So everything of the form of a key is masked wherever it stands, and the value of every name that sounds
 * like one. A key may be any text, and one of an own form that is short is recognised by its name only.
 */

/** The form of the keys that are made here, also without its dashes; the first characters are those that lists of keys show. */
const UUID = /([0-9a-f]{8})-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/gi;
const KEY_CHARACTERS = /[\w.-]{20,}/g;
/** Addresses and signatures are public, and what somebody who reads a log looks for. */
const PUBLIC = /^(?:\d+|[1-9A-HJ-NP-Za-km-z]{32,44}|[1-9A-HJ-NP-Za-km-z]{86,88})$/;
const NAMED =
  /((?:key|token|secret|password|passwd|credential)[\w.[\]-]*["']?=|(?:api[-_ ]?key|authorization|password|secret)["']?\s*[=:]\s*["']?(?:bearer\s+|basic\s+)?|bearer\s+)([^\s&;,"'?]+)/gi;
const KEY_NAME = /(?:key|token|secret|password|passwd|auth|authorization|bearer|credential)s?$/;
const METHOD = /^[A-Za-z_]*(?:V\d)?$/;
const SHORT = 12;
const MASK = '***';

/** A text of any kind, such as the name of a client or an error. */
export function maskKeys(text: string): string {
  if (text.length < 4) return text;
  return text
    .replace(NAMED, `$1${MASK}`)
    .replace(UUID, `$1-${MASK}`)
    .replace(KEY_CHARACTERS, (token) => (isLikeKey(token) ? `${token.slice(0, 4)}${MASK}` : token));
}

/** Long, and made of letters and several digits: no word, no version. */
function isLikeKey(token: string): boolean {
  return !PUBLIC.test(token) && /[A-Za-z]/.test(token) && token.replace(/\D/g, '').length >= 4;
}

/** A raw query. Parts that need no mask stay byte by byte as they came. */
export function maskQuery(query: string): string {
  if (query === '') return '';
  if (query.startsWith('api-key=') && !/[&;?]/.test(query)) return `api-key=${MASK}`;
  // Clients that add a second `?`, or separate by `;`, mean what they would mean with `&`.
  return query
    .split(/([&;?])/)
    .map((part) => maskPart(part))
    .join('');
}

function maskPart(part: string): string {
  const mark = part.indexOf('=');
  if (mark < 0) return maskSegment(part);
  const [name, value] = [part.slice(0, mark), part.slice(mark + 1)];
  if (
    value !== '' &&
    KEY_NAME.test(
      fullyDecoded(name)
        .toLowerCase()
        .replace(/[^a-z]/g, ''),
    )
  )
    return `${maskRaw(name)}=${MASK}`;
  return `${maskRaw(name)}=${maskRaw(value)}`;
}

/** Masked as what it decodes to; as it came when that needs no mask. */
function maskRaw(raw: string): string {
  const decoded = fullyDecoded(raw);
  const masked = decoded.includes('?') || decoded.includes('&') ? maskInside(decoded) : maskKeys(decoded);
  return masked === decoded ? raw : masked;
}

/** An address inside of a value. */
function maskInside(text: string): string {
  const mark = text.search(/[?&]/);
  const [before, after] = [text.slice(0, mark + 1), text.slice(mark + 1)];
  return maskKeys(before) + maskQuery(after);
}

/** The path of a request; what is not written so in the pattern of its route is somebody's text. */
export function maskPath(path: string, pattern: string): string {
  if (path === pattern) return path;
  const known = pattern.split('/');
  return path
    .split('/')
    .map((segment, at) => (segment === known[at] ? segment : maskSegment(segment)))
    .join('/');
}

/** The method of a JSON-RPC call, or another label. */
export function maskMethod(name: string): string {
  return METHOD.test(name) ? name : maskSegment(name);
}

function maskSegment(segment: string): string {
  const decoded = fullyDecoded(segment);
  // An address of hexadecimal digits alone does not happen; a key without its dashes does.
  if (PUBLIC.test(decoded) && decoded.search(UUID) < 0) return segment;
  const masked = maskKeys(decoded);
  if (masked !== decoded) return masked;
  return decoded.length < SHORT ? segment : `${decoded.slice(0, 4)}${MASK}`;
}

/** A key may have been escaped more than once on its way. */
function fullyDecoded(text: string): string {
  let decoded = text.includes('+') ? text.replaceAll('+', ' ') : text;
  for (let times = 0; times < 4 && decoded.includes('%'); times += 1) {
    // Escape by escape: a broken one must not hide the others.
    const next = decoded.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
      try {
        return decodeURIComponent(escapes);
      } catch {
        return escapes.replace(/%([0-7][0-9a-f])/gi, (_all, hex: string) =>
          String.fromCharCode(Number.parseInt(hex, 16)),
        );
      }
    });
    if (next === decoded) break;
    decoded = next;
  }
  return decoded;
}

/** Longer names come only from clients who make them up. */
const MAX_NAME = 100;

export const shortName = (name: string): string => (name.length <= MAX_NAME ? name : name.slice(0, MAX_NAME));
